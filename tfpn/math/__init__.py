"""The functional core: pure functions on tensors, without Keras and without state."""

from tfpn.math.activations import (
    bivariate_normal_cdf,
    rectified_covariance,
    rectified_moments,
    rectified_product_moment,
    rectified_raw_moments,
)
from tfpn.math.convolution import (
    convolve,
    convolve_joint,
    convolve_low_rank,
    convolve_mean,
    convolve_process,
    integrate,
)
from tfpn.math.coupled import coupled_kernel
from tfpn.math.kernels import (
    ball_integrals,
    box_integrals,
    diffused_kernel,
    disc_integrals,
    kernel_integral,
    rbf_kernel,
)
from tfpn.math.posterior import (
    condition,
    negative_log_marginal_likelihood,
    posterior_mean,
    solve,
    whiten,
)
from tfpn.math.steerable import steerable_convolve, steerable_kernel
from tfpn.math.uncertainty.joint import rectified_joint_covariance

__all__ = [
    "ball_integrals",
    "bivariate_normal_cdf",
    "box_integrals",
    "condition",
    "convolve",
    "convolve_joint",
    "convolve_low_rank",
    "convolve_mean",
    "convolve_process",
    "coupled_kernel",
    "diffused_kernel",
    "disc_integrals",
    "integrate",
    "kernel_integral",
    "negative_log_marginal_likelihood",
    "posterior_mean",
    "rbf_kernel",
    "rectified_covariance",
    "rectified_joint_covariance",
    "rectified_moments",
    "rectified_product_moment",
    "rectified_raw_moments",
    "solve",
    "steerable_convolve",
    "steerable_kernel",
    "whiten",
]

"""The functional core: pure functions on tensors, no Keras and no state."""

from tfpn.math.convolution import convolve, convolve_mean
from tfpn.math.coupled import coupled_kernel
from tfpn.math.disc import disc_integrals
from tfpn.math.joint import convolve_joint, rectified_joint_covariance
from tfpn.math.kernels import diffused_kernel, rbf_kernel
from tfpn.math.low_rank import convolve_low_rank
from tfpn.math.pooling import box_integrals, integrate, kernel_integral
from tfpn.math.posterior import (
    condition,
    negative_log_marginal_likelihood,
    posterior_mean,
    solve,
    whiten,
)
from tfpn.math.process import convolve_process
from tfpn.math.rectified import rectified_moments
from tfpn.math.rectified_covariance import bivariate_normal_cdf, rectified_covariance
from tfpn.math.rectified_products import rectified_product_moment
from tfpn.math.rectified_raw_moments import rectified_raw_moments
from tfpn.math.steerable import steerable_convolve, steerable_kernel

__all__ = [
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

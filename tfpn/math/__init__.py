"""The functional core: pure functions on tensors, no Keras and no state."""

from tfpn.math.convolution import convolve, convolve_mean
from tfpn.math.kernels import diffused_kernel, rbf_kernel
from tfpn.math.pooling import box_integrals, integrate, kernel_integral
from tfpn.math.posterior import (
    condition,
    negative_log_marginal_likelihood,
    posterior_mean,
    whiten,
)
from tfpn.math.rectified import rectified_moments
from tfpn.math.rectified_covariance import bivariate_normal_cdf, rectified_covariance
from tfpn.math.rectified_raw_moments import rectified_raw_moments

__all__ = [
    "bivariate_normal_cdf",
    "box_integrals",
    "condition",
    "convolve",
    "convolve_mean",
    "diffused_kernel",
    "integrate",
    "kernel_integral",
    "negative_log_marginal_likelihood",
    "posterior_mean",
    "rbf_kernel",
    "rectified_covariance",
    "rectified_moments",
    "rectified_raw_moments",
    "whiten",
]

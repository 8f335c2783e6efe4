"""Kernels: their covariances, flows and integrals, and draws from their spectra."""

from tfpn.math.kernels.balls import ball_integrals, disc_integrals
from tfpn.math.kernels.box import box_integrals, kernel_integral
from tfpn.math.kernels.gaussian import diffused_kernel, rbf_kernel
from tfpn.math.kernels.kernel import FlowedKernel, Kernel
from tfpn.math.kernels.mixtures import (
    CORRELATIONS,
    ScaleMixture,
    fit_mixture,
    kernel_config,
    mean_mixture,
    read_mixture,
)

__all__ = [
    "CORRELATIONS",
    "FlowedKernel",
    "Kernel",
    "ScaleMixture",
    "ball_integrals",
    "box_integrals",
    "diffused_kernel",
    "disc_integrals",
    "fit_mixture",
    "kernel_config",
    "kernel_integral",
    "mean_mixture",
    "rbf_kernel",
    "read_mixture",
]

"""Nonlinearities on Gaussian variables."""

from tfpn.math.activations.activation import Activation, Quadrature, Rectifier
from tfpn.math.activations.rectified import rectified_moments
from tfpn.math.activations.rectified_covariance import bivariate_normal_cdf, rectified_covariance
from tfpn.math.activations.rectified_products import rectified_product_moment
from tfpn.math.activations.rectified_raw_moments import rectified_raw_moments

__all__ = [
    "Activation",
    "Quadrature",
    "Rectifier",
    "bivariate_normal_cdf",
    "rectified_covariance",
    "rectified_moments",
    "rectified_product_moment",
    "rectified_raw_moments",
]

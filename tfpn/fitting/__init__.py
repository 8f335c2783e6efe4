"""Fits priors to data by maximum marginal likelihood, in NumPy."""

from tfpn.fitting.prior import FittedPrior, fit_prior

__all__ = ["FittedPrior", "fit_prior"]

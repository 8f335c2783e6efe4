"""Gaussian process posteriors: they condition a prior on observations."""

from tfpn.math.posterior.algebra import (
    condition,
    floored_variance,
    least_variance,
    negative_log_conditional_likelihood,
    negative_log_marginal_likelihood,
    posterior_mean,
    solve,
    whiten,
)
from tfpn.math.posterior.interface import Fixed, Flowed, Functionals, Posterior, weighted
from tfpn.math.posterior.observed import NOISE, PRIORS, TRAINS, NoiseForm, Observed

__all__ = [
    "NOISE",
    "PRIORS",
    "TRAINS",
    "Fixed",
    "Flowed",
    "Functionals",
    "NoiseForm",
    "Observed",
    "Posterior",
    "condition",
    "floored_variance",
    "least_variance",
    "negative_log_conditional_likelihood",
    "negative_log_marginal_likelihood",
    "posterior_mean",
    "solve",
    "weighted",
    "whiten",
]

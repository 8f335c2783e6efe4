"""The start of a model's priors from data: the fit of the first prior, and its messages."""

import warnings

import numpy as np

from tfpn.fitting import FittedPrior
from tfpn.progress import Progress
from tfpn.types import Layer, Observations, Verbose


def fit_first_prior(layer: Layer, data: Observations, verbose: Verbose) -> FittedPrior:
    """Fits the prior of the first convolution (`GPConvolution.fit_prior`), and shows progress.

    Args:
        layer: the convolution.
        data: its input, NumPy arrays.
        verbose: as in `PNCNN.adapt`.

    Warns:
        UserWarning: if the readings are as likely to be independent of each other.
    """
    priors = int(np.size(layer.log_length_scale))
    with Progress("adapt", priors, "priors", verbose) as progress:
        found = layer.fit_prior(data, progress.update)
    if found.white.any():
        which = "the readings"
        if priors > 1:
            channels = np.flatnonzero(found.white).tolist()
            which = f"the readings of the channels {channels}"
        warnings.warn(
            f"{which} look independent of each other, as white noise is, at the distances at which "
            "they lie: their length scale starts at its least, half of the points' spacing, and "
            "nothing will be known between the points. Check that values and points are in the "
            "same order; adapt(fit_priors=False) starts from the spacing alone.",
            stacklevel=3,
        )
    return found

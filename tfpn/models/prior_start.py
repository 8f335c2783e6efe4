"""The start of a model's priors from data: the fit of the first one, and what is said of it."""

import sys
import warnings
from typing import Any, Literal, get_args

import keras
import numpy as np

from tfpn.checks import check_choice
from tfpn.fitting import FittedPrior
from tfpn.types import Layer, Observations

Verbose = Literal["auto", 0, 1, 2]


def progress_bar(target: int, verbose: Verbose, unit: str) -> Any:
    """Keras's progress bar, which knows the time that remains, or None for a quiet fit.

    Args:
        target: number of units.
        verbose: as in `PNCNN.adapt`.
        unit: what they are called.

    Raises:
        ValueError: for a bad ``verbose``.
    """
    check_choice("verbose", verbose, get_args(Verbose))
    if verbose == "auto":
        shown = hasattr(sys.stdout, "isatty") and sys.stdout.isatty()
        verbose = 1 if shown or "ipykernel" in sys.modules else 0
    return keras.utils.Progbar(target, verbose=verbose, unit_name=unit) if verbose else None


def fit_first_prior(layer: Layer, data: Observations, verbose: Verbose) -> FittedPrior:
    """Fits the prior of the first convolution (`GPConvolution.fit_prior`), and says how it goes.

    Args:
        layer: the convolution.
        data: its input, NumPy arrays.
        verbose: as in `PNCNN.adapt`.

    Warns:
        UserWarning: if the readings are as likely to be independent of each other.
    """
    priors = int(np.size(layer.log_length_scale))
    bar = progress_bar(priors, verbose, "prior")
    found = layer.fit_prior(data, None if bar is None else bar.update)
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

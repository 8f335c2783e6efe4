"""Keras models built from the layers."""

# A saved model may hold a metric of this module, which Keras has to know to load it.
import tfpn.metrics  # noqa: F401
from tfpn.models.pncnn import PNCNN
from tfpn.models.steerable_pncnn import SteerablePNCNN
from tfpn.models.time_series import PNTimeSeries

PNTimeSeriesClassifier = PNTimeSeries
"""The first name of `PNTimeSeries`, for programs, recipes and files that use it."""

__all__ = ["PNCNN", "PNTimeSeries", "PNTimeSeriesClassifier", "SteerablePNCNN"]

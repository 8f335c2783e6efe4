"""Keras models built from the layers."""

# Models may be saved with a metric of it, which Keras has to know to load them.
import tfpn.metrics  # noqa: F401
from tfpn.models.pncnn import PNCNN
from tfpn.models.steerable_pncnn import SteerablePNCNN
from tfpn.models.time_series import PNTimeSeriesClassifier

__all__ = ["PNCNN", "PNTimeSeriesClassifier", "SteerablePNCNN"]

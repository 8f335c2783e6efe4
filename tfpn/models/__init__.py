"""Keras models built from the layers."""

from tfpn.models.pncnn import PNCNN
from tfpn.models.steerable_pncnn import SteerablePNCNN
from tfpn.models.time_series import PNTimeSeriesClassifier

__all__ = ["PNCNN", "PNTimeSeriesClassifier", "SteerablePNCNN"]

"""Keras models built from the layers."""

from tfpn.models.pncnn import PNCNN
from tfpn.models.steerable_pncnn import SteerablePNCNN

__all__ = ["PNCNN", "SteerablePNCNN"]

"""Keras models built from the layers."""

from tfpn.models.pncnn import PNCNN

__all__ = ["PNCNN"]

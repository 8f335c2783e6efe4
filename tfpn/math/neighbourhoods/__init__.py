"""Conditioning on neighbourhoods: many points as a batch of blocks of neighbours."""

from tfpn.math.neighbourhoods.blocks import Blocks, Neighbourhoods
from tfpn.math.neighbourhoods.convolution import in_neighbourhoods
from tfpn.math.neighbourhoods.pooling import cell_integrals, cells, double_integrals

__all__ = [
    "Blocks",
    "Neighbourhoods",
    "cell_integrals",
    "cells",
    "double_integrals",
    "in_neighbourhoods",
]

"""Conditioning on neighbourhoods: it turns many points into a batch of blocks of neighbours."""

from tfpn.math.neighbourhoods.blocks import Blocks, Neighbourhoods
from tfpn.math.neighbourhoods.convolution import in_neighbourhoods
from tfpn.math.neighbourhoods.kriging import krige_likelihood_near, krige_near
from tfpn.math.neighbourhoods.pooling import cells, integrals_over

__all__ = [
    "Blocks",
    "Neighbourhoods",
    "cells",
    "in_neighbourhoods",
    "integrals_over",
    "krige_likelihood_near",
    "krige_near",
]

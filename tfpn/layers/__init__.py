"""Keras layers from observations to observations."""

from tfpn.layers.channel_mix import ChannelMix
from tfpn.layers.gp_normalization import GPNormalization
from tfpn.layers.integral_pooling import IntegralPooling
from tfpn.layers.pn_conv import PNConv
from tfpn.layers.prob_activation import ProbActivation, ProbReLU
from tfpn.layers.steerable_conv import SteerablePNConv
from tfpn.layers.steerable_mix import SteerableMix
from tfpn.layers.steerable_normalization import SteerableNormalization
from tfpn.layers.steerable_relu import GatedReLU

__all__ = [
    "ChannelMix",
    "GPNormalization",
    "GatedReLU",
    "IntegralPooling",
    "PNConv",
    "ProbActivation",
    "ProbReLU",
    "SteerableMix",
    "SteerableNormalization",
    "SteerablePNConv",
]

"""Keras layers from observations to observations."""

from tfpn.layers.channel_mix import ChannelMix
from tfpn.layers.gp_normalization import GPNormalization
from tfpn.layers.integral_pooling import IntegralPooling
from tfpn.layers.pn_conv import PNConv
from tfpn.layers.prob_relu import ProbReLU

__all__ = ["ChannelMix", "GPNormalization", "IntegralPooling", "PNConv", "ProbReLU"]

"""TensorFlow Probability distributions for rectified variables and GP features."""

from tfpn.distributions.process_values import ProcessValues
from tfpn.distributions.rectified_normal import RectifiedNormal

__all__ = ["ProcessValues", "RectifiedNormal"]

"""Nonlinearities of Gaussian feature maps."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.layers.base import GPLayer
from tfpn.math.activations import Activation, Quadrature, Rectifier
from tfpn.math.missing import observed_entries
from tfpn.math.uncertainty import carried_by
from tfpn.types import ActivationLike, Config, Observations, Tensor

# Negative slope of Keras's leaky ReLU.
_LEAKY = 0.2


@keras.saving.register_keras_serializable(package="tfpn")
class ProbActivation(GPLayer):
    """Mean and variance of ``h(f)`` for Gaussian f, elementwise.

    "relu" and "leaky_relu" are exact (`tfpn.math.activations.Rectifier`). All others use quadrature
    with 32 nodes; `tfpn.math.activations.Quadrature` states its errors. Unobserved entries stay
    unobserved. Factors are multiplied by ``E h'(f)``, which is exact to first order in the
    correlation. A joint covariance becomes that of h(f), entry by entry.

    Args:
        activation: h. The name of a Keras activation that acts on each entry by itself, such as
            "gelu" or "softplus"; a dict ``{"negative_slope": a}`` for a leaky ReLU; a function of
            tensors; or a `tfpn.math.activations.Activation`. Saving needs functions and classes
            registered (`keras.saving.register_keras_serializable`).

    Input and output:
        The observations dict; points [B, N, d] pass through, values and variance [B, N, c].

    Raises:
        ValueError: for an activation that Keras does not know, or that mixes entries.

    Example:

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations(np.zeros((1, 1, 2)), np.array([[[0.0]]]), 1.0)
    >>> out = tfpn.layers.ProbActivation("softplus", dtype="float64")(x)
    >>> round(float(out["values"][0, 0, 0]), 4)  # E log(1 + exp(f))
    0.8061
    """

    def __init__(self, activation: ActivationLike, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activation
        self._activation = read_activation(activation)

    def build(self, observations_shape: Any) -> None:
        self._check_shapes(observations_shape)

    def call(self, observations: Observations, training: bool = False) -> dict[str, Tensor]:
        points, values, variance = self._unpack(observations)
        way = carried_by(observations)
        beside = self._read_beside(way, observations)
        with self._fusion(training, values.shape[-1], points):
            values, variance, missing, infinite = observed_entries(values, variance)
            mean, variance, beside = way.activate(
                self._activation, values, variance, beside, missing
            )
            if not self._activation.keeps_zero:
                mean, variance = (moment * (1.0 - missing) for moment in (mean, variance))
        return self._output(points, mean, variance, infinite, way, beside)

    def compute_output_spec(self, observations: Observations, training: bool = False) -> Any:
        return self._spec_like(observations, observations["values"].shape[-1])

    def get_config(self) -> Config:
        return {**super().get_config(), "activation": activation_config(self.activation)}


@keras.saving.register_keras_serializable(package="tfpn")
class ProbReLU(ProbActivation):
    """Mean and variance of ``relu(f)`` for Gaussian f, elementwise and exact.

    This is eq. rectified_moments_mu of the paper (`tfpn.math.rectified_moments`), the moments of
    `tfpn.distributions.RectifiedNormal`. At variance 0 it is the ordinary ReLU. Unobserved entries
    stay unobserved. Factors and a joint covariance change as in `ProbActivation`.

    Input and output:
        The observations dict; points [B, N, d] pass through, values and variance [B, N, c].

    Example:

    >>> import numpy as np, tfpn
    >>> x = tfpn.observations(np.zeros((1, 1, 2)), np.array([[[-1.0]]]), 1.0)
    >>> out = tfpn.layers.ProbReLU(dtype="float64")(x)
    >>> round(float(out["values"][0, 0, 0]), 4), round(float(out["variance"][0, 0, 0]), 4)
    (0.0833, 0.0684)
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("relu", **kwargs)

    def get_config(self) -> Config:
        config = super().get_config()
        config.pop("activation")
        return config


# Keras's activations that mix several entries.
_NOT_ELEMENTWISE = ("softmax", "log_softmax", "sparsemax", "glu")


def read_activation(activation: ActivationLike) -> Tensor:
    """Reads a `tfpn.math.activations.Activation` from any argument of `ProbActivation`.

    Raises:
        ValueError: for anything else.
    """
    if isinstance(activation, Activation):
        return activation
    if activation == "relu":
        return Rectifier()
    if activation == "leaky_relu":
        return Rectifier(_LEAKY)
    if isinstance(activation, dict) and set(activation) == {"negative_slope"}:
        return Rectifier(**activation)
    if isinstance(activation, dict):
        given, activation = activation, keras.saving.deserialize_keras_object(activation)
        if isinstance(activation, dict):
            raise ValueError(
                'activation as a dict is {"negative_slope": a} or what Keras serialised, found '
                f"{given!r}."
            )
        return read_activation(activation)
    if activation is None or activation in _NOT_ELEMENTWISE:
        raise ValueError(
            f'activation must act on each entry by itself, found {activation!r}; give "relu", '
            "the name of another Keras activation, or a function."
        )
    try:
        function = keras.activations.get(activation)
        found = function(tf.constant([0.25, 0.5]))
    except Exception as error:  # including errors of the function itself
        raise ValueError(
            f"activation is {activation!r}, which Keras does not know or which fails on a tensor: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not tf.is_tensor(found) or found.shape != (2,):
        raise ValueError(
            f"activation is {activation!r}, which turns a tensor of the shape (2,) into a "
            f"{type(found).__name__} of the shape {np.shape(found)}: give a function of tensors "
            "that acts on each entry by itself, such as tf.tanh (not numpy.tanh)."
        )
    return Quadrature(function)


def is_linear(activation: ActivationLike) -> bool:
    """Whether the activation is linear, as far as its type tells."""
    found = read_activation(activation)
    return found in (Rectifier(1.0), Quadrature(keras.activations.linear))


def activation_config(activation: ActivationLike) -> Tensor:
    """An argument of `read_activation` in the form for saving."""
    read_activation(activation)
    if isinstance(activation, Rectifier):
        return activation.get_config()
    if isinstance(activation, str | dict):
        return activation
    return keras.saving.serialize_keras_object(activation)

"""Models with constant weights, for predictions in a server."""

import copy
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.models.network import PNNetwork
from tfpn.types import Array, Distribution, Model, Observations, Tensor


class FrozenModel:
    """A copy of a model with constant weights, which predicts one example with little delay.

    Its methods return what the model's methods of the same names return, up to rounding. They check
    their input in the same way. They take less time for two reasons:

    - Keras's ``predict`` builds a pipeline for its data and calls callbacks. `FrozenModel` calls
      one compiled function, which serves all numbers of examples and points.
    - TensorFlow computes once what depends only on weights, because they are constants. It leaves
      out the layers' marginal likelihoods, which a prediction does not need.

    The copy keeps the weights and the calibration of the moment when you make it. The first
    prediction takes some seconds, because TensorFlow traces the function. So make one prediction
    when your program starts, by each method that you use.

    Args:
        model: one of `tfpn.models`. It stays as it is.

    Raises:
        TypeError: for anything else.

    Example:

    >>> import numpy as np, tfpn
    >>> model = tfpn.models.PNCNN(2, spatial_dim=1, channels=2, num_blocks=1, pooling=(0.0, 6.0))
    >>> frozen = tfpn.exporting.FrozenModel(model)
    >>> one = tfpn.observations(np.arange(6.0).reshape(1, 6, 1), np.ones((1, 6)), variance=0.01)
    >>> frozen.predict(one).shape, frozen.predict_proba(one).shape
    ((1, 2), (1, 2))
    >>> bool(np.allclose(frozen.predict(one), model(one), rtol=1e-5, atol=1e-6))
    True
    """

    def __init__(self, model: Model) -> None:
        if not isinstance(model, PNNetwork):
            raise TypeError(
                f"model: give one of tfpn.models, found {type(model).__name__}. For another Keras "
                "model use tf.function(model)."
            )
        self._model = copy.deepcopy(model)
        self._model._run = self._run
        self._functions: dict[Model, Callable[..., Any]] = {}

    def predict(self, x: Observations, batch_size: int = 32) -> Array:
        """The model's outputs, such as logits; see `PNCNN.predict`.

        Args:
            x: the input dict, arrays as from `tfpn.observations`.
            batch_size: examples at a time.

        Raises:
            ValueError: for keys, shapes or entries that are not the input's.
            TypeError: for anything but a dict.
            tf.errors.InvalidArgumentError: if a layer's result is not finite.
        """
        model = self._model
        # The model reads a field out at very many points piece by piece, to save memory.
        if hasattr(model, "_at_many_points") and model._at_many_points(x, batch_size):
            return model.predict(x, batch_size, verbose=0)
        return model._predicted(model, x, batch_size, 0)

    def predict_proba(self, x: Observations, batch_size: int = 32, num_points: int = 256) -> Array:
        """Class probabilities [B, num_classes]; see `PNCNN.predict_proba`.

        Args:
            x, batch_size: as in `predict`.
            num_points: as in `PNCNN.predict_proba`.

        Raises:
            ValueError: if the model is not a classifier of two or more classes; as in `predict`.
        """
        return self._model.predict_proba(x, batch_size, num_points, 0)

    def predict_distribution(self, x: Observations, batch_size: int = 32) -> Distribution:
        """The distribution of the outputs; see `PNCNN.predict_distribution`.

        Args:
            x, batch_size: as in `predict`.

        Raises:
            ValueError: if the model's outputs have no finite variance; as in `predict`.
        """
        return self._model.predict_distribution(x, batch_size, 0)

    def predict_field(
        self, x: Observations, query: Tensor, *, noise: bool = True, batch_size: int = 32
    ) -> Distribution:
        """The field at any points; see `PNCNN.predict_field`.

        Args:
            x: the input dict, without "query".
            query, noise: as in `PNCNN.predict_field`.
            batch_size: examples at a time.

        Raises:
            ValueError: for a model without output="field"; as in `predict`.
        """
        return self._model.predict_field(x, query, noise=noise, batch_size=batch_size, verbose=0)

    def _run(self, network, x, batch_size, verbose):
        """The network's outputs for checked arrays, as NumPy's."""
        if not isinstance(x, dict):
            raise TypeError(
                f"x must be the model's input dict, found {type(x).__name__}: a FrozenModel takes "
                "arrays. For data sets use the model itself."
            )
        if network not in self._functions:
            self._functions[network] = _with_constants(network)
        function = self._functions[network]
        x = {given.name: np.asarray(x[given.name], given.dtype) for given in network.inputs}
        starts = range(0, len(x["points"]), batch_size)
        batches = ({key: x[key][start : start + batch_size] for key in x} for start in starts)
        parts = [function(batch) for batch in batches]
        return tf.nest.map_structure(lambda *tensors: np.concatenate(tensors), *parts)


def _with_constants(network):
    """The network as a function of its input dict, for free numbers of examples and points."""
    variables = [*network.variables, *network.metrics_variables]
    weights = [(variable, np.asarray(variable)) for variable in variables]
    signature = {
        given.name: tf.TensorSpec(given.shape, given.dtype, name=given.name)
        for given in network.inputs
    }

    @tf.function(input_signature=[signature], autograph=False)
    def run(x):
        # In this scope a variable has the value given here, and no layer writes its state.
        with keras.StatelessScope(state_mapping=weights):
            return network(x, training=False)

    return run

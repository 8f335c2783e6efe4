"""Reads fields out at many points piece by piece, so that memory does not grow with them."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfpn.contract import KEYS
from tfpn.math.pieces import piece_length
from tfpn.models.shown import in_batches, predict_shown
from tfpn.types import Array, Mixin, Observations, Verbose

# `predict` reads fields out at once up to so many query points times examples of a batch.
_BATCH_QUERY = 2**14


class FieldReadout(Mixin):
    """Mix-in for a model with the input "query": predictions at any number of points.

    The model has a ``_readout_input``, the symbolic observations that its last layer "readout"
    takes, or None if it has no such input.
    """

    def predict(
        self,
        x: Observations,
        batch_size: int | None = None,
        verbose: Verbose = "auto",
        steps: int | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> Array:
        """As `PNCNN.predict`.

        Fields at very many query points are read out piece by piece. So only the result needs
        memory that grows with their number.
        """
        if not self._at_many_points(x, batch_size or 32):
            return super().predict(x, batch_size, verbose, steps, callbacks)
        options = {"steps": steps, "callbacks": callbacks}
        raw = self._read_out(x, batch_size or 32, verbose, **options)["values"]
        offset, unit = self._unit()
        return (raw * unit + offset).astype(raw.dtype)

    def _at_many_points(self, x, batch_size):
        """Whether arrays hold more query points than `predict` takes at once."""
        if self._readout_input is None or not isinstance(x, dict):
            return False
        points, query = (np.shape(x.get(key, ())) for key in ("points", "query"))
        if not len(points) == len(query) == 3:  # another check raises the error
            return False
        draws = self._config["num_samples"] if self._way.draws else 1
        together = _BATCH_QUERY // (draws * max(1, min(batch_size, len(x["points"]))))
        return query[1] > min(max(together, points[1]), piece_length(1, points[1]))

    @functools.cached_property
    def _body(self):
        """The network up to the last convolution, which reads fields out."""
        return keras.Model({key: self.inputs_dict[key] for key in KEYS}, self._readout_input)

    @functools.cached_property
    def _readout(self):
        """The last convolution, from the body's features and query points."""
        tensors = {**self._readout_input, "query": self.inputs_dict["query"]}
        given = {
            key: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=key)
            for key, tensor in tensors.items()
        }
        observations = {key: given[key] for key in self._readout_input}
        return keras.Model(given, self.get_layer("readout")(observations, given["query"]))

    def _read_out(self, x, batch_size, verbose, **options):
        """`_moments` at the query points, piece by piece; the features are computed once."""
        x = self._checked(x)
        batches = in_batches(self._body, x, batch_size)
        features = predict_shown(self._body, batches, verbose, **options)
        query = np.asarray(x["query"], self.inputs_dict["query"].dtype)
        examples, count = query.shape[:2]
        pieces = math.ceil(count / piece_length(1, features["points"].shape[1]))
        # `predict` stacks pieces, so they have equal lengths: the last one repeats the last point.
        length = math.ceil(count / pieces)
        query = np.pad(query, [(0, 0), (0, pieces * length - count), (0, 0)], mode="edge")

        def given():
            for example in range(examples):
                one = {key: value[example : example + 1] for key, value in features.items()}
                for part in np.split(query[example : example + 1], pieces, axis=1):
                    yield {**one, "query": part}

        signature = {
            tensor.name: tf.TensorSpec([1, *tensor.shape[1:]], tensor.dtype)
            for tensor in self._readout.inputs
        }
        data = tf.data.Dataset.from_generator(given, output_signature=signature)
        # Keras warns at the end of a data set of unknown length.
        data = data.apply(tf.data.experimental.assert_cardinality(examples * pieces))
        found = predict_shown(self._readout, data, verbose, "pieces")
        return {key: _whole(found[key], examples, pieces, count) for key in found}

    def _fields_distribution(self, x, batch_size, verbose):
        """The fields at each query point: independent normal values, or a mixture of draws."""
        import tensorflow_probability as tfp

        from tfpn.distributions.mixture import smoothed_mixture

        if self._at_many_points(x, batch_size):
            moments = self._read_out(x, batch_size, verbose)
        else:
            moments = self._predicted(self._moments, x, batch_size, verbose)
        factor, noise = self._factor_and_noise()
        values, variance = (moments[key].astype(np.float64) for key in ("values", "variance"))
        offset, unit = self._unit()
        dtype = moments["values"].dtype
        mean = (values * unit + offset).astype(dtype)
        if not self._way.draws:
            deviation = np.sqrt(variance * np.square(unit) * factor + noise)
            return tfp.distributions.Normal(mean, deviation.astype(dtype))
        draws = np.moveaxis(moments[self._way.key], 1, 2) - values[:, :, None]
        draws = draws * np.sqrt(factor)
        covariance = np.swapaxes(draws, -2, -1) @ draws / draws.shape[-2]
        units = np.broadcast_to(unit, values.shape[-1:])
        noise = np.diag(np.broadcast_to(noise / np.square(units), units.shape))
        return smoothed_mixture(mean, draws * units, covariance, noise, units=units)


def _whole(pieces, examples, parts, count):
    """Joins pieces [B P, ..., m, c] along the points, to [B, ..., count, c]."""
    pieces = pieces.reshape(examples, parts, *pieces.shape[1:])
    whole = np.moveaxis(pieces, 1, -3)
    return whole.reshape(*whole.shape[:-3], -1, whole.shape[-1])[..., :count, :]

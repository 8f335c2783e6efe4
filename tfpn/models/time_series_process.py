"""The Gaussian processes that the first layer fits to the channels of a time series."""

import tensorflow as tf

from tfpn.contract import KEYS
from tfpn.math.operator import Operator
from tfpn.math.uncertainty import Diagonal
from tfpn.types import Distribution, Mixin, Observations, Tensor


class InputProcess(Mixin):
    """The part of `PNTimeSeries` that shows how its first layer reads the input."""

    def input_process(self, x: Observations, query: Tensor) -> Distribution:
        """The Gaussian process that the first convolution fits to each input channel.

        This is the posterior of the channel itself, without the noise of its readings. Mean and
        standard deviation at the query points are the fit and its band. The trained priors decide
        how wide the band is. With a small ``marginal_likelihood_weight`` training adjusts them to
        the task more than to the readings, and the band is then too narrow for readings that were
        left out. Exact readings count with the least noise of the convolution in its dtype.

        Args:
            x: the input dict.
            query: points [B, M, 1], or [1, M, 1] for the same ones in all examples; any number.

        Returns:
            A `tfpn.distributions.ProcessValues` with batch shape [B, in_channels] and event shape
            [M], in float64.

        Raises:
            ValueError: if ``x`` is not the model's input (keys, shapes, entries), or the query has
                another shape or is not finite.
            TypeError: for anything but a dict.

        Example:

        >>> import numpy as np, tfpn
        >>> x = tfpn.observations([[[0.2], [0.8]]], [[1.0, -1.0]])
        >>> model = tfpn.models.PNTimeSeries(channels=2, num_blocks=1, spacing=0.2)
        >>> fit = model.input_process(x, [[[0.2], [0.5]]])
        >>> fit.mean().shape, bool(fit.stddev()[0, 0, 0] < fit.stddev()[0, 0, 1])
        (TensorShape([1, 1, 2]), True)
        """
        from tfpn.distributions.process_values import process_values

        if self._field is not None:
            raise ValueError(
                "in a model of fields the first convolution takes readings minus their trend: call "
                "predict_field, which gives the fit to the readings before training."
            )
        layer = self.blocks[0].convolution
        x, query = self._checked_with_query(x, query)
        # All is in float64 from the start, for times that float32 does not resolve.
        points, values, variance, query = (
            tf.cast(array, tf.float64) for array in (*(x[key] for key in KEYS), query)
        )
        observed = layer._in_float64(points, values, variance)
        zeros = tf.zeros([1, 1], tf.float64)
        itself = Operator(query, tf.ones([1, 1, 1], tf.float64), zeros, zeros[..., None], zeros[0])
        channels, near = range(values.shape[-1]), layer.neighbourhoods
        return process_values(
            [(Diagonal(), observed.channel(c), itself, None, near) for c in channels],
            dtype=tf.float64,
            source=f"{type(layer).__name__} {layer.name!r}",
        )

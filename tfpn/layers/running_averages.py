"""Running averages of the statistics of batches, for inference."""

import tensorflow as tf

from tfpn.types import Mixin


class RunningAverages(Mixin):
    """What normalising layers share: ``moving_mean``, ``moving_variance`` and ``updates``.

    ``moving_mean`` may be None, or have fewer entries than the other two: those of the first ones.
    """

    def _update_averages(self, mean, spread, count):
        """Takes in m, q^2 and the number of observed entries of a batch, each without a gradient.

        Raises:
            tf.errors.InvalidArgumentError: if q^2 is not finite. Averages that became infinite
                once would stay so.
        """
        with tf.control_dependencies([self._check_finite(spread)]):
            count = tf.identity(count)
        updates, updates_dtype = self._cast(self.updates), self.updates.dtype
        # The first batches have a plain mean, so that the initial values do not count.
        momentum = tf.minimum(updates / (updates + 1.0), self.momentum)
        for moving, batch in ((self.moving_mean, mean), (self.moving_variance, spread)):
            if moving is None:
                continue
            old, size = self._cast(moving), moving.shape[0]
            weight = momentum[:size]
            new = weight * old + (1.0 - weight) * tf.stop_gradient(batch)
            # What the batch did not observe keeps its averages.
            moving.assign(tf.cast(tf.where(count[:size] > 0.0, new, old), moving.dtype))
        self.updates.assign(tf.cast(updates + tf.cast(count > 0.0, updates.dtype), updates_dtype))

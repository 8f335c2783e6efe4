"""The times of readings: weights of entries, indicators of readings, and their counts.

A time series may list a time more than once, each time with some of its channels. Clocks also
differ in their last digits. The functions here give the same result for any listing of the same
readings, and their results are continuous in the times. Two times become distinct within a
``width``. Their distinction rises with the distance d by

    s(d) = u^2 (3 - 2 u),   u = min((d / width)^2, 1),

from 0, where it is flat up to the third derivative, to 1. For times a thousandth of the width apart
s is 3e-12. In a chain of close times the weights rise with the distance itself. So a densely read
stretch of time counts as many times as it is widths long.
"""

import math

import tensorflow as tf

from tfpn.math.missing import missing_mask, penalty

# Weights below this count as 0: float32 does not resolve their contribution to a result.
_LEAST_WEIGHT = 1e-10

# Small distances before an entry have to cover this part of the width for it to end a chain.
_CHAIN = 0.25

# The variance added to an entry of weight 1/2: that of the models' noise, for a signal of 1.
_HALF = 0.01


def entry_weights(times, variance, width):
    """How far each entry counts as a time of its own: 0 for repetitions and padding, 1 if alone.

    Let g be the distance to the previous entry in time, in widths and at most 1. The weight is

        (1 - m) s(g) + m g,   m = s(c / 0.25),   c = sum of g (1 - s(g)) (1 - s(d)),

    with the sum over all earlier entries, at the distance d. So the second of two times has the
    weight ``s(g)``. An entry in a chain of close times has the weight g, and the weights of the
    chain sum to its length in widths. If several entries have one time, the first listed one
    counts.

    Args:
        times: [B, N, 1], anything where no channel is observed.
        variance: [B, N, c], +inf where unobserved.
        width: scalar, the distance from which two times are fully distinct.

    Returns:
        [B, N, 1] in the dtype of ``variance``.

    Example:

    >>> import numpy as np
    >>> times = np.array([[[0.1], [0.1], [0.3], [0.0]]])
    >>> variance = np.array([[[0.0], [0.0], [0.0], [np.inf]]])
    >>> entry_weights(times, variance, 0.01)[0, :, 0].numpy()
    array([1., 0., 1., 0.])
    >>> dense, exact = np.linspace(0, 1, 1001)[None, :, None], np.zeros((1, 1001, 1))
    >>> round(float(np.sum(entry_weights(dense, exact, 0.02))), 1)  # 50 widths and the first entry
    50.8
    """
    times, variance = tf.convert_to_tensor(times), tf.convert_to_tensor(variance)
    seen = tf.reduce_max(_readings(variance), axis=-1)
    times = tf.where(seen > 0.0, times[..., 0], 0.0)
    later, earlier = times[:, :, None], times[:, None]
    places = tf.range(tf.shape(times)[1])
    before = (earlier < later) | ((earlier == later) & (places < places[:, None]))
    before &= (seen > 0.0)[:, None]
    distance = tf.where(before, tf.minimum((later - earlier) / width, 1.0), 1.0)
    gap = tf.reduce_min(distance, axis=-1)
    alone = _smooth(tf.square(gap))
    small = gap * (1.0 - alone) * seen
    # This is 0 without an earlier entry, because the distance is 1 there.
    covered = tf.linalg.matvec(1.0 - _smooth(tf.square(distance)), small)
    chained = _smooth(tf.minimum(tf.square(covered / _CHAIN), 1.0))
    return ((alone + chained * (gap - alone)) * seen)[..., None]


def faded(variance, weights):
    """The variance of entries plus ``0.01 (1 / weight - 1)``, which is +inf for the weight 0.

    So a second reading at one time tells nothing new, and tells more the farther the times are
    apart.

    Args:
        variance: [B, N, c].
        weights: from `entry_weights`, [B, N, 1].

    Example:

    >>> import numpy as np
    >>> faded(np.array([[[0.1], [0.1]]]), [[[1.0], [0.5]]]).numpy().ravel().round(3).tolist()
    [0.1, 0.11]
    """
    variance = tf.convert_to_tensor(variance)
    weights = tf.convert_to_tensor(weights, variance.dtype)
    some = weights > _LEAST_WEIGHT
    # Rounding may leave a weight above 1, so this is kept at 0 or above.
    more = _HALF * tf.nn.relu(1.0 / tf.where(some, weights, 1.0) - 1.0)
    return variance + tf.where(some, more, tf.constant(math.inf, variance.dtype))


def reading_indicators(times, variance, width):
    """For each entry and channel: 1 if the channel was read at the entry's time, 0 if not.

    Readings of all entries at the same time count. A reading at the distance d makes the indicator
    ``1 - s(d)``. Several readings make it 1 minus the product of their ``s(d)``.

    Args:
        times, variance, width: as in `entry_weights`.

    Returns:
        [B, N, c] in the dtype of ``variance``.

    Example:

    >>> import numpy as np
    >>> times = np.array([[[0.1], [0.1], [0.3]]])
    >>> variance = np.array([[[0.0, np.inf], [np.inf, 0.0], [0.0, np.inf]]])
    >>> reading_indicators(times, variance, 0.01).numpy().tolist()
    [[[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]]
    """
    times, variance = tf.convert_to_tensor(times), tf.convert_to_tensor(variance)
    readings = _readings(variance)
    times = tf.where(tf.reduce_max(readings, axis=-1) > 0.0, times[..., 0], 0.0)
    apart = _smooth(_relative(times[:, :, None] - times[:, None], width))
    # exp(log(1e-30)) vanishes beside 1 in both precisions.
    logs = tf.math.log(tf.maximum(apart, tf.constant(1e-30, apart.dtype)))
    return 1.0 - tf.exp(tf.matmul(logs, readings))


def reading_counts(variance):
    """Number of observations of each channel, [B, N, c] -> [B, c].

    Example:

    >>> import numpy as np
    >>> reading_counts(np.array([[[0.0, np.inf], [0.5, 0.1]]])).numpy().tolist()
    [[2.0, 1.0]]
    """
    return tf.reduce_sum(_readings(tf.convert_to_tensor(variance)), axis=1)


def _readings(variance):
    return 1.0 - missing_mask(penalty(variance))


def _relative(distance, width):
    """``u``, the square of the distance in units of the width, at most 1."""
    return tf.minimum(tf.square(distance / width), 1.0)


def _smooth(square):
    return tf.square(square) * (3.0 - 2.0 * square)

"""When something was read: distinct points, indicators of readings, and their numbers.

A time series may list a point more than once, each time with some of its channels. The functions
here give the same for any such listing.
"""

import tensorflow as tf

from tfpn.math.missing import missing_mask, penalty


def first_of_each_point(points, variance):
    """1 at the first entry of each distinct observed point, 0 at its repetitions and at padding.

    Points are the same if all their coordinates are equal, to the last digit.

    Args:
        points: [B, N, d].
        variance: [B, N, c], +inf where unobserved.

    Returns:
        [B, N] in the dtype of ``variance``.

    Example:

    >>> import numpy as np
    >>> points = np.array([[[0.1], [0.1], [0.3], [0.0]]])
    >>> first_of_each_point(points, np.array([[[0.0], [0.0], [0.0], [np.inf]]])).numpy()
    array([[1., 0., 1., 0.]])
    """
    points, variance = tf.convert_to_tensor(points), tf.convert_to_tensor(variance)
    seen = tf.reduce_max(_readings(variance), axis=-1)
    earlier = tf.linalg.band_part(_same(points, variance.dtype), -1, 0)
    # The number of observed entries of the point so far, itself included.
    number = tf.linalg.matvec(earlier, seen)
    return seen * tf.cast(number < 1.5, variance.dtype)


def reading_indicators(points, variance):
    """For each entry and channel 1 if the channel was read at the entry's point, 0 if not.

    A reading at any entry of the same point counts.

    Args:
        points: [B, N, d].
        variance: [B, N, c], +inf where unobserved.

    Returns:
        [B, N, c] in the dtype of ``variance``.

    Example:

    >>> import numpy as np
    >>> points = np.array([[[0.1], [0.1], [0.3]]])
    >>> variance = np.array([[[0.0, np.inf], [np.inf, 0.0], [0.0, np.inf]]])
    >>> reading_indicators(points, variance).numpy().tolist()
    [[[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]]
    """
    points, variance = tf.convert_to_tensor(points), tf.convert_to_tensor(variance)
    readings = tf.matmul(_same(points, variance.dtype), _readings(variance))
    return tf.minimum(readings, 1.0)


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


def _same(points, dtype):
    """1 for pairs of equal points, [B, N, N]."""
    same = tf.reduce_all(tf.equal(points[:, :, None], points[:, None]), axis=-1)
    return tf.cast(same, dtype)

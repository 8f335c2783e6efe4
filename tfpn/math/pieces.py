"""Takes query points piece by piece, so that memory does not grow with their number."""

import tensorflow as tf

# Number of query points of a piece, times examples, and the least number for one example. A piece
# has at least as many points as are observed. So its products take longer than the factorisation,
# which each piece repeats, and it needs no more memory than the layer at its own points.
_PIECE_POINTS = 2048
_LEAST_POINTS = 256


def piece_length(examples, observed):
    """The number of query points to take at a time for so many examples and observed points.

    It is None, for all, if one of the numbers is None because it is not known beforehand.
    """
    if None in (examples, observed):
        return None
    return max(observed, _LEAST_POINTS, _PIECE_POINTS // max(examples, 1))


def in_pieces(function, query, length):
    """``function(query)``, piece by piece.

    Args:
        function: takes points [B, m, d] and returns a tuple of tensors [B, m, ...].
        query: [B, M, d].
        length: number of points of a piece, or None for all.

    Returns:
        The tuple, with tensors [B, M, ...].

    Example:

    >>> import tensorflow as tf
    >>> (doubled,) = in_pieces(lambda query: (2.0 * query,), tf.ones([1, 5, 1]), 2)
    >>> doubled.shape
    TensorShape([1, 5, 1])
    """
    count = query.shape[1]
    if None in (length, count) or count <= length:
        return function(query)
    parts = [function(query[:, start : start + length]) for start in range(0, count, length)]
    return tuple(tf.concat(found, axis=1) for found in zip(*parts, strict=True))

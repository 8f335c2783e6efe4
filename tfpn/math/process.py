"""A convolution's output as a process: joint over query points, for each channel.

Posteriors use triangular systems here (`tfpn.math.posterior.factored`), because differences of
covariances between many close points need all digits.
"""

import dataclasses

import tensorflow as tf

from tfpn.math.pieces import in_pieces, piece_length
from tfpn.math.posterior import NOISE
from tfpn.math.shapes import sizes


def process_marginals(way, observed, operator, beside):
    """Mean and variance of each output at the operator's query points, each [B, M, c_out].

    The query points are taken in pieces. So only the results need memory that grows with their
    number.

    Args:
        way: a `tfpn.math.uncertainty.Uncertainty`.
        observed: `tfpn.math.posterior.Observed`.
        operator: `tfpn.math.operator.Operator`.
        beside: the tensor beside the observations' variance (`Uncertainty`), or None.
    """
    mean, variance = operator.bias, 0.0
    for some, part in _parts(observed, operator, beside):

        def piece(query, some=some, part=part):
            moved = dataclasses.replace(part, query=query)
            missing = tf.zeros_like(query[..., :1])
            return way.marginals(some, moved, beside, missing)

        length = piece_length(*some.points.shape[:2])
        largest = way.query_points(operator.weights.shape[-1])
        if largest is not None:
            length = min(length or largest, largest)
        found = in_pieces(piece, operator.query, length)
        mean, variance = mean + found[0], variance + found[1]
    return mean, variance


def process_covariance(way, observed, operator, beside):
    """Covariances of each output between the query points, [B, c_out, M, M].

    It takes about 32 bytes in float64 for each number of the covariance, and little more.

    Args:
        way, observed, operator, beside: as in `process_marginals`.
    """
    return tf.add_n([way.covariance(*part, beside) for part in _parts(observed, operator, beside)])


def _parts(observed, operator, beside):
    """The input channels without bias: together, or one at a time if they are independent."""
    observed = dataclasses.replace(observed, by_factor=True)
    operator = dataclasses.replace(operator, bias=tf.zeros_like(operator.bias))
    if not NOISE[observed.noise].each:
        return [(observed, operator)]
    if beside is not None:
        raise ValueError(
            "the process of features with joint errors (draws, factors or a covariance) "
            f"needs noise='shared', found {observed.noise!r}."
        )
    return [
        (
            observed.channel(index),
            dataclasses.replace(operator, weights=operator.weights[:, index : index + 1]),
        )
        for index in range(sizes(observed.values)[-1])
    ]

"""A convolution's output as a process: joint over query points, for each channel.

Posteriors use triangular systems here (`tfpn.math.posterior.factored`), because differences of
covariances between many close points need all digits.
"""

import dataclasses

import tensorflow as tf

from tfpn.math.neighbourhoods import in_neighbourhoods
from tfpn.math.pieces import in_pieces, piece_length
from tfpn.math.posterior import NOISE
from tfpn.math.shapes import sizes

# Every block takes 16 query points or more, a fifth of its 80 points. So a piece may have a fifth
# as many query points as there are observations, in as much memory as one.
_SHARE = 5


def process_marginals(way, observed, operator, beside, neighbourhoods=None):
    """Mean and variance of each output at the operator's query points, each [B, M, c_out].

    The query points are taken in pieces. So only the results need memory that grows with their
    number.

    Args:
        way: a `tfpn.math.uncertainty.Uncertainty`.
        observed: `tfpn.math.posterior.Observed`.
        operator: `tfpn.math.operator.Operator`.
        beside: the tensor beside the observations' variance (`Uncertainty`), or None.
        neighbourhoods: `tfpn.math.neighbourhoods.Neighbourhoods` to condition each query point on
            the observations near it, or None for all observations. Then ``beside`` is None or draws
            [B, S, N, c_in].
    """
    mean, variance = operator.bias, 0.0
    number = observed.points.shape[1]
    for some, part in _parts(observed, operator, beside):

        def piece(query, some=some, part=part):
            moved = dataclasses.replace(part, query=query)
            if neighbourhoods is None:
                return way.marginals(some, moved, beside, tf.zeros_like(query[..., :1]))
            return _marginals_near(neighbourhoods, way, some, moved, beside)

        length = piece_length(*some.points.shape[:2])
        largest = way.query_points(operator.weights.shape[-1])
        if largest is not None:
            if neighbourhoods is not None and number is not None:
                largest = max(largest, number // _SHARE)
            length = min(length or largest, largest)
        found = in_pieces(piece, operator.query, length)
        mean, variance = mean + found[0], variance + found[1]
    return mean, variance


def _marginals_near(neighbourhoods, way, observed, operator, draws):
    def by_other(tensor):
        return tf.transpose(tensor, [0, 2, 1, 3])  # draws by points, or points by draws

    def marginals(observed, operator, *draws):
        beside = by_other(draws[0]) if draws else None
        missing = tf.zeros_like(operator.query[..., :1])
        found = way.marginals(observed, operator, beside, missing)
        return *found, tf.zeros_like(observed.values[:, 0])  # instead of the likelihood

    tensors = () if draws is None else (by_other(draws),)
    return in_neighbourhoods(
        neighbourhoods, marginals, observed, operator, own=False, tensors=tensors
    )[:2]


def process_covariance(way, observed, operator, beside):
    """Covariances of each output between the query points, [B, c_out, M, M].

    It takes about 32 bytes in float64 for each number of the covariance, and little more.

    Args:
        way, observed, operator, beside: as in `process_marginals`. All observations are conditioned
            on.
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

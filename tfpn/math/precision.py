"""Float32 observations computed in float64, where float32's digits do not suffice.

Conditioning takes small differences of large numbers. What is left of the prior variance s^2 at a
point that was read n times with noise variance v is v / n, which float32 loses where it is below
some 1e-7 s^2, and close points make the covariance matrix K + S so ill-conditioned that N s^2 / v
times float32's rounding counts. Float64 has the digits.
"""

import functools
import inspect

import tensorflow as tf

from tfpn.math.checks import floating

# Arguments that hold numbers to compute with, by their name in all functions of `tfpn.math`.
_TENSORS = frozenset(
    "points values variance query weights drift diffusion signal_std length_scale "
    "observation_noise bias factors covariance query_weight".split()
)
_PAIRS = frozenset(["box", "disc"])

# Least noise variance of float32 observations relative to signal_std^2, for each observed point:
# float64's rounding of N readings of one place, some N times 1e-16, is a thousandth of it.
_LEAST_FOR_EACH_POINT = 2e-13

EXAMPLES = "examples"  # rows of tensors with an axis of examples


def in_double_precision(function):
    """Decorator: float32 arguments are computed in float64, and the results rounded to float32.

    Adds the argument ``double_precision``, True by default; with False the function computes in
    the dtype of ``values``, as it does with float64 values.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args, double_precision=True, **options):
        given = signature.bind(*args, **options).arguments
        dtype = floating(given["values"], "values").dtype
        if dtype == tf.float64 or not double_precision:
            return function(**given)
        wide = {name: _widened(name, value, dtype) for name, value in given.items()}
        wide["variance"] = resolved_variance(
            wide["variance"], wide["signal_std"], wide.get("observation_noise", 0.0)
        )
        return tuple(tf.cast(tensor, dtype) for tensor in function(**wide))

    flag = inspect.Parameter("double_precision", inspect.Parameter.KEYWORD_ONLY, default=True)
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), flag])
    return call


def _widened(name, value, dtype):
    if value is None or name not in _TENSORS | _PAIRS:
        return value
    if name in _PAIRS:
        return tuple(tf.cast(tf.convert_to_tensor(part, dtype), tf.float64) for part in value)
    return tf.cast(tf.convert_to_tensor(value, dtype), tf.float64)


def resolved_variance(variance, signal_std, observation_noise):
    """Variances of float32 observations raised to what float64 resolves, however many contradict.

    Args:
        variance: [B, N, c], +inf where unobserved.
        signal_std: scalar or [c].
        observation_noise: scalar or [c], which is added later and counts.

    Returns:
        ``max(variance, 2e-13 n signal_std^2 - observation_noise)`` with n the number of observed
        points of the example's channel.
    """
    variance = tf.convert_to_tensor(variance)
    signal_std, observation_noise = (
        tf.convert_to_tensor(tensor, variance.dtype) for tensor in (signal_std, observation_noise)
    )
    each = variance.shape[-1:]
    if variance.shape.rank != 3 or not all(
        tensor.shape.rank == 0 or tensor.shape.is_compatible_with(each)
        for tensor in (signal_std, observation_noise)
    ):
        return variance  # of a wrong shape, which `prepare` refuses
    count = tf.reduce_sum(tf.cast(tf.math.is_finite(variance), variance.dtype), 1, keepdims=True)
    least = _LEAST_FOR_EACH_POINT * count * tf.square(signal_std)
    raised = tf.maximum(variance, tf.nn.relu(least - observation_noise))
    return tf.where(variance >= 0.0, raised, variance)  # what is negative or NaN is refused, too


class Chosen:
    """Some of the examples, a few at a time, for `tfpn.math.blocks.in_blocks`.

    Args:
        chosen: bool [B].
        length: examples at a time.
    """

    def __init__(self, chosen, length):
        self._length = length
        self._number = tf.reduce_sum(tf.cast(chosen, tf.int32))
        self.count = -(-self._number // length)
        order = tf.argsort(tf.cast(~chosen, tf.int32), stable=True)
        self._order = tf.pad(order, [[0, length]])  # the last block is filled up

    def rows(self, index):
        """The block's examples, and which of them are not padding."""
        start = index * self._length
        return {
            EXAMPLES: tf.slice(self._order, [start], [self._length]),
            "valid": start + tf.range(self._length) < self._number,
        }

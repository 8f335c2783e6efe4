"""Checks the arguments of the public functions once, where they enter.

Layers check their inputs themselves, and call the functions behind these checks.
"""

import tensorflow as tf

from tfpn.checks import floating, require_rank, require_static_dim, same_sizes
from tfpn.math.kernels import Kernel, read_mixture
from tfpn.math.posterior import NOISE, TRAINS, Observed


def read_observed(
    points,
    values,
    variance,
    *,
    signal_std,
    length_scale,
    kernel="rbf",
    noise="shared",
    observation_variance=0.0,
    marginal_likelihood_trains="all",
    double_precision=True,
):
    """Checks observations and prior, and returns them in the dtype of ``values``.

    Arguments and errors are those of `tfpn.math.convolve`.
    """
    for name, found, allowed in (
        ("noise", noise, tuple(NOISE)),
        ("marginal_likelihood_trains", marginal_likelihood_trains, TRAINS),
    ):
        if found not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, found {found!r}.")
    values = floating(values, "values")
    points, variance, signal_std, length_scale, observation_variance = (
        tf.convert_to_tensor(t, values.dtype)
        for t in (points, variance, signal_std, length_scale, observation_variance)
    )
    _check_shapes(points, values, variance)
    channels = values.shape[-1]
    _check_parameter_shapes(signal_std, length_scale, observation_variance, channels, noise)
    prior = Kernel(signal_std, length_scale, read_mixture(kernel))
    if max(signal_std.shape.rank, length_scale.shape.rank):
        prior = prior.for_channels(channels)
    checks = _entry_checks(points, values, variance)
    checks += _prior_checks(signal_std, length_scale, observation_variance)
    with tf.control_dependencies([check for check in checks if check is not None]):
        values, variance = tf.identity(values), tf.identity(variance)
    return Observed(
        points,
        values,
        variance,
        prior,
        noise,
        observation_variance,
        marginal_likelihood_trains,
        double_precision,
    )


def _entry_checks(points, values, variance):
    sizes = same_sizes(
        "points, values and variance disagree on the number of examples or points:",
        *(points, values, variance),
    )
    # The other checks compare entries, so that they wait for the sizes to agree.
    with tf.control_dependencies(sizes):
        points, variance = tf.identity(points), tf.identity(variance)
    observed = tf.reduce_any(tf.math.is_finite(variance), axis=-1, keepdims=True)
    # NaN also fails the first assertion.
    return sizes + [
        tf.debugging.Assert(
            tf.reduce_all(variance >= 0.0),
            ["variance is negative or NaN; it must be >= 0, or +inf where nothing is observed."],
        ),
        tf.debugging.Assert(
            tf.reduce_all(tf.math.is_finite(points) | ~observed),
            [
                "points holds NaN or infinity where a value is observed; check it with "
                "tfpn.observations."
            ],
        ),
    ]


def _prior_checks(signal_std, length_scale, observation_variance):
    """Assertions that the prior's parameters are valid; NaN fails them, too."""
    return [
        tf.debugging.Assert(
            tf.reduce_all(ok & (tensor < float("inf"))),
            [f"{name} must be {wanted} and finite, found", tensor],
        )
        for name, tensor, ok, wanted in (
            ("signal_std", signal_std, signal_std > 0.0, "positive"),
            ("length_scale", length_scale, length_scale > 0.0, "positive"),
            ("observation_variance", observation_variance, observation_variance >= 0.0, ">= 0"),
        )
    ]


def _check_shapes(points, values, variance):
    require_rank(points, "points", ("B", "N", "d"))
    require_rank(values, "values", ("B", "N", "c"))
    require_static_dim(points, "points")
    if not values.shape[:2].is_compatible_with(points.shape[:2]):
        raise ValueError(
            f"values has shape {values.shape}, but points has shape {points.shape}: the numbers "
            "of examples and points must agree."
        )
    if not variance.shape.is_compatible_with(values.shape):
        raise ValueError(
            f"variance has shape {variance.shape}, expected that of values, {values.shape}."
        )


def _check_parameter_shapes(signal_std, length_scale, observation_variance, channels, noise):
    for name, tensor in (("signal_std", signal_std), ("length_scale", length_scale)):
        if tensor.shape.rank and not NOISE[noise].each:
            raise ValueError(
                f"{name} has shape {tensor.shape}: a prior for each channel needs "
                f"noise='channel', found {noise!r}; give a scalar."
            )
    for name, tensor in (
        ("signal_std", signal_std),
        ("length_scale", length_scale),
        ("observation_variance", observation_variance),
    ):
        if tensor.shape.rank != 0 and not tensor.shape.is_compatible_with([channels]):
            raise ValueError(
                f"{name} has shape {tensor.shape}, expected a scalar or one number for each of the "
                f"{channels} channels."
            )

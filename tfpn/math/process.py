"""A convolution's output as a process: joint over query points, channel by channel."""

import numpy as np
import tensorflow as tf

from tfpn.math.conditioning import prepare
from tfpn.math.joint import functional_covariance, values_map
from tfpn.math.low_rank import convolve_low_rank, remainder_variance
from tfpn.math.missing import penalty
from tfpn.math.operators import mix_response, read_operators
from tfpn.math.precision import in_double_precision


@in_double_precision
def convolve_process(
    points,
    values,
    variance,
    query,
    *,
    weights,
    drift,
    diffusion,
    signal_std,
    length_scale,
    noise="shared",
    observation_noise=0.0,
    bias=None,
    factors=None,
    covariance=None,
):
    """Mean and covariance over the query points of each output channel of `convolve`.

    Its diagonal is the variance of `convolve`, `convolve_low_rank` (with ``factors``) or
    `convolve_joint` (with ``covariance``). Costs (M K)^2 numbers for each example, and with
    noise="channel" for each input channel.

    Args:
        points, values, variance, query, weights, drift, diffusion, signal_std, length_scale, noise,
            observation_noise, bias: as in `convolve`.
        factors: of the values, [r, B, N, c_in], or None.
        covariance: of the values, [B, N, c_in, N, c_in], or None.
        double_precision: True computes float32 arguments in float64, with the least variance of
            `convolve`; False is for features whose variances are no measurement's.

    Returns:
        mean [B, M, c_out] and covariance [B, c_out, M, M].

    Example:

    >>> import numpy as np, tfpn
    >>> points = np.linspace(0, 1, 9)[None, :, None]
    >>> mean, covariance = tfpn.math.convolve_process(
    ...     points, np.sin(2 * np.pi * points), np.full((1, 9, 1), 0.1), points[:, :4],
    ...     weights=np.ones((1, 1, 2)), drift=np.array([[0.25]]), diffusion=np.zeros((1, 1, 1)),
    ...     signal_std=1.0, length_scale=0.3)
    >>> mean.shape, covariance.shape
    (TensorShape([1, 4, 2]), TensorShape([1, 2, 4, 4]))
    """
    values = tf.convert_to_tensor(values)
    if max(np.ndim(signal_std), np.ndim(length_scale)):
        return _of_each_channel(
            points, values, variance, query, weights=weights, drift=drift, diffusion=diffusion,
            signal_std=signal_std, length_scale=length_scale, noise=noise,
            observation_noise=observation_noise, bias=bias,
        )  # fmt: skip
    noise_variance = tf.convert_to_tensor(variance, values.dtype)
    if factors is not None:
        noise_variance = remainder_variance(noise_variance, factors)
    if covariance is not None:  # the values' errors are in the covariance
        noise_variance = penalty(noise_variance)
    prior = {"signal_std": signal_std, "length_scale": length_scale}
    gp = prepare(
        points, values, noise_variance, noise=noise, observation_noise=observation_noise, **prior
    )
    kernel, operators = read_operators(gp, query, weights, drift, diffusion)
    cross = operators.cross()
    mean = mix_response(gp.posterior_mean(cross), kernel, bias)
    function = functional_covariance(gp, cross, query, drift=drift, diffusion=diffusion)
    if gp.shared:
        gram = tf.einsum("ica,jca->aij", kernel, kernel)
        result = tf.einsum("bminj,aij->bamn", function, gram)
    else:
        result = tf.einsum("bcminj,ica,jca->bamn", function, kernel, kernel)
    if factors is not None:
        flows = {"weights": weights, "drift": drift, "diffusion": diffusion}
        _, _, moved, _ = convolve_low_rank(
            *(points, values, variance, factors, query),
            **prior,
            **flows,
            observation_noise=observation_noise,
        )
        result += tf.einsum("rbma,rbna->bamn", moved, moved)
    if covariance is not None:
        linear = values_map(gp, cross, kernel)
        half = tf.einsum("bmanc,bncpd->bmapd", linear, covariance)
        result += tf.einsum("bmapd,bqapd->bamq", half, linear)
    return mean, result


def _of_each_channel(points, values, variance, query, *, weights, signal_std, length_scale,
                     observation_noise, bias, **options):  # fmt: skip
    """The sum over input channels, which are independent, where each has a prior of its own."""
    channels = values.shape[-1]
    each = {
        "signal_std": signal_std, "length_scale": length_scale,
        "observation_noise": observation_noise,
    }  # fmt: skip
    each = {key: tf.broadcast_to(tensor, [channels]) for key, tensor in each.items()}
    means, covariances = zip(
        *(
            convolve_process(
                points, values[..., c : c + 1], variance[..., c : c + 1], query,
                weights=weights[:, c : c + 1], **options,
                **{key: tensor[c] for key, tensor in each.items()},
            )
            for c in range(channels)
        ),
        strict=True,
    )  # fmt: skip
    mean = tf.add_n(means)
    return mean if bias is None else mean + bias, tf.add_n(covariances)

"""The flows exp(D_k) at query points, and the mixing of what they give."""

import tensorflow as tf

from tfpn.math.channels import mix_channels
from tfpn.math.checks import require_rank
from tfpn.math.kernels import operator_kernels, operator_prior_covariance
from tfpn.math.shapes import reshape, sizes


class Operators:
    """The flows exp(D_k) at the query points."""

    def __init__(self, gp, query, drift, diffusion):
        self._gp = gp
        self.query = query
        self.flow = {
            "signal_std": gp.signal_std,
            "length_scale": gp.length_scale,
            "drift": drift,
            "diffusion": diffusion,
        }

    def cross(self):
        """k_i(x_m, x_n), [B, M, K, N]."""
        return operator_kernels(self.query, self._gp.points, **self.flow)

    def condition(self, trains):
        """Means, what is explained of the prior, and likelihood, as `Conditioning.condition`."""
        if self._gp.each_prior:
            flows = {key: self.flow[key] for key in ("drift", "diffusion")}
            return self._gp.condition_flows(self.query, trains, **flows)
        return self._gp.condition(self.cross(), trains)

    def prior(self):
        """k_ij(x, x), [K, K], or [c, K, K] for channels with priors of their own."""
        return operator_prior_covariance(**self.flow)


def read_operators(gp, query, weights, drift, diffusion):
    query, weights, drift, diffusion = (
        tf.convert_to_tensor(t, gp.values.dtype) for t in (query, weights, drift, diffusion)
    )
    require_rank(query, "query", ("B", "M", "d"))
    require_rank(weights, "weights", ("K", "c_in", "c_out"))
    dim = gp.points.shape[-1]
    operators = weights.shape[0]
    channels = gp.values.shape[-1 if gp.shared else 1]
    for name, tensor, shape in (
        ("query", query, [gp.points.shape[0], None, dim]),
        ("weights", weights, [operators, channels, None]),
        ("drift", drift, [operators, dim]),
        ("diffusion", diffusion, [operators, dim, dim]),
    ):
        if not tensor.shape.is_compatible_with(shape):
            raise ValueError(
                f"{name} has shape {tensor.shape}, expected {tf.TensorShape(shape)}: {dim} spatial "
                f"dimension(s), {channels} input channel(s) and {operators} basis operator(s)."
            )
    return weights, Operators(gp, query, drift, diffusion)


def mix_response(response, weights, bias):
    """``sum_{k,b} W_k[b, a] response[..., k, b]`` as one matrix product."""
    operators, channels, out = weights.shape
    shape = [*sizes(response)[:2], operators * channels]
    return mix_channels(
        reshape(response, shape), tf.reshape(weights, [operators * channels, out]), bias
    )


def prior_variance(prior, weights):
    """``sum_{ij,b} W_i[b, a] W_j[b, a] k_ij``, [c_out]; ``prior`` is [K, K] or [c, K, K]."""
    pairs = "ij" if prior.shape.rank == 2 else "bij"
    return tf.einsum(f"{pairs},iba,jba->a", prior, weights, weights)


def mixed_variance(prior, explained, weights, shared):
    """``sum_{ij,b} W_i[b, a] W_j[b, a] N_ij^b``, clipped at the zero that rounding may cross."""
    operators, channels, out = weights.shape
    flat = tf.reshape(weights, [operators * channels, out])
    by_output = tf.reshape(tf.transpose(flat), [out, operators, channels])
    gram = tf.matmul(by_output, by_output, transpose_b=True)
    if prior.shape.rank == 2:
        prior = mix_channels(tf.reshape(prior, [1, -1]), tf.transpose(tf.reshape(gram, [out, -1])))
    else:
        prior = prior_variance(prior, weights)[None]
    if not shared:
        gram = tf.einsum("obi,obj->obij", *2 * [tf.transpose(by_output, [0, 2, 1])])
        explained = tf.einsum("bcmij->bmcij", explained)
    gram = -tf.transpose(tf.reshape(gram, [out, -1]))
    flat = tf.reshape(explained, [-1, gram.shape[0]])
    mixed = mix_channels(flat, gram, prior[0], rectify=True)
    return reshape(mixed, [*sizes(explained)[:2], out])

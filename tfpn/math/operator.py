"""The linear operator of a convolution, A = sum_k W_k exp(D_k), applied to a posterior."""

import dataclasses

import tensorflow as tf

from tfpn.math.channels import mix_channels
from tfpn.math.pieces import in_pieces
from tfpn.math.posterior import Flowed
from tfpn.math.shapes import axis_sizes, reshape, sizes


@dataclasses.dataclass(frozen=True)
class Operator:
    """``(A f)(x_m) = sum_k W_k (exp(D_k) f)(x_m) + bias`` at M query points.

    `tf.nest` treats it as its tensors.

    Attributes:
        query: x_m [B, M, d].
        weights: W_k, transposed like Keras kernels, [K, c_in, c_out].
        drift: beta [K, d].
        diffusion: Sigma [K, d, d].
        bias: [c_out].
    """

    query: tf.Tensor
    weights: tf.Tensor
    drift: tf.Tensor
    diffusion: tf.Tensor
    bias: tf.Tensor

    def __tf_flatten__(self):
        return (), (self.query, self.weights, self.drift, self.diffusion, self.bias)

    @classmethod
    def __tf_unflatten__(cls, metadata, components):
        return cls(*components)

    @property
    def reach(self):
        """The lowest drift or 0, and the highest drift or 0, along each axis, [d]; constants."""
        drift = tf.stop_gradient(self.drift)
        return tf.minimum(tf.reduce_min(drift, 0), 0.0), tf.maximum(tf.reduce_max(drift, 0), 0.0)

    def functionals(self, kernel):
        """All ``(exp(D_k) f)(x_m)`` of channels with the given kernel."""
        return Flowed(self.query, kernel.flowed(self.drift, self.diffusion))

    def prior(self, kernel):
        """The functionals' prior covariances at one point, [G, K, K].

        G is 1, or c with a kernel for each channel.
        """
        prior = kernel.flowed_variance(self.drift, self.diffusion)
        return prior if kernel.each else prior[None]

    def prior_variance(self, kernel):
        """The outputs' prior variances, the same everywhere, [c_out]."""
        prior = self.prior(kernel)
        return mix_channels(tf.reshape(prior, [1, -1]), self._weights_by_pair(prior.shape[0]))[0]

    def priors(self, kernel):
        """`prior` of each input channel, [c_in, K, K]."""
        prior = self.prior(kernel)
        return tf.broadcast_to(prior, [self.weights.shape[1], *prior.shape[1:]])

    def prior_variances(self, kernel):
        """The share of each input channel in the outputs' prior variances, [c_in, c_out]."""
        weights = self.weights
        return tf.einsum("bij,iba,jba->ba", self.priors(kernel), weights, weights)

    def mix(self, response):
        """``sum_{k,b} W_k[b, a] response[..., k, b] + bias``, [B, M, K, c_in] -> [B, M, c_out].

        Of e examples beside each other, [B, M, K, e c_in] -> [B, M, e c_out].
        """
        count, channels, out = self.weights.shape
        flat = tf.reshape(self.weights, [count * channels, out])
        if response.shape[-1] == channels:
            shape = [*sizes(response)[:2], count * channels]
            return mix_channels(reshape(response, shape), flat, self.bias)
        batch, queries, _, beside = axis_sizes(response)
        copies = beside // channels
        by_copy = tf.reshape(response, [batch, queries, count, copies, channels])
        by_copy = tf.transpose(by_copy, [0, 1, 3, 2, 4])
        mixed = mix_channels(tf.reshape(by_copy, [-1, count * channels]), flat, self.bias)
        return tf.reshape(mixed, [batch, queries, copies * out])

    def respond(self, posterior, columns):
        """Applies the operator to the posterior means from q columns of each channel.

        Args:
            posterior: `tfpn.math.posterior.Posterior`.
            columns: [B, q, N, c_in].

        Returns:
            [B, q, M, c_out] and the negative log marginal likelihood [B, c_in].
        """
        response, nll = posterior.respond(self.functionals(posterior.kernel), columns)
        batch, number, *shape = sizes(response)
        mixed = self.mix(reshape(response, [[batch, number], *shape]))
        return reshape(mixed, [batch, number, *sizes(mixed)[1:]]), nll

    def flowed(self, waves):
        """The operator applied to plane waves, without bias, as `tfpn.math.waves.Waves`."""
        drift = tf.einsum("sfd,kd->sfk", waves.frequencies, self.drift)[..., None]
        decay = tf.einsum("sfd,kde,sfe->sfk", waves.frequencies, self.diffusion, waves.frequencies)
        decay = tf.exp(-0.5 * decay)[..., None]
        real, imaginary = decay * tf.cos(drift), decay * tf.sin(drift)
        a, b = (tf.expand_dims(t, 2) for t in tf.split(waves.amplitudes, 2, axis=1))
        moved = tf.concat([a * real + b * imaginary, b * real - a * imaginary], axis=1)
        count, channels, out = self.weights.shape
        samples, size = sizes(waves.amplitudes)[:2]
        flat = tf.reshape(self.weights, [count * channels, out])
        mixed = mix_channels(reshape(moved, [samples, size, count * channels]), flat)
        return dataclasses.replace(waves, amplitudes=mixed)

    @staticmethod
    def in_common(variance):
        """The variances [B, N, c_in] that count: those of each channel."""
        return variance

    def mix_variance(self, prior_variance, explained):
        """``sum_{ij,b} W_i[b, a] W_j[b, a] N_ij^b``, raised to 0 if rounding makes it negative.

        Args:
            prior_variance: the result of `prior_variance`, [c_out].
            explained: the explained part of the prior, [B, M, G, K, K], from `Posterior.condition`.

        Returns:
            [B, M, c_out].
        """
        seen = -self._weights_by_pair(explained.shape[2])
        mixed = mix_channels(
            tf.reshape(explained, [-1, seen.shape[0]]), seen, prior_variance, rectify=True
        )
        return reshape(mixed, [*sizes(explained)[:2], seen.shape[1]])

    def _weights_by_pair(self, groups):
        """``sum_b W_i[b, a] W_j[b, a]`` over each of the groups of channels, [G K K, c_out]."""
        count, channels, out = self.weights.shape
        by_output = tf.transpose(self.weights, [2, 1, 0])  # [a, b, i]
        if groups == 1:
            pairs = tf.matmul(by_output, by_output, transpose_a=True)
        else:
            pairs = by_output[..., None] * by_output[:, :, None]
        return tf.transpose(tf.reshape(pairs, [out, groups * count * count]))


# Bound in bytes on the covariances of all flows for the rows that are computed at once.
_ROW_BYTES = 2**23


def output_covariance(posterior, operator):
    """Posterior covariances of each output between the query points, some rows at a time.

    Args:
        posterior: `tfpn.math.posterior.factored.Factored`, because differences need all digits.
        operator: `Operator`.

    Returns:
        [B, c_out, M, M].
    """
    kernel, query = posterior.kernel, operator.query
    cross = operator.functionals(kernel).cross(posterior.points)
    batch, size, count, observed = sizes(cross)
    flat = reshape(cross, [batch, [size, count], observed])
    white = posterior.white(tf.linalg.matrix_transpose(flat))  # [B, N, M K]
    weights = operator.weights
    pairs = tf.einsum("ica,jca->aij", weights, weights)

    def rows(chosen):
        """The rows [B, m, c_out, M] of the query points with the numbers ``chosen`` [1, m, 1]."""
        chosen = chosen[0, :, 0]
        prior = kernel.flowed_pairs(
            tf.gather(query, chosen, axis=1), query, operator.drift, operator.diffusion
        )
        batch, length = sizes(prior)[:2]
        functionals = reshape(chosen[:, None] * count + tf.range(count), [[length, count]])
        explained = tf.matmul(tf.gather(white, functionals, axis=2), white, transpose_a=True)
        explained = reshape(explained, [batch, length, count, size, count])
        function = prior - tf.einsum("bminj->bmijn", explained)
        return (tf.einsum("bmijn,aij->bman", function, pairs),)

    numbers = tf.range(tf.shape(query)[1])[None, :, None]
    (result,) = in_pieces(rows, tf.ensure_shape(numbers, [1, query.shape[1], 1]),
                          _rows_at_a_time(query, count))  # fmt: skip
    result = tf.transpose(result, [0, 2, 1, 3])
    return 0.5 * (result + tf.linalg.matrix_transpose(result))


def _rows_at_a_time(query, count):
    batch, size, _ = query.shape
    if None in (batch, size):
        return None
    return max(1, _ROW_BYTES // (query.dtype.size * max(batch, 1) * count**2 * max(size, 1)))

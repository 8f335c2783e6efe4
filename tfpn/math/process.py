"""A convolution's output as a process: joint over query points, channel by channel.

The posterior is solved for with the Cholesky factor L of ``B = I + D K D`` (`tfpn.math.posterior`)
and not by its explicit inverse, the whitener: between close points with little noise, a difference
with the explained part by the whitener has an error of up to 1e-4 of the prior variance, by the
factor one of 1e-14. Layers, which take variances one by one, do not need it.
"""

import numpy as np
import tensorflow as tf

from tfpn.math.conditioning import prepare
from tfpn.math.convolution import _mix, _mixed_variance, _operators
from tfpn.math.kernels import operator_pair_kernels
from tfpn.math.low_rank import factor_variance, remainder_variance
from tfpn.math.missing import penalty
from tfpn.math.pieces import in_pieces, piece_length
from tfpn.math.shapes import reshape, sizes

# Bound on the covariances of all flows at once, of some rows of the result.
_ROW_BYTES = 2**23


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
    floor_dtype=None,
):
    """Mean and covariance over the query points of each output channel of `convolve`.

    Its diagonal is the variance of `convolve`, `convolve_low_rank` (with ``factors``) or
    `convolve_joint` (with ``covariance``). In float64 it takes some 32 bytes for each number of the
    covariance, and little beside.

    Args:
        points, values, variance, query, weights, drift, diffusion, signal_std, length_scale, noise,
            observation_noise, bias: as in `convolve`.
        factors: of the values, [r, B, N, c_in], or None.
        covariance: of the values, [B, N, c_in, N, c_in], or None.
        floor_dtype: the dtype whose least noise variance counts; by default that of values.

    Returns:
        mean [B, M, c_out] and covariance [B, c_out, M, M].

    Raises:
        ValueError, TypeError, tf.errors.InvalidArgumentError: as `convolve`.

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
    options = {
        "weights": weights, "drift": drift, "diffusion": diffusion, "signal_std": signal_std,
        "length_scale": length_scale, "noise": noise, "observation_noise": observation_noise,
        "factors": factors, "covariance": covariance, "floor_dtype": floor_dtype,
    }  # fmt: skip
    mean, _ = process_marginals(points, values, variance, query, bias=bias, **options)
    return mean, process_covariance(points, values, variance, query, **options)


def process_marginals(points, values, variance, query, *, bias=None, **options):
    """Mean and variance of `convolve_process`, [B, M, c_out] each.

    The query points are taken in pieces, so that beside the results the memory does not grow with
    their number.

    Args:
        points, values, variance, query, bias, options: as in `convolve_process`.
    """
    means, variances = [], []
    for part in _parts(points, values, variance, **options):
        at = part.query(query)
        mean, found = in_pieces(part.marginals, at, piece_length(*part.gp.points.shape[:2]))
        means.append(mean)
        variances.append(found)
    mean = tf.add_n(means)
    return mean if bias is None else mean + bias, tf.add_n(variances)


def process_covariance(points, values, variance, query, **options):
    """The covariance of `convolve_process`, [B, c_out, M, M]; arguments as there, without bias."""
    total = None
    for part in _parts(points, values, variance, **options):
        found = part.covariance(part.query(query))
        total = found if total is None else total + found
    return total


def _parts(points, values, variance, *, weights, noise="shared", signal_std, length_scale,
           observation_noise=0.0, **options):  # fmt: skip
    """The input channels, together or, where they are independent, one at a time."""
    prior = {
        "signal_std": signal_std, "length_scale": length_scale,
        "observation_noise": observation_noise,
    }  # fmt: skip
    if noise != "channel":
        yield _Part(points, values, variance, weights, noise=noise, **prior, **options)
        return
    values, weights = tf.convert_to_tensor(values), tf.convert_to_tensor(weights)
    for c in range(values.shape[-1]):
        one = slice(c, c + 1)
        own = {key: value[c] if np.ndim(value) else value for key, value in prior.items()}
        yield _Part(
            points, values[..., one], variance[..., one], weights[:, one],
            noise="shared", **own, **options,
        )  # fmt: skip


class _Part:
    """Input channels with one factorisation for each example.

    ``white`` is L^-1 D applied to what follows, columns of N numbers.
    """

    def __init__(self, points, values, variance, weights, *, drift, diffusion, factors=None,
                 covariance=None, floor_dtype=None, **prior):  # fmt: skip
        values = tf.convert_to_tensor(values)
        noise_variance = tf.convert_to_tensor(variance, values.dtype)
        if factors is not None:
            factors = tf.convert_to_tensor(factors, values.dtype)
            noise_variance = remainder_variance(noise_variance, factors)
        if covariance is not None:  # the values' errors are in the covariance
            noise_variance = penalty(noise_variance)
        self.gp = prepare(points, values, noise_variance, floor_dtype=floor_dtype, **prior)
        self._flow = drift, diffusion
        self._given_weights = weights
        kernel, noise = self.gp._matrices(self.gp.points, self.gp.given_variance)
        self._root = tf.where(tf.math.is_finite(noise), tf.math.rsqrt(noise), 0.0)
        scaled = kernel * self._root[..., None] * self._root[..., None, :]
        identity = tf.eye(sizes(kernel)[-1], dtype=kernel.dtype)
        self._factor = tf.linalg.cholesky(scaled + identity)
        self._white_values = self._white(self.gp.values)
        self._white_factors = (
            None if factors is None else [self._white(factor) for factor in tf.unstack(factors)]
        )
        self._values_covariance = (
            None if covariance is None else tf.convert_to_tensor(covariance, values.dtype)
        )

    def query(self, query):
        return tf.convert_to_tensor(query, self.gp.values.dtype)

    def _white(self, columns):
        return tf.linalg.triangular_solve(self._factor, self._root[..., None] * columns)

    def _at(self, query):
        """The weights, the flows, and white cross kernels [B, N, m K]."""
        self._weights, operators = _operators(self.gp, query, self._given_weights, *self._flow)
        cross = operators.cross()
        batch, length, count, observed = sizes(cross)
        flat = reshape(cross, [batch, length * count, observed])
        return operators, self._white(tf.linalg.matrix_transpose(flat))

    def _mixed(self, white, columns):
        """Of the input's white columns [B, N, c] the output [B, m, c_out]."""
        operators, channels = self._weights.shape[:2]
        batch, _, flat = sizes(white)
        response = tf.matmul(white, columns, transpose_a=True)
        return _mix(
            reshape(response, [batch, flat // operators, operators, channels]), self._weights, None
        )

    def marginals(self, query):
        """Mean and variance at points [B, m, d], [B, m, c_out] each."""
        operators, white = self._at(query)
        mean = self._mixed(white, self._white_values)
        batch, observed, _ = sizes(white)
        by_point = reshape(
            tf.linalg.matrix_transpose(white),
            [batch, sizes(query)[1], self._weights.shape[0], observed],
        )
        explained = tf.matmul(by_point, by_point, transpose_b=True)
        variance = _mixed_variance(operators.prior(), explained, self._weights, shared=True)
        if self._white_factors is not None:
            moved = tf.stack([self._mixed(white, factor) for factor in self._white_factors])
            variance += factor_variance(moved)
        if self._values_covariance is not None:
            linear = self._linear(white)
            half = tf.einsum("bmanc,bncpd->bmapd", linear, self._values_covariance)
            variance += tf.einsum("bmapd,bmapd->bma", half, linear)
        return mean, variance

    def _linear(self, white):
        """The values' linear map ``sum_k W_k (x) k_k(x_m, X) (K + S)^-1``, [B, m, c_out, N, c]."""
        inverse = tf.linalg.triangular_solve(self._factor, white, adjoint=True)
        batch, observed, flat = sizes(white)
        count = self._weights.shape[0]
        inverse = reshape(self._root[..., None] * inverse, [batch, observed, flat // count, count])
        return tf.einsum("bnmk,kca->bmanc", inverse, self._weights)

    def covariance(self, query):
        """[B, c_out, M, M], computed some rows at a time."""
        _, white = self._at(query)
        gram = tf.einsum("ica,jca->aij", self._weights, self._weights)
        moved = linear = None
        if self._white_factors is not None:
            moved = tf.stack([self._mixed(white, factor) for factor in self._white_factors])
        if self._values_covariance is not None:
            linear = self._linear(white)
        drift, diffusion = self._flow
        count, size = self._weights.shape[0], sizes(query)[1]

        def rows(chosen):
            """Of the query points whose numbers are in ``chosen`` [1, m, 1], [B, m, c_out, M]."""
            chosen = chosen[0, :, 0]
            prior = operator_pair_kernels(
                tf.gather(query, chosen, axis=1), query, signal_std=self.gp.signal_std,
                length_scale=self.gp.length_scale, drift=drift, diffusion=diffusion,
            )  # fmt: skip
            functionals = reshape(chosen[:, None] * count + tf.range(count), [-1])
            explained = tf.matmul(tf.gather(white, functionals, axis=2), white, transpose_a=True)
            batch, some = sizes(prior)[:2]
            explained = reshape(explained, [batch, some, count, size, count])
            function = tf.einsum("bminj->bmijn", -explained) + prior
            result = tf.einsum("bmijn,aij->bman", function, gram)
            if moved is not None:
                result += tf.einsum("rbma,rbna->bman", tf.gather(moved, chosen, axis=2), moved)
            if linear is not None:
                some = tf.gather(linear, chosen, axis=1)
                half = tf.einsum("bmanc,bncpd->bmapd", some, self._values_covariance)
                result += tf.einsum("bmapd,bqapd->bmaq", half, linear)
            return (result,)

        batch, points = query.shape[:2]
        length = None
        if None not in (batch, points):
            bytes_of_row = query.dtype.size * max(batch, 1) * count**2 * max(points, 1)
            length = max(1, _ROW_BYTES // bytes_of_row)
        numbers = tf.range(size)[None, :, None]
        (result,) = in_pieces(rows, numbers, length)
        result = tf.transpose(result, [0, 2, 1, 3])
        return 0.5 * (result + tf.linalg.matrix_transpose(result))

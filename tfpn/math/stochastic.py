"""The stochastic diagonal estimator (the paper's appendix on PhysioNet 2012).

With probes z_p of independent entries of mean 0 and variance 1 and the posterior covariance B of
all outputs at all query points, ``E[z * B z]`` is B's diagonal. B is never formed: it is applied to
the probes by the operations that define it,

    B z = sum_i W_i [sum_j k_ij(X', X') u_j - k_i(X', X) (K + S)^-1 sum_j k_j(X', X)^T u_j]
    u_j = W_j^T z

one row of operators and some examples at a time. It is unbiased; the error of an entry has the
variance ``sum_off-diagonal B^2 / P`` with Rademacher probes (+1 or -1), to which Gaussian ones add
``2 diagonal^2 / P``.
"""

import tensorflow as tf

from tfpn.math.blocks import WHOLE, block_length, in_blocks, sizes
from tfpn.math.channels import mix_channels
from tfpn.math.conditioning import response
from tfpn.math.fusion import fusion
from tfpn.math.kernels import operator_kernels
from tfpn.math.posterior import solve

ESTIMATORS = ("exact", "stochastic")
PROBES = ("rademacher", "gaussian")

_EXAMPLES = "examples"


def probe_vectors(probes, shape, seed, dtype):
    """Independent numbers of mean 0 and variance 1.

    Args:
        probes: "rademacher" (+1 or -1) or "gaussian".
        shape: of the result.
        seed: integer tensor [2].
        dtype: float type.
    """
    if probes == "gaussian":
        return tf.random.stateless_normal(shape, seed, dtype=dtype, alg="philox")
    coins = tf.random.stateless_uniform(shape, seed, maxval=2, dtype=tf.int32, alg="philox")
    return tf.cast(2 * coins - 1, dtype)


def estimate_condition(gp, operators, weights, trains, *, num_probes, probes, seed):
    """As `Conditioning.condition`, with an estimate of the mixed variance.

    Args:
        gp: a `Conditioning`.
        operators: the flows at the query points, with ``cross()``, ``query`` and ``flow``.
        weights: [K, c_in, c_out].
        trains: what the marginal likelihood trains.
        num_probes, probes, seed: as in `convolve`.

    Returns:
        The means [B, M, K, c_in], the estimated variance [B, M, c_out], which may be negative, and
        the negative log marginal likelihood [B, c_in].
    """
    cross = operators.cross()
    batch, queries, _, size = sizes(cross)
    _, channels, out = weights.shape
    shape = [batch, queries, num_probes, out]
    vectors = tf.stop_gradient(probe_vectors(probes, shape, _pair_of(seed), cross.dtype))
    plan = _Plan(batch, cross, weights, num_probes)
    seen = _at_points(plan, vectors, cross, weights)
    if gp.shared:
        mean, nll = gp.condition_mean(cross, trains)
        columns = tf.reshape(seen, [batch, size, num_probes * channels])
        matrices = gp._matrices(gp.points, gp.given_variance)
        solved = solve(*matrices, columns, gp.whitener)
    else:
        columns = tf.transpose(tf.reshape(seen, [batch, size, num_probes, channels]), [0, 3, 1, 2])
        columns = tf.concat([gp.values, columns], axis=-1)
        solved, nll = gp.solve(columns, trains)
        solved = tf.transpose(solved, [0, 2, 3, 1])
        mean = response(cross, solved[:, :, 0])
        solved = tf.reshape(solved[:, :, 1:], [batch, size, num_probes * channels])
    return mean, _quadratic_forms(plan, vectors, cross, solved, weights, operators), nll


def _pair_of(seed):
    seed = tf.convert_to_tensor(seed)
    return tf.stack([tf.zeros_like(seed), seed]) if seed.shape.rank == 0 else seed


class _Plan:
    """Some examples and one of the K operators at a time."""

    def __init__(self, batch, cross, weights, num_probes):
        self.examples = batch
        _, queries, operators, size = sizes(cross)
        _, channels, out = weights.shape
        self.operators = operators
        # Of all that is alive at once: kernels and what leads to them, W_j^T z, and outputs.
        numbers = queries * (
            operators * (4 * queries + size) + num_probes * (2 * operators * channels + 3 * out)
        )
        self._length = block_length(batch, numbers, cross.dtype)
        self.count = -(-batch // self._length) * operators

    def rows(self, index):
        """The block's examples; the last block is filled up with examples that do not count."""
        example = index // self.operators * self._length + tf.range(self._length)
        valid = example < self.examples
        return {_EXAMPLES: tf.where(valid, example, 0), "valid": valid}

    def probes(self, block, vectors):
        """The block's probes [b, M, P, c_out], 0 for examples that do not count."""
        valid = tf.cast(block.rows["valid"], vectors.dtype)
        return tf.gather(vectors, block.rows[_EXAMPLES]) * valid[:, None, None, None]


def _at_points(plan, vectors, cross, weights):
    """``sum_j k_j(X, X') (W_j^T z)``, [B, N, P c_in]."""
    _, _, num_probes, _ = vectors.shape
    channels = weights.shape[1]
    columns = num_probes * channels

    def function(block, cross, weights):
        operator = block.index % plan.operators
        probes = plan.probes(block, vectors)
        mixed = mix_channels(probes, tf.transpose(weights[operator]))
        mixed = tf.reshape(mixed, tf.concat([tf.shape(mixed)[:2], [columns]], axis=0))
        return (tf.matmul(cross[:, :, operator], mixed, transpose_a=True),)

    (result,) = in_blocks(
        function,
        plan,
        tensors=(cross, weights),
        kinds=(_EXAMPLES, WHOLE),
        results=[(_EXAMPLES, plan.examples, [sizes(cross)[3], columns])],
    )
    return result


def _quadratic_forms(plan, vectors, cross, solved, weights, operators):
    """``mean_p z_p * (B z_p)``, [B, M, c_out]; ``solved`` [B, N, P c_in] is of `_at_points`."""
    _, queries, num_probes, out = sizes(vectors)
    count, channels, _ = weights.shape

    def function(block, cross, solved, query, weights, drift, diffusion, signal_std, length_scale):
        operator, length = block.index % count, tf.shape(query)[0]
        probes = plan.probes(block, vectors)
        # k_ij for this i and all j, [b, M, K M], and all W_j^T z, [b, K M, P c_in].
        with fusion(False):
            kernels = operator_kernels(
                query,
                query,
                drift=drift[operator] - drift,
                diffusion=diffusion[operator] + diffusion,
                signal_std=signal_std,
                length_scale=length_scale,
            )
        kernels = tf.reshape(kernels, [length, queries, count * queries])
        flat = tf.reshape(probes, [length, 1, queries * num_probes, out])
        mixed = tf.matmul(flat, weights[None], transpose_b=True)  # [b, K, M P, c_in]
        mixed = tf.reshape(mixed, [length, count * queries, num_probes * channels])
        applied = tf.matmul(kernels, mixed) - tf.matmul(cross[:, :, operator], solved)
        applied = tf.reshape(applied, [length, queries, num_probes, channels])
        applied = mix_channels(applied, weights[operator])
        return (tf.reduce_mean(probes * applied, axis=2),)

    flow = operators.flow
    (result,) = in_blocks(
        function,
        plan,
        tensors=(
            *(cross, solved, operators.query, weights),
            *(flow[key] for key in ("drift", "diffusion", "signal_std", "length_scale")),
        ),
        kinds=(_EXAMPLES, _EXAMPLES, _EXAMPLES, WHOLE, WHOLE, WHOLE, WHOLE, WHOLE),
        results=[(_EXAMPLES, plan.examples, [queries, out])],
    )
    return result

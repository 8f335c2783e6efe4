"""The stochastic diagonal estimator (the paper's appendix on PhysioNet 2012).

Let B be the posterior covariance of all outputs at all query points. For probes z_p with
independent entries of mean 0 and variance 1, ``E[z * B z]`` is B's diagonal. B is never formed. The
operations that define it are applied to the probes,

    B z = sum_i W_i [sum_j k_ij(X', X') u_j - k_i(X', X) (K + S)^-1 sum_j k_j(X', X)^T u_j]
    u_j = W_j^T z

for one row of operators and some examples at a time. The estimate is unbiased. With Rademacher
probes (+1 or -1) the error of an entry has the variance ``sum_off-diagonal B^2 / P``. Gaussian
probes add ``2 diagonal^2 / P``.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from tfpn.math.blocks import WHOLE, block_length, in_blocks
from tfpn.math.channels import mix_channels
from tfpn.math.fusion import fusion
from tfpn.math.posterior import Fixed
from tfpn.math.shapes import axis_sizes

ESTIMATORS = ("exact", "stochastic")
PROBES = ("rademacher", "gaussian")

_EXAMPLES = "examples"


@dataclasses.dataclass(frozen=True)
class Estimator:
    """The settings of the estimate.

    Attributes:
        num_probes: P.
        probes: one of `PROBES`.
        seed: seed of the probes, an integer or an integer tensor [2].
    """

    num_probes: int
    probes: str
    seed: Any


def probe_vectors(probes, shape, seed, dtype):
    """Independent numbers of mean 0 and variance 1.

    Args:
        probes: "rademacher" (+1 or -1) or "gaussian".
        shape: shape of the result.
        seed: integer tensor [2].
        dtype: a float dtype.
    """
    if probes == "gaussian":
        return tf.random.stateless_normal(shape, seed, dtype=dtype, alg="philox")
    coins = tf.random.stateless_uniform(shape, seed, maxval=2, dtype=tf.int32, alg="philox")
    return tf.cast(2 * coins - 1, dtype)


def estimate_condition(posterior, operator, estimator):
    """Means of an operator's functionals, and an estimate of its outputs' variance.

    Args:
        posterior: `tfpn.math.posterior.Posterior`, with one kernel for all channels.
        operator: `tfpn.math.operator.Operator`.
        estimator: `Estimator`.

    Returns:
        The means [B, M, K, c_in], the estimated variance [B, M, c_out], which may be negative, and
        the negative log marginal likelihood [B, c_in].
    """
    weights, num_probes = operator.weights, estimator.num_probes
    cross = operator.functionals(posterior.kernel).cross(posterior.points)
    batch, queries, _, size = axis_sizes(cross)
    _, channels, out = weights.shape
    shape = [batch, queries, num_probes, out]
    seed = _pair_of(estimator.seed)
    vectors = tf.stop_gradient(probe_vectors(estimator.probes, shape, seed, cross.dtype))
    plan = _Sweep(batch, cross, weights, num_probes)
    seen = _at_points(plan, vectors, cross, weights)
    columns = tf.reshape(seen, [batch, size, num_probes, channels])
    solved, _ = posterior.solve(tf.transpose(columns, [0, 1, 3, 2]))
    solved = tf.reshape(tf.transpose(solved, [0, 1, 3, 2]), [batch, size, num_probes * channels])
    mean, nll = posterior.mean(Fixed(cross))
    variance = _quadratic_forms(plan, vectors, cross, solved, operator, posterior.kernel)
    return mean, variance, nll


def _pair_of(seed):
    seed = tf.convert_to_tensor(seed)
    return tf.stack([tf.zeros_like(seed), seed]) if seed.shape.rank == 0 else seed


class _Sweep:
    """Some examples and one of the K operators at a time."""

    def __init__(self, batch, cross, weights, num_probes):
        self.examples = batch
        _, queries, operators, size = axis_sizes(cross)
        _, channels, out = weights.shape
        self.operators = operators
        # The numbers in memory at once: kernels and their intermediate results, W_j^T z, outputs.
        numbers = queries * (
            operators * (4 * queries + size) + num_probes * (2 * operators * channels + 3 * out)
        )
        self._length = block_length(batch, numbers, cross.dtype)
        self.count = -(-batch // self._length) * operators

    def rows(self, index):
        """The block's examples; examples that do not count pad the last block."""
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
        results=[(_EXAMPLES, plan.examples, [axis_sizes(cross)[3], columns])],
    )
    return result


def _quadratic_forms(plan, vectors, cross, solved, operator, kernel):
    """``mean_p z_p * (B z_p)``, [B, M, c_out]; ``solved`` [B, N, P c_in] is from `_at_points`."""
    _, queries, num_probes, out = axis_sizes(vectors)
    count, channels, _ = operator.weights.shape

    def function(block, cross, solved, query, weights, drift, diffusion, *parameters):
        row, length = block.index % count, tf.shape(query)[0]
        probes = plan.probes(block, vectors)
        # These are k_ij for this i and all j, [b, M, K M], and all W_j^T z, [b, K M, P c_in].
        prior = tf.nest.pack_sequence_as(kernel, parameters)
        with fusion(False):
            kernels = prior.flowed(drift[row] - drift, diffusion[row] + diffusion)(query, query)
        kernels = tf.reshape(kernels, [length, queries, count * queries])
        flat = tf.reshape(probes, [length, 1, queries * num_probes, out])
        mixed = tf.matmul(flat, weights[None], transpose_b=True)  # [b, K, M P, c_in]
        mixed = tf.reshape(mixed, [length, count * queries, num_probes * channels])
        applied = tf.matmul(kernels, mixed) - tf.matmul(cross[:, :, row], solved)
        applied = tf.reshape(applied, [length, queries, num_probes, channels])
        applied = mix_channels(applied, weights[row])
        return (tf.reduce_mean(probes * applied, axis=2),)

    whole = operator.weights, operator.drift, operator.diffusion, *tf.nest.flatten(kernel)
    (result,) = in_blocks(
        function,
        plan,
        tensors=(cross, solved, operator.query, *whole),
        kinds=(_EXAMPLES, _EXAMPLES, _EXAMPLES, *len(whole) * [WHOLE]),
        results=[(_EXAMPLES, plan.examples, [queries, out])],
    )
    return result

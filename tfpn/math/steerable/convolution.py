r"""A = sum_k W_k (I x exp(M_k)), applied to a GP posterior, for fields that rotations turn.

The fields are n copies of a small representation rho, and each generator M_k acts on one copy. The
mixings W_k commute with rotations. So by Schur's lemma they map frequency alpha to itself. On the
plane they do so by a real number for each pair of copies of a scalar, and by a complex number w for
other fields (a real one if they are to commute with reflections). Let ``z_alpha^k`` be the complex
field that the k-th flow makes of one copy. Its posterior covariance H^kk' = ``E[z^k conj z^k']`` is
the same for all copies of equal noise. Then

    z_alpha,p           = sum_{k,c} w^k_cp z_alpha,c^k
    E|z_alpha,p|^2      = sum_{k,k'} (sum_c w^k_cp conj(w^k'_cp)) H^kk'

A block's covariance is not a multiple of the identity. Its diagonal does not rotate with the field,
but its trace is invariant. So the result's variance is the mean over the block's components,
``E|z|^2 / 2``.

If rho has mu parts of the frequency alpha, the sum over k is one over flows and parts: W_k then has
a number for each part of each copy, and H^kk' the covariances between parts, too.

In space frequencies are spins, and W_k has a real number for each pair of copies of a spin. The
variance is the mean over a block's 2 l + 1 components (see `tfpn.math.steerable.space`).
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import tensorflow as tf

from tfpn.checks import require_rank
from tfpn.math.arguments import read_observed
from tfpn.math.channels import mix_channels
from tfpn.math.common_points import Together
from tfpn.math.coupled import read_generator
from tfpn.math.missing import penalty
from tfpn.math.posterior import NOISE, Fixed
from tfpn.math.precision import in_float64
from tfpn.math.steerable.fields import (
    block_mean,
    count_channels,
    count_copies,
    join_fields,
    part_channels,
    parts_of,
    spread_blocks,
    width,
)
from tfpn.math.steerable.groups import turns
from tfpn.math.steerable.harmonics import harmonics_of
from tfpn.math.steerable.mixing import are_complex, flat_weights, mix_fields, variance_weights
from tfpn.types import KernelLike, Tensor, Trains


def steerable_convolve(
    points: Tensor,
    values: Tensor,
    variance: Tensor,
    query: Tensor,
    *,
    fields_in: Tensor,
    fields_out: Tensor,
    frequencies: Tensor,
    weights: Tensor,
    first_order: Tensor,
    second_order: Tensor,
    zeroth_order: Tensor,
    signal_std: Tensor,
    length_scale: Tensor,
    kernel: KernelLike = "rbf",
    noise: str = "shared",
    observation_variance: Tensor = 0.0,
    bias: Tensor | None = None,
    marginal_likelihood_trains: Trains = "all",
    with_variance: Tensor = True,
    double_precision: bool = True,
    order: int | None = None,
) -> Any:
    """Applies K equivariant flows to GP posteriors and mixes channels: mean and block variance.

    The module's docstring has the formulas. The result rotates with the input up to rounding. If
    you turn points by a rotation R and values by rho_in(R), the result's values turn by rho_out(R),
    and its variances stay the same.

    Args:
        points: [B, N, d] with d = 2 on the plane or 3 in space, float32 or float64, finite where
            something is observed.
        values: [B, N, c_in], channels in the order of ``fields_in``; never read where the variance
            is +inf.
        variance: noise variance [B, N, c_in], >= 0. The mean over a block's channels counts, which
            rotations do not change. +inf = not observed, in all channels of a block together.
        query: points of the result, [B, M, d], finite.
        fields_in, fields_out: field types, see `tfpn.math.steerable.fields`.
        frequencies: increasing frequencies of rho, on which the flows act, including all those of
            both types, such as (0, 1, 2), or (0, 0, 1) for two scalars and a vector. Fields that
            ``fields_in`` lacks are 0 before the flows.
        weights: a dict from each frequency of ``fields_out`` to [K, n, copies], or for frequencies
            from 1 on the plane to [2, K, n, copies] with real and imaginary part of w. n is the
            number of copies of rho that hold ``fields_in``: the largest number of copies there, if
            rho has each frequency once. If rho has one mu times, there is K mu in place of K, flow
            by flow.
        first_order: B [K, d, r, r], equivariant, index order derivative, output, input.
        second_order: S [K, d, d, r, r].
        zeroth_order: C [K, r, r], or None for 0.
        signal_std: prior standard deviation s of every channel, scalar.
        length_scale: l, scalar.
        kernel: as in `tfpn.math.convolve`. A kernel of T Gaussian terms takes T times as long.
        noise: "shared" conditions all channels on the mean of their variances, with one
            factorisation for each example. All channels of a point must be observed or missing
            together. "channel" keeps the variance of each block, with a factorisation for each
            channel.
        observation_variance: noise variance to add where observed, scalar or [c_in] with one value
            for each block.
        bias: [copies of frequency 0], added to the scalars of the mean, or None.
        marginal_likelihood_trains: as in `tfpn.math.convolve`.
        with_variance: False leaves out the variance and its cost.
        double_precision: whether to compute float32 in float64 inside, with float64's tables and
            least noise variance. If observations are not smooth, weights of both signs nearly
            cancel in the mean. It has no effect in float64.
        order: n of flows on the plane that commute only with C_n or D_n, None for all rotations.

    Returns:
        mean [B, M, c_out], variance [B, M, c_out] (or None), the same in all channels of a block,
        and the negative log marginal likelihood of each input channel [B, c_in].

    Raises:
        ValueError: for shapes that do not agree or an unknown option.
        TypeError: for half precision.
        tf.errors.InvalidArgumentError: if only some channels of a block, or of a point with
            noise="shared", are observed; and as for `tfpn.math.convolve`. XLA-compiled functions do
            not check this.

    Example: a flow that carries a scalar to a vector field as a wave.

    >>> import numpy as np
    >>> from tfpn.math.steerable import steerable_convolve
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.uniform(size=(1, 20, 2)), rng.normal(size=(1, 20, 1))
    >>> b = np.zeros((1, 2, 3, 3))
    >>> b[0, 0, 0, 1] = b[0, 0, 1, 0] = b[0, 1, 0, 2] = b[0, 1, 2, 0] = 0.1
    >>> mean, variance, nll = steerable_convolve(
    ...     x, y, np.full_like(y, 0.1), x, fields_in=((0, 1),), fields_out=((1, 1),),
    ...     frequencies=(0, 1), weights={1: np.ones((2, 1, 1, 1))}, first_order=b,
    ...     second_order=np.zeros((1, 2, 2, 3, 3)), zeroth_order=None, signal_std=1.0,
    ...     length_scale=0.2)
    >>> mean.shape, variance.shape, nll.shape
    (TensorShape([1, 20, 2]), TensorShape([1, 20, 2]), TensorShape([1, 1]))
    """
    observed = read_observed(
        points,
        values,
        variance,
        signal_std=signal_std,
        length_scale=length_scale,
        kernel=kernel,
        noise=noise,
        observation_variance=observation_variance,
        marginal_likelihood_trains=marginal_likelihood_trains,
        double_precision=double_precision,
    )
    return convolve_fields(
        observed,
        query,
        fields_in=fields_in,
        fields_out=fields_out,
        frequencies=frequencies,
        weights=weights,
        generator=(zeroth_order, first_order, second_order),
        bias=bias,
        with_variance=with_variance,
        order=order,
    )


def convolve_fields(observed, query, **options):
    """`steerable_convolve` for an `Observed`, with ``generator`` = (C or None, B, S)."""
    return in_float64(functools.partial(_convolve_fields, **options), observed, query)


def _convolve_fields(
    observed,
    query,
    *,
    fields_in,
    fields_out,
    frequencies,
    weights,
    generator,
    bias,
    with_variance,
    order=None,
    common_points=False,
):
    dtype = observed.values.dtype

    def inside(tensor):
        return tf.cast(tf.convert_to_tensor(tensor), dtype)

    query = inside(query)
    prior, points = observed.kernel, observed.points
    require_rank(query, "query", ("B", "M", "d"))
    dim = query.shape[-1]
    if points.shape[-1] != dim:
        raise ValueError(
            f"points has shape {points.shape} and query {query.shape}: the last axes must agree."
        )
    harmonics, frequencies = harmonics_of(dim, order), tuple(frequencies)
    variance = shared_in_blocks(observed.variance, fields_in, dim)
    observed = dataclasses.replace(observed, variance=variance)
    flows = flows_of_terms(prior, frequencies, generator, dtype, harmonics)
    if not {m for m, _ in (*fields_in, *fields_out)} <= set(frequencies):
        raise ValueError(
            f"frequencies must include all those of fields_in {fields_in} and fields_out "
            f"{fields_out}, found {frequencies}."
        )
    together = Together.of(observed, query) if common_points else None
    if together is not None:
        observed, query = together.joint(observed), together.first(query)
        points = observed.points
    kinds = parts_of(frequencies, dim)
    outs = {kinds[m]: m for m, _ in fields_out}
    copies = count_copies(fields_in, frequencies)
    weights = _check_weights(
        weights, fields_out, frequencies, (flows[0].count, copies), inside, dim
    )
    of_parts = part_channels(fields_in, frequencies, dim)
    all_groups = harmonics.groups(tuple(outs), tuple(of_parts))
    parts = _Parts(observed, of_parts, dim, together)
    cross = [harmonics.kernels(query, parts.points, term, all_groups) for term in flows]
    responses: dict[int, list[Tensor]] = {out: [] for out in outs.values()}
    mixed_variance: dict[int, list[Tensor]] = {out: [] for out in outs.values()}
    for group, *terms in zip(all_groups, *cross, strict=True):
        mean, explained = parts.condition(group, tf.add_n(terms), with_variance)
        for kind, found in harmonics.fields_of(mean, group, flows[0].count, copies).items():
            responses[outs[kind]].append(found)
        if not with_variance:
            continue
        for kind in group.outs:
            out = outs[kind]
            mixing = variance_weights(weights[out], parts.copies(group))
            prior, features = harmonics.covariance_features(
                explained, flows, group, kind, are_complex(weights[out])
            )
            mixed = parts.mix_variance(prior, features, mixing)
            mixed_variance[out].append(mixed / width(out, dim))
    flat = {out: concatenated(tf.add_n(found)) for out, found in responses.items()}
    bias = None if bias is None else inside(bias)
    mean = join_fields(mix_fields(flat, flat_weights(weights), bias), fields_out, dim)
    nll = tf.cast(parts.negative_log_marginal_likelihood(), dtype)
    variance = None
    if with_variance:
        blocks = {out: tf.nn.relu(tf.add_n(found)) for out, found in mixed_variance.items()}
        variance = tf.cast(spread_blocks(blocks, fields_out, dim), dtype)
        if together is not None:
            variance = tf.ensure_shape(together.repeat(variance), mean.shape)
    return tf.cast(mean, dtype), variance, nll


def shared_in_blocks(variance, fields_in, dim=2):
    """Variances as the mean over each block's channels, +inf where unobserved."""
    channels = count_channels(fields_in, dim)
    if variance.shape[-1] != channels:
        raise ValueError(
            f"values has shape {variance.shape}, as has variance; expected [B, N, {channels}]: "
            f"the fields {fields_in} have {channels} channels."
        )
    if all(m == 0 for m, _ in fields_in):
        return variance
    found = block_mean(variance, fields_in, dim)
    # This is a number even if the variance is infinite.
    check = tf.debugging.Assert(
        tf.reduce_all(penalty(found) == penalty(variance)),
        [
            "variance is infinite in some channels of a block only; the channels of a field of "
            "frequency 1 or more must be observed or missing together. Variances above 1e37 in "
            "float32 (1e307 in float64) count as infinite: give them as inf."
        ],
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.identity(found)


def flows_of_terms(kernel, frequencies, generator, dtype, harmonics):
    """The `Flows` of each Gaussian term of the kernel."""
    dim = harmonics.dim
    zeroth_order, first_order, second_order = generator
    first_order = tf.convert_to_tensor(first_order)
    generator = read_generator(
        first_order, second_order, zeroth_order, dim=dim, leading=first_order.shape[:1]
    )
    size = sum(width(m, dim) for m in frequencies)
    if first_order.shape[-1] != size:
        raise ValueError(
            f"first_order has shape {first_order.shape}, but fields of the frequencies "
            f"{tuple(frequencies)} have {size} channels."
        )
    terms = kernel.cast(dtype).terms()
    zeroth_order, first_order, second_order = generator
    orders = zeroth_order, first_order, second_order, tuple(frequencies)
    return [harmonics.flow_type(*orders, std, length, dtype) for std, length in terms]


def _check_weights(weights, fields_out, frequencies, sizes, inside, dim):
    (count, copies), found = sizes, {}
    for out, number in fields_out:
        tensor = inside(weights[out])
        # Fields of the plane other than scalars may also take real numbers.
        parts = (2,) if are_complex(tensor) and dim == 2 and turns(out) else ()
        expected = (*parts, count * frequencies.count(out), copies, number)
        if not tensor.shape.is_compatible_with(expected):
            raise ValueError(
                f"weights[{out}] has shape {tensor.shape}, expected {expected}: {count} flow(s), "
                f"{copies} input and {number} output copies."
            )
        found[out] = tensor
    return found


def concatenated(response):
    """[B, M, K, width, n] -> planar [B, M, width K n]; K counts parts as flows."""
    response = tf.transpose(response, [0, 1, 3, 2, 4])
    shape = tf.shape(response)
    numbers = np.prod(response.shape[2:])
    return tf.reshape(response, tf.concat([shape[:2], [numbers]], axis=0))


class _Parts:
    """The posterior of the channels of each group.

    Args:
        observed: `tfpn.math.posterior.Observed` of all channels.
        of_parts: the channels of each part of rho.
        dim: d.
        together: `tfpn.math.common_points.Together` of the examples side by side, or None.
    """

    def __init__(self, observed, of_parts, dim, together=None):
        self._posterior, self._of_parts, self._dim = observed.posterior(), of_parts, dim
        self.points, self._shared = self._posterior.points, not NOISE[observed.noise].each
        self._together, self._count = together, sum(map(len, of_parts.values()))
        self._nll = {}

    def copies(self, group):
        """How many copies a group maps."""
        channels = self._of_parts[group.inside]
        return len(channels) // width(group.inside.frequency, self._dim)

    def condition(self, group, kernel, with_variance):
        """Posterior of functionals of the channels of one group.

        Args:
            group: see `tfpn.math.steerable.interface.Harmonics`.
            kernel: the functionals' covariances with the points, [B, M, F, N].
            with_variance: whether to compute the explained part.

        Returns:
            The means [B, M, F, channels of the group], and the part that the observations explain,
            [B, M, G, F, F] or None. G is 1, or the number of copies with noise for each block.
        """
        channels, together = group.channels(self._of_parts), self._together
        explained = None
        if with_variance:
            # A block's channels have the same noise, so those of the first component tell all.
            count = len(channels) if self._shared else self.copies(group)
            first, rest = channels[:count], channels[count:]
            mean, explained, nll = self._of(first).condition(Fixed(kernel))
            if rest:
                found = self._of(rest).mean(Fixed(kernel))
                mean, nll = (tf.concat(pair, -1) for pair in zip((mean, nll), found, strict=True))
        else:
            mean, nll = self._of(channels).mean(Fixed(kernel))
        if together is not None:
            mean, nll = (together.split(tensor, len(channels)) for tensor in (mean, nll))
        self._nll.update(zip(channels, tf.unstack(nll, axis=-1), strict=True))
        return mean, explained

    def _of(self, channels):
        """The posterior of the channels, of all examples that stand beside each other."""
        if self._together is not None:
            starts = self._count * tf.range(self._together.copies)
            channels = tf.reshape(starts[:, None] + tf.constant(channels), [-1])
        return self._posterior.select(channels)

    def mix_variance(self, prior, explained, mixing):
        """``sum_c mixing_c (prior - explained)``, [B, M, n_out].

        Args:
            prior: [F].
            explained: [B, M, G, F].
            mixing: [c, F, n_out].
        """
        total = tf.reduce_sum(mixing, axis=0)
        constant = tf.tensordot(prior, total, 1)
        if explained.shape[2] == 1:
            return constant - mix_channels(explained[:, :, 0], total)
        return constant - tf.einsum("bmcf,cfp->bmp", explained, mixing)

    def negative_log_marginal_likelihood(self):
        """The negative log marginal likelihood of each channel, [B, c]."""
        return tf.stack([self._nll[channel] for channel in sorted(self._nll)], axis=-1)

"""The RBF kernel under SO(2)-equivariant flows, for all pairs of points."""

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfpn.checks import floating
from tfpn.math.coupled import finite_offset, read_generator
from tfpn.math.fusion import fused, fusion, is_active
from tfpn.math.steerable.fields import read_frequencies, width
from tfpn.math.steerable.harmonics import Flows, groups
from tfpn.math.steerable.radial import polar, series_matrix, waves
from tfpn.types import Tensor


def cross_kernels(query, points, flows, all_groups):
    """Prior covariances of the flows' entries at query points with the fields at points.

    Args:
        query: x_m [B, M, 2], in the flows' dtype or a finer one. The flows' dtype decides the
            resolution of the series and the dtype of their gradients.
        points: x_n [B, N, 2].
        flows: `Flows` of K generators.
        all_groups: from `groups`.

    Returns:
        For each group the real and imaginary parts of its entries D(x_m - x_n), [B, M, 2 K E, N] in
        the order part, flow, entry, and in the points' dtype. Gradients are those of smooth
        functions, even at coincident points.
    """
    scale = tf.cast(1.0 / flows.unit, query.dtype)
    offset = [(query[:, :, None, axis] - points[:, None, :, axis]) * scale for axis in (0, 1)]
    orders = [tuple(entry.order for entry in group.entries) for group in all_groups]
    spectra = [flows.spectra(group) for group in all_groups]
    x, y = map(tf.stop_gradient, offset)
    kernels = _kernels(x, y, flows, orders, spectra)
    return _with_gradient(offset, kernels, flows, orders, spectra)


def _kernels(x, y, flows, orders, spectra):
    """`cross_kernels` for offsets, which are constants here.

    Args:
        x, y: coordinates of ``(x_m - x_n) / L``, [B, M, N].
        flows: `Flows`.
        orders: for each group the orders of its entries.
        spectra: for each group [2, K, E, Q], as from `Flows.spectra`.
    """
    distance, harmonics = polar(x, y, max(abs(n) for some in orders for n in some))
    one, zero = tf.ones_like(distance), tf.zeros_like(distance)
    directions = {0: (one, zero)}
    for order, (cosine, sine) in harmonics.items():
        directions[order], directions[-order] = (cosine, sine), (cosine, -sine)
    found = [None] * len(orders)
    for parity in (0, 1):
        same = [i for i, some in enumerate(orders) if some[0] % 2 == parity]
        if not same:
            continue
        profiles = _profiles(
            distance, flows, parity, [orders[i] for i in same], [spectra[i] for i in same]
        )
        turns = [
            tf.stack([directions[order][part] for order in orders[i]], axis=2)
            for i in same
            for part in (0, 1)
        ]
        for i, turned in zip(same, _turned(profiles, turns, flows.count), strict=True):
            found[i] = turned
    return found


def _with_gradient(offset, kernels, flows, orders, spectra):
    r"""The same kernels, with gradients by the offset.

    Polar coordinates are singular at coincident points, but the kernels are not. For
    ``W_n = i^n J_n(r |x|) exp(i n phi)``, the terms of the plane wave ``exp(i r.x)``,

        dW_n/dx = i r / 2 (W_{n+1} + W_{n-1})        dW_n/dy = r / 2 (W_{n+1} - W_{n-1})

    So derivatives are kernels of the orders n + 1 and n - 1. At coincident points order 0 remains,
    so an odd field of order 1 has a slope there.
    """

    @tf.custom_gradient
    def apply(x, y, *kernels):
        def gradient(*upstream):
            # TensorFlow skips this if nothing needs the points' gradients.
            fine = x.dtype
            inside_x, inside_y = (tf.cast(t, flows.dtype) for t in (x, y))
            dx = dy = 0.0
            for step in (1, -1):
                moved = [tuple(order + step for order in some) for some in orders]
                slopes = [
                    part * flows.slope(some, step)
                    for part, some in zip(spectra, orders, strict=True)
                ]
                for u, slope in zip(
                    upstream,
                    _kernels(inside_x, inside_y, flows, moved, slopes),
                    strict=True,
                ):
                    # conj(u) i r / 2 W
                    u_real, u_imag = tf.split(tf.cast(u, flows.dtype), 2, axis=2)
                    real, imag = tf.split(slope, 2, axis=2)
                    dx += tf.reduce_sum(u_real * real + u_imag * imag, axis=2)
                    dy += step * tf.reduce_sum(u_real * imag - u_imag * real, axis=2)
            return tf.cast(dx, fine), tf.cast(dy, fine), *upstream

        return tuple(map(tf.identity, kernels)), gradient

    return apply(*offset, *kernels)


def _profiles(distance, flows, parity, orders, spectra):
    """Series of groups of one parity, [B, M, sum of 2 K E, N].

    The flows' reach selects the series. Gradients compute the waves again: waves are larger than
    all else, and XLA would hold those of every series.
    """
    resolution, level = flows.resolution, flows.level

    def series(index, distance, spectra):
        coefficients = [
            _coefficients(part, some, resolution, index)
            for part, some in zip(spectra, orders, strict=True)
        ]
        # One product serves all groups, so the waves are read once.
        coefficients = tf.cast(tf.concat(coefficients, axis=0), distance.dtype)
        return tf.matmul(coefficients, waves(distance, parity, resolution, index))

    def chosen(function):
        levels = range(len(resolution.terms))
        return tf.switch_case(level, [functools.partial(function, index) for index in levels])

    @tf.custom_gradient
    def apply(*spectra):
        def gradient(upstream):
            def by_spectra(index):
                with tf.GradientTape() as tape:
                    tape.watch(spectra)
                    found = series(index, tf.cast(distance, flows.dtype), spectra)
                return tape.gradient(found, spectra, tf.cast(upstream, flows.dtype))

            return chosen(by_spectra)

        return chosen(lambda index: series(index, distance, spectra)), gradient

    return apply(*spectra)


def _coefficients(spectra, orders, resolution, level):
    """The series of a group's entries from their spectra, [2, K, E, Q] -> [2 K E, J]."""
    found = [
        tf.tensordot(part, tf.constant(series_matrix(abs(order), resolution, level)), [2, 1])
        for order, part in zip(orders, tf.unstack(spectra, axis=2), strict=True)
    ]
    return tf.reshape(tf.stack(found, axis=2), [-1, resolution.terms[level]])


def _turned(profiles, turns, flows):
    """The complex products ``(cosine + i sine) profiles``; a turn serves all K flows.

    Args:
        profiles: profiles of several groups, [B, M, sum of 2 K E, N], each in the order part,
            flow, entry.
        turns: for each group its cosine and its sine [B, M, E, N], constants.
        flows: K.

    Returns:
        For each group [B, M, 2 K E, N].
    """
    forward, backward = _turns(tuple(2 * flows * turn.shape[2] for turn in turns[::2]))

    @tf.custom_gradient
    def apply(profiles):
        active = is_active()

        def gradient(*upstream):
            with fusion(active):
                return backward(*upstream, *turns)

        return forward(profiles, *turns), gradient

    return apply(profiles)


@functools.cache
def _turns(sizes):
    """Functions that turn the profiles of groups of these sizes, and turn gradients back."""

    @fused
    def forward(profiles, *turns):
        parts = tf.split(profiles, sizes, axis=2)
        return tuple(
            _turn(part, cosine, sine)
            for part, cosine, sine in zip(parts, turns[::2], turns[1::2], strict=True)
        )

    @fused
    def backward(*tensors):
        upstream, turns = tensors[: len(sizes)], tensors[len(sizes) :]
        parts = [
            _turn(part, cosine, -sine)
            for part, cosine, sine in zip(upstream, turns[::2], turns[1::2], strict=True)
        ]
        return (tf.concat(parts, axis=2),)

    return forward, backward


def _by_part(tensor, turn):
    """Real and imaginary part, each [B, M, K, E, N]."""
    shape, entries = tf.shape(turn), turn.shape[2]
    flows = tensor.shape[2] // (2 * entries)
    split = tf.reshape(tensor, [shape[0], shape[1], 2, flows, entries, shape[3]])
    return split[:, :, 0], split[:, :, 1]


def _turn(profiles, cosine, sine):
    real, imaginary = _by_part(profiles, cosine)
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    turned = tf.stack([cosine * real - sine * imaginary, sine * real + cosine * imaginary], axis=2)
    return tf.reshape(turned, tf.shape(profiles))


def steerable_kernel(
    x1: Tensor,
    x2: Tensor,
    *,
    frequencies: Sequence[int],
    signal_std: Tensor,
    length_scale: Tensor,
    first_order: Tensor,
    second_order: Tensor,
    zeroth_order: Tensor | None = None,
    both_sides: bool = False,
) -> Tensor:
    """`tfpn.math.coupled_kernel` for a generator that commutes with rotations of the plane.

    The function reads the generator only along the first axis (B_1, S_11 and C). The rest follows
    from equivariance, which the result has up to rounding for any generator. The numbers in
    brackets are those of float32. The error is below 1e-12 (1e-6) of the largest value if the
    flow's transport plus 8 (5.5) widths of the diffused kernel are within 72 (60) length scales.
    Time and memory grow beyond 18 and 36 (12 and 24). Flows that reach f times farther are cut off
    at frequencies where the kernel's spectrum is ``exp(-35 / f^2)`` (``exp(-20 / f^2)``). The cut
    does not matter at frequencies that the flow damps.

    Args:
        x1: points [..., 2].
        x2: points [..., 2].
        frequencies: increasing frequencies of the fields, one copy each, such as (0, 1, 2). They
            have r channels, see `tfpn.math.steerable.fields`.
        signal_std: scalar s.
        length_scale: scalar l.
        first_order: B [2, r, r], as in `tfpn.math.coupled_kernel`.
        second_order: S [2, 2, r, r].
        zeroth_order: C [r, r], or None for 0.
        both_sides: whether the flow acts on both arguments.

    Returns:
        [..., r, r] in the dtype of ``x1``; leading axes of ``x1`` and ``x2`` broadcast.

    Raises:
        ValueError: for shapes that do not agree.
        tf.errors.InvalidArgumentError: if the points or the prior are not finite (XLA-compiled
            functions do not check this).

    Example: the part of a flow that maps a scalar to a vector like a gradient.

    >>> import numpy as np
    >>> from tfpn.math.steerable.kernels import steerable_kernel
    >>> b = np.zeros((2, 3, 3))
    >>> b[0, 0, 1] = b[0, 1, 0] = b[1, 0, 2] = b[1, 2, 0] = 0.1
    >>> k = steerable_kernel(
    ...     np.array([0.0, 0.2]), np.zeros(2), frequencies=(0, 1), signal_std=1.0,
    ...     length_scale=0.3, first_order=b, second_order=np.zeros((2, 2, 3, 3)))
    >>> k.numpy().round(3)[:, 0] + 0.0  # the vector points along the second axis
    array([ 0.733,  0.   , -0.167])
    """
    x1 = floating(x1, "x1")
    x2 = tf.convert_to_tensor(x2, x1.dtype)
    if x1.shape[-1] != 2 or x2.shape[-1] != 2:
        raise ValueError(
            f"x1 has shape {x1.shape} and x2 {x2.shape}; expected points [..., 2] of the plane."
        )
    frequencies = read_frequencies(frequencies)
    generator = read_generator(first_order, second_order, zeroth_order, dim=2)
    size = sum(map(width, frequencies))
    if generator[0].shape[-1] != size:
        raise ValueError(
            f"first_order has shape {generator[1].shape}, but fields of the frequencies "
            f"{frequencies} have {size} channels."
        )
    signal_std, length_scale = (
        tf.convert_to_tensor(t, x1.dtype) for t in (signal_std, length_scale)
    )
    # The unit is the length scale: squares of tiny or huge ones would leave float32's range.
    unit = tf.stop_gradient(length_scale)
    offset = finite_offset(x1 - x2, signal_std, length_scale) / unit
    generator = [t[None] / tf.pow(tf.cast(unit, t.dtype), i) for i, t in enumerate(generator)]
    c, b, s = generator
    flows = Flows(c, b, s, frequencies, signal_std, length_scale / unit, x1.dtype)
    if both_sides:
        flows = flows.two_sided()
    flat = tf.reshape(offset, [-1, 1, 2])
    all_groups = groups(frequencies, frequencies)
    kernels = cross_kernels(flat, tf.zeros_like(flat), flows, all_groups)
    real = _real_matrix(kernels, all_groups, frequencies)
    return tf.reshape(real, tf.concat([tf.shape(offset)[:-1], [size, size]], axis=0))


def _real_matrix(kernels, all_groups, frequencies):
    """The map of the real channels [P, r, r], from its entries [P, 1, rows, 1]."""
    starts = np.cumsum([0, *map(width, frequencies)])
    start = {m: int(at) for m, at in zip(frequencies, starts, strict=False)}
    blocks = []
    for group in all_groups:
        for part, entry in itertools.product((0, 1), group.entries):
            block = np.zeros(2 * [starts[-1]])
            out, inside = start[entry.out], start[group.inside]
            sign = 1.0 if entry.inside >= 0 else -1.0
            if part == 0:
                block[out, inside] = 1.0
                if entry.out and entry.inside:
                    block[out + 1, inside + 1] = sign
            else:
                if entry.out:
                    block[out + 1, inside] = 1.0
                if entry.inside:
                    block[out, inside + 1] = -sign
            blocks.append(block)
    stacked = tf.concat([kernel[:, 0, :, 0] for kernel in kernels], axis=-1)
    return tf.tensordot(stacked, tf.constant(np.stack(blocks), stacked.dtype), 1)

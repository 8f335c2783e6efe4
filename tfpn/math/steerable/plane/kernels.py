"""The RBF kernel under SO(2)-equivariant flows, for all pairs of points."""

import functools
import itertools

import numpy as np
import tensorflow as tf

from tfpn.math.fusion import fused, fusion, is_active
from tfpn.math.steerable.fields import width
from tfpn.math.steerable.series import profiles as profiles_of


def cross_kernels(query, points, flows, groups):
    """Prior covariances of the flows' entries at query points with the fields at points.

    Args:
        query: x_m [B, M, 2], in the flows' dtype or a finer one. The flows' dtype decides the
            resolution of the series and the dtype of their gradients.
        points: x_n [B, N, 2].
        flows: `PlaneFlows` of K generators.
        groups: from `tfpn.math.steerable.plane.harmonics.groups`.

    Returns:
        For each group the real and imaginary parts of its entries D(x_m - x_n), [B, M, 2 K E, N] in
        the order part, flow, entry, and in the points' dtype. Gradients are those of smooth
        functions, even at coincident points.
    """
    scale = tf.cast(1.0 / flows.unit, query.dtype)
    offset = [(query[:, :, None, axis] - points[:, None, :, axis]) * scale for axis in (0, 1)]
    # Waves of even and of odd orders have different series.
    parities = {
        parity: [w for w in flows.windings if w % 2 == parity]
        for parity in sorted({w % 2 for w in flows.windings})
    }
    pieces = [(group, windings) for windings in parities.values() for group in groups]
    orders = [
        tuple(entry.order + winding for winding in windings for entry in group.entries)
        for group, windings in pieces
    ]
    spectra = [flows.spectra(group, windings) for group, windings in pieces]
    counts = [len(windings) for _, windings in pieces]
    x, y = map(tf.stop_gradient, offset)
    kernels = _kernels(x, y, flows, orders, spectra, counts)
    kernels = _with_gradient(offset, kernels, flows, orders, spectra, counts)
    if len(parities) == 1:
        return kernels
    return [tf.add_n(kernels[number :: len(groups)]) for number in range(len(groups))]


def _kernels(x, y, flows, orders, spectra, counts):
    """`cross_kernels` for offsets, which are constants here.

    Args:
        x, y: coordinates of ``(x_m - x_n) / L``, [B, M, N].
        flows: `PlaneFlows`.
        orders: for each group the orders of its W windings and E entries.
        spectra: for each group [2, K, W E, Q], as from `PlaneFlows.spectra`.
        counts: W for each group. Its result is the sum over windings.
    """
    distance, harmonics = polar(x, y, max(abs(n) for some in orders for n in some))
    one, zero = tf.ones_like(distance), tf.zeros_like(distance)
    directions = {0: (one, zero)}
    for order, (cosine, sine) in harmonics.items():
        directions[order], directions[-order] = (cosine, sine), (cosine, -sine)
    found = [None] * len(orders)
    for same, profiles in profiles_of(distance, flows, orders, spectra):
        turns = [
            tf.stack([directions[order][part] for order in orders[i]], axis=2)
            for i in same
            for part in (0, 1)
        ]
        turned = _turned(profiles, turns, flows.count, tuple(counts[i] for i in same))
        for i, kernel in zip(same, turned, strict=True):
            found[i] = kernel
    return found


def _with_gradient(offset, kernels, flows, orders, spectra, counts):
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
                found = _kernels(inside_x, inside_y, flows, moved, slopes, counts)
                for u, slope in zip(upstream, found, strict=True):
                    # conj(u) i r / 2 W
                    u_real, u_imag = tf.split(tf.cast(u, flows.dtype), 2, axis=2)
                    real, imag = tf.split(slope, 2, axis=2)
                    dx += tf.reduce_sum(u_real * real + u_imag * imag, axis=2)
                    dy += step * tf.reduce_sum(u_real * imag - u_imag * real, axis=2)
            return tf.cast(dx, fine), tf.cast(dy, fine), *upstream

        return tuple(map(tf.identity, kernels)), gradient

    return apply(*offset, *kernels)


def _turned(profiles, turns, flows, counts):
    """Sums over windings of ``(cosine + i sine) profiles``; a turn serves all K flows.

    Args:
        profiles: of some groups together, [B, M, sum of 2 K W E, N], each in the order part, flow,
            winding, entry.
        turns: for each group its cosine and its sine [B, M, W E, N], constants.
        flows: K.
        counts: W for each group.

    Returns:
        For each group [B, M, 2 K E, N].
    """
    forward, backward = _turns(tuple(2 * flows * turn.shape[2] for turn in turns[::2]), counts)

    @tf.custom_gradient
    def apply(profiles):
        active = is_active()

        def gradient(*upstream):
            with fusion(active):
                return backward(*upstream, *turns)

        return forward(profiles, *turns), gradient

    return apply(profiles)


@functools.cache
def _turns(sizes, counts):
    """Functions that turn the profiles of groups of these sizes, and turn gradients back."""

    @fused
    def forward(profiles, *turns):
        parts = tf.split(profiles, sizes, axis=2)
        return tuple(map(_turn, parts, turns[::2], turns[1::2], counts))

    @fused
    def backward(*tensors):
        upstream, turns = tensors[: len(sizes)], tensors[len(sizes) :]
        return (tf.concat(list(map(_turn_back, upstream, turns[::2], turns[1::2], counts)), 2),)

    return forward, backward


def _turn(profiles, cosine, sine, count):
    """[B, M, 2 K W E, N] and [B, M, W E, N] -> [B, M, 2 K E, N], for W = ``count``."""
    shape, entries = tf.shape(cosine), cosine.shape[2] // count
    flows = profiles.shape[2] // (2 * count * entries)
    cosine, sine = (_by_winding(part, count) for part in (cosine, sine))
    split = tf.reshape(profiles, [shape[0], shape[1], 2, flows, count, entries, shape[3]])
    real, imaginary = split[:, :, 0], split[:, :, 1]
    parts = cosine * real - sine * imaginary, sine * real + cosine * imaginary
    turned = tf.stack([_summed(part, count) for part in parts], axis=2)
    return tf.reshape(turned, [shape[0], shape[1], 2 * flows * entries, shape[3]])


def _turn_back(upstream, cosine, sine, count):
    """The gradient of `_turn` by the profiles."""
    shape, entries = tf.shape(cosine), cosine.shape[2] // count
    flows = upstream.shape[2] // (2 * entries)
    cosine, sine = (_by_winding(part, count) for part in (cosine, sine))
    split = tf.reshape(upstream, [shape[0], shape[1], 2, flows, 1, entries, shape[3]])
    real, imaginary = split[:, :, 0], split[:, :, 1]
    parts = cosine * real + sine * imaginary, cosine * imaginary - sine * real
    turned = tf.stack(parts, axis=2)
    return tf.reshape(turned, [shape[0], shape[1], 2 * flows * count * entries, shape[3]])


def _by_winding(turn, count):
    """[B, M, W E, N] -> [B, M, 1, W, E, N]; the new axis is that of flows."""
    shape = tf.shape(turn)
    return tf.reshape(turn, [shape[0], shape[1], 1, count, turn.shape[2] // count, shape[3]])


def _summed(part, count):
    """The sum over the windings of [B, M, K, W, E, N]."""
    return part[:, :, :, 0] if count == 1 else tf.reduce_sum(part, axis=3)


def real_matrix(kernels, groups, frequencies):
    """The map of the real channels from its entries [P, 1, rows, 1], as [P, r, r]."""
    size = sum(map(width, frequencies))
    blocks = []
    for group in groups:
        for part, entry in itertools.product((0, 1), group.entries):
            block = np.zeros((size, size))
            out, inside = entry.out.start, entry.inside.start
            sign = -1.0 if entry.conjugate else 1.0
            if part == 0:
                block[out, inside] = 1.0
                if entry.out.frequency and entry.inside.frequency:
                    block[out + 1, inside + 1] = sign
            else:
                if entry.out.frequency:
                    block[out + 1, inside] = 1.0
                if entry.inside.frequency:
                    block[out, inside + 1] = -sign
            blocks.append(block)
    stacked = tf.concat([kernel[:, 0, :, 0] for kernel in kernels], axis=-1)
    return tf.tensordot(stacked, tf.constant(np.stack(blocks), stacked.dtype), 1)


def polar(x, y, highest):
    """Polar coordinates of the plane and the harmonics of the angle, as constants.

    Args:
        x, y: coordinates [B, M, N].
        highest: the highest order.

    Returns:
        ``sqrt(x^2 + y^2)`` [B, M, N], and a dict from each order n from 1 to ``highest`` to
        ``cos(n phi)`` and ``sin(n phi)`` [B, M, N], both 0 at the origin.
    """
    squared = tf.square(x) + tf.square(y)
    apart = squared > 0.0
    inverse = tf.where(apart, tf.math.rsqrt(tf.where(apart, squared, 1.0)), 0.0)
    # One Newton step: rsqrt is off by some units in float32.
    inverse *= 1.5 - 0.5 * squared * tf.square(inverse)
    first = x * inverse, y * inverse
    powers = {1: first}
    for order in range(2, highest + 1):
        c, s = powers[order - 1]
        powers[order] = c * first[0] - s * first[1], c * first[1] + s * first[0]
    return squared * inverse, powers

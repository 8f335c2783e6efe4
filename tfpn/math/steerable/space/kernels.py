"""The RBF kernel under SO(3)-equivariant flows, for all pairs of points."""

import numpy as np
import tensorflow as tf

from tfpn.math.shapes import axis_sizes
from tfpn.math.steerable.interface import flows_and_parts
from tfpn.math.steerable.series import profiles
from tfpn.math.steerable.space.flows import coupled_spins
from tfpn.math.steerable.space.spherical import couplings, products, spherical_harmonics


def cross_kernels(query, points, flows, groups):
    """`tfpn.math.steerable.interface.Harmonics.kernels`.

    Returns:
        For each group [B, M rows, K mu, N], the rows of one query point after one another.
    """
    pairs = list(
        dict.fromkeys(
            (out, group.inside) for group in groups for kind in group.outs for out in kind
        )
    )
    # For each L the pairs that have it.
    coupled: dict = {}
    for pair, entries in zip(pairs, flows.entries(pairs), strict=True):
        for spin, entry in zip(coupled_spins(*pair), entries, strict=True):
            coupled.setdefault(spin, {})[pair] = tf.transpose(entry)  # [K, Q]
    spins = sorted(coupled)
    spectra = [tf.stack(list(coupled[spin].values()))[:, :, None] for spin in spins]
    waves = dict(zip(spins, _waves(query, points, flows, spins, spectra), strict=True))
    blocks = {}
    for pair in pairs:
        parts = []
        for spin in coupled_spins(*pair):
            place = flows.count * list(coupled[spin]).index(pair)
            parts.append(waves[spin][:, :, :, place : place + flows.count])
        blocks[pair] = _coupled(tf.concat(parts, axis=2), pair)
    found = []
    for group in groups:
        rows = tf.concat([_rows(blocks, group, kind) for kind in group.outs], axis=2)
        batch, size, _, count, number = axis_sizes(rows)
        found.append(tf.reshape(rows, [batch, size * group.rows, count, number]))
    return found


def _rows(blocks, group, kind):
    """The rows of a kind, [B, M, 2 l + 1, K mu, N]."""
    size = 2 * kind[0].frequency + 1
    start = group.component * size
    return flows_and_parts(
        [blocks[out, group.inside][:, :, start : start + size] for out in kind], 3
    )


def _coupled(waves, pair):
    """From waves by (L, M) to components by (input, output), axis 2 of [B, M, ..., K, N]."""
    out, inside = pair
    matrix = np.concatenate(
        [np.reshape(part.transpose(2, 1, 0), [-1, len(part)])
         for part in couplings(out.frequency, inside.frequency).values()],
        axis=1,
    )  # fmt: skip
    batch, size, rows, count, number = axis_sizes(waves)
    flat = tf.reshape(waves, [batch, size, rows, count * number])
    flat = tf.matmul(tf.constant(matrix, waves.dtype), flat)
    return tf.reshape(flat, [batch, size, rows, count, number])


def _waves(query, points, flows, spins, spectra):
    """Profiles of the distance times harmonics of the direction, for each L.

    Args:
        query, points: as in `cross_kernels`.
        flows: `SpaceFlows`.
        spins: L, increasing.
        spectra: for each L [pairs, K, 1, Q], see `tfpn.math.steerable.series.profiles`.

    Returns:
        For each L [B, M, 2 L + 1, pairs K, N]. Gradients are those of smooth functions: polar
        coordinates are singular where points coincide, and these functions are not.
    """
    scale = tf.cast(1.0 / flows.unit, query.dtype)
    offset = [(query[:, :, None, axis] - points[:, None, :, axis]) * scale for axis in range(3)]
    constant = [tf.stop_gradient(part) for part in offset]
    distance, harmonics = _directions(constant, max(spins))
    waves = [
        harmonics[spin][:, :, :, None] * profile[:, :, None]
        for spin, profile in zip(spins, _profiles(distance, flows, spins, spectra), strict=True)
    ]

    @tf.custom_gradient
    def apply(x, y, z, *waves):
        def gradient(*upstream):
            # Not computed where nothing asks for the points' gradients.
            slopes = _slopes((x, y, z), upstream, flows, spins, spectra)
            return *(tf.cast(part, x.dtype) for part in slopes), *upstream

        return tuple(map(tf.identity, waves)), gradient

    return apply(*offset, *waves)


def _slopes(offset, upstream, flows, spins, spectra):
    """Gradients by the offset, [B, M, N] for each axis: waves of L + 1 and L - 1."""
    offset = [tf.cast(part, flows.dtype) for part in offset]
    distance, harmonics = _directions(offset, max(spins) + 1)
    total: list = [[], [], []]
    for step in (1, -1):
        lowest = 1 if step < 0 else 0
        kept = [i for i, spin in enumerate(spins) if spin >= lowest]
        moved = [spins[i] + step for i in kept]
        slopes = [spectra[i] * flows.slope(step) for i in kept]
        for i, spin, profile in zip(
            kept, moved, _profiles(distance, flows, moved, slopes), strict=True
        ):
            along = tf.cast(upstream[i], flows.dtype) * profile[:, :, None]
            along = tf.reduce_sum(along, axis=3)  # [B, M, 2 L + 1, N]
            matrix = products(spins[i], step)
            turned = tf.matmul(
                tf.constant(matrix.reshape(-1, matrix.shape[-1]), flows.dtype), harmonics[spin]
            )
            for axis, part in zip(total, tf.split(turned, 3, axis=2), strict=True):
                axis.append(tf.reduce_sum(part * along, axis=2))
    return [tf.add_n(parts) for parts in total]


def _profiles(distance, flows, spins, spectra):
    """`tfpn.math.steerable.series.profiles` of both parities, [B, M, pairs K, N] for each L."""
    found = [None] * len(spins)
    for same, together in profiles(distance, flows, [(spin,) for spin in spins], spectra):
        sizes = [spectra[i].shape[0] * spectra[i].shape[1] for i in same]
        for i, part in zip(same, tf.split(together, sizes, axis=2), strict=True):
            found[i] = part
    return found


def _directions(offset, highest):
    """Distance [B, M, N] and harmonics of the direction, [B, M, 2 L + 1, N] for each L."""
    x, y, z = offset
    squared = tf.square(x) + tf.square(y) + tf.square(z)
    apart = squared > 0.0
    inverse = tf.where(apart, tf.math.rsqrt(tf.where(apart, squared, 1.0)), 0.0)
    # One Newton step: rsqrt is off by some units in float32.
    inverse *= 1.5 - 0.5 * squared * tf.square(inverse)
    one = tf.cast(apart, x.dtype)
    harmonics = spherical_harmonics(x * inverse, y * inverse, z * inverse, one, highest)
    return squared * inverse, [tf.stack(part, axis=2) for part in harmonics]


def real_matrix(kernels, groups, frequencies):
    """`tfpn.math.steerable.interface.Harmonics.real_matrix` of [P, rows, mu, 1]."""
    columns: dict = {}
    for kernel, group in zip(kernels, groups, strict=True):
        rows = columns.setdefault(group.inside.start + group.component, {})
        for kind in group.outs:
            for number, out in enumerate(kind):
                rows[out.start] = kernel[:, group.rows_of(kind), number, 0]
    by_start = [
        tf.concat([rows[start] for start in sorted(rows)], axis=-1)
        for _, rows in sorted(columns.items())
    ]
    return tf.stack(by_start, axis=-1)

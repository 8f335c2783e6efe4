"""The RBF kernel under SO(3)-equivariant flows, for all pairs of points."""

import functools

import tensorflow as tf

from tfpn.math.fusion import fused, fusion, is_active
from tfpn.math.shapes import axis_sizes, reshape
from tfpn.math.steerable.interface import flows_and_parts
from tfpn.math.steerable.series import profiles
from tfpn.math.steerable.space.flows import coupled_spins
from tfpn.math.steerable.space.spherical import coupling_matrix, products, spherical_harmonics


def cross_kernels(query, points, flows, groups):
    """`tfpn.math.steerable.interface.Harmonics.kernels`.

    Returns:
        For each group the waves [B, M rows, K mu, N]: profiles of the distance times harmonics of
        the direction, the rows of one query point after one another. Gradients are those of smooth
        functions: polar coordinates are singular where points coincide, and these functions are
        not.
    """
    layout = _Layout(groups)
    coupled: dict = {spin: [] for spin in layout.spins}
    for pair, entries in zip(layout.pairs, flows.entries(layout.pairs), strict=True):
        for spin, entry in zip(coupled_spins(*pair), entries, strict=True):
            coupled[spin].append(tf.transpose(entry))  # [K, Q]
    spins = layout.spins
    spectra = [tf.stack(coupled[spin])[:, :, None] for spin in spins]
    scale = tf.cast(1.0 / flows.unit, query.dtype)
    offset = [(query[:, :, None, axis] - points[:, None, :, axis]) * scale for axis in range(3)]
    constant = [tf.stop_gradient(part) for part in offset]
    distance, harmonics = _directions(constant, max(spins))
    kernels = _directed(_profiles(distance, flows, spins, spectra), harmonics, groups)

    @tf.custom_gradient
    def apply(x, y, z, *kernels):
        def gradient(*upstream):
            # Not computed where nothing asks for the points' gradients.
            slopes = _slopes((x, y, z), layout.by_spin(upstream), flows, spins, spectra)
            return *(tf.cast(part, x.dtype) for part in slopes), *upstream

        return tuple(map(tf.identity, kernels)), gradient

    return list(apply(*offset, *kernels))


def _directed(profiles, harmonics, groups):
    """The groups' waves, with the gradient by the profiles; harmonics are constants."""
    forward, backward = _functions(groups)

    @tf.custom_gradient
    def apply(*profiles):
        active = is_active()

        def gradient(*upstream):
            with fusion(active):
                return backward(*upstream, *harmonics)

        return forward(*profiles, *harmonics), gradient

    return apply(*profiles)


@functools.cache
def _functions(groups):
    """Functions that join the waves of groups, and take gradients back to the profiles."""
    layout = _Layout(groups)

    @fused
    def forward(*tensors):
        size = len(layout.spins)
        return tuple(layout.join(tensors[:size], tensors[size:]))

    @fused
    def backward(*tensors):
        size = len(groups)
        upstream, harmonics = layout.by_spin(tensors[:size]), tensors[size:]
        return tuple(
            tf.reduce_sum(part * harmonics[spin][:, :, :, None], axis=2)
            for spin, part in zip(layout.spins, upstream, strict=True)
        )

    return forward, backward


class _Layout:
    """Where the waves of each spin L and pair of parts stand in the groups' rows.

    Attributes:
        pairs: all (output, input).
        spins: all L, increasing.
    """

    def __init__(self, groups):
        self._groups = groups
        self.pairs = list(
            dict.fromkeys(
                (out, group.inside) for group in groups for kind in group.outs for out in kind
            )
        )
        self._with: dict = {}  # for each L its pairs
        for pair in self.pairs:
            for spin in coupled_spins(*pair):
                self._with.setdefault(spin, []).append(pair)
        self.spins = sorted(self._with)

    def join(self, profiles, harmonics):
        """The groups' waves, from profiles [B, M, pairs K, N] and harmonics of each L."""
        waves = {}
        for spin, profile in zip(self.spins, profiles, strict=True):
            pairs = self._with[spin]
            for pair, part in zip(pairs, tf.split(profile, len(pairs), axis=2), strict=True):
                waves[spin, pair] = harmonics[spin][:, :, :, None] * part[:, :, None]
        found = []
        for group in self._groups:
            rows = [
                flows_and_parts([waves[spin, (out, group.inside)] for out in kind], 3)
                for kind, spin in group.waves
            ]
            rows = tf.concat(rows, axis=2)
            batch, size, number, *others = axis_sizes(rows)
            found.append(reshape(rows, [batch, [size, number], *others]))
        return found

    def by_spin(self, kernels):
        """For each L the waves of all pairs, [B, M, 2 L + 1, pairs K, N]."""
        waves = {}
        for group, kernel in zip(self._groups, kernels, strict=True):
            batch, places, functionals, number = axis_sizes(kernel)
            parts = len(group.outs[0])
            shape = [batch, places // group.rows, group.rows, functionals // parts, parts, number]
            widths = [2 * spin + 1 for _, spin in group.waves]
            rows = tf.split(tf.reshape(kernel, shape), widths, axis=2)
            for (kind, spin), row in zip(group.waves, rows, strict=True):
                for out, part in zip(kind, tf.unstack(row, axis=4), strict=True):
                    waves[spin, (out, group.inside)] = part
        return [
            tf.concat([waves[spin, pair] for pair in self._with[spin]], axis=3)
            for spin in self.spins
        ]


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
        rows = columns.setdefault(group.inside.start, {})
        by_kind = tf.split(kernel[..., 0], group.sizes, axis=1)
        for kind, waves in zip(group.outs, by_kind, strict=True):
            for out, part in zip(kind, tf.unstack(waves, axis=-1), strict=True):
                matrix = coupling_matrix(out.frequency, group.inside.frequency)
                rows[out.start] = tf.tensordot(part, tf.constant(matrix, part.dtype), 1)
    by_start = [
        tf.concat([rows[start] for start in sorted(rows)], axis=1)
        for _, rows in sorted(columns.items())
    ]
    return tf.concat(by_start, axis=2)

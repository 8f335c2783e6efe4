"""Profiles of the distance at all pairs of points, by the Fourier series of `radial`."""

import functools

import numpy as np
import tensorflow as tf

from tfpn.math.fusion import fusion, is_active
from tfpn.math.shapes import reshape, sizes
from tfpn.math.steerable.radial import cosines, powers, sines


def profiles(distance, flows, orders, spectra):
    """Functions of the distance by their transforms at the nodes.

    The flows' reach decides which series. Waves are computed again for gradients: they are larger
    than all else, and XLA would hold those of every series.

    Args:
        distance: in units of the flows', [B, M, N], a constant.
        flows: `tfpn.math.steerable.flows.Flows`.
        orders: for each group of profiles the orders of its E entries, of one parity.
        spectra: for each group [..., E, Q] in float64.

    Returns:
        For each parity that occurs a pair: the numbers of its groups, and [B, M, rows, N] in the
        distance's dtype, the profiles of these groups after one another, each in the order of the
        axes [..., E].
    """
    if not orders:
        return []
    resolution, level = flows.resolution, flows.level
    by_parity: dict[int, list[int]] = {}
    for number, some in enumerate(orders):
        by_parity.setdefault(some[0] % 2, []).append(number)

    def series(index, distance, spectra):
        tables = _Tables(orders, flows, index)
        angles = powers(distance, resolution, index)
        found = []
        for parity, same in by_parity.items():
            waves = sines(*angles) if parity else cosines(*angles)
            coefficients = [tables.coefficients(spectra[i], orders[i]) for i in same]
            # One product serves all groups, so the waves are read once.
            coefficients = tf.cast(tf.concat(coefficients, axis=0), distance.dtype)
            found.append(tf.matmul(coefficients, waves))
        return tuple(found)

    def chosen(function):
        levels = range(len(resolution.terms))
        return tf.switch_case(level, [functools.partial(function, index) for index in levels])

    @tf.custom_gradient
    def apply(*spectra):
        active = is_active()

        def gradient(*upstream):
            def by_spectra(index):
                with fusion(active), tf.GradientTape() as tape:
                    tape.watch(spectra)
                    found = series(index, tf.cast(distance, flows.dtype), spectra)
                given = [tf.cast(part, flows.dtype) for part in upstream]
                return tape.gradient(found, spectra, given)

            return chosen(by_spectra)

        return chosen(lambda index: series(index, distance, spectra)), gradient

    return list(zip(by_parity.values(), apply(*spectra), strict=True))


class _Tables:
    """The matrices from spectra to series of some orders: each order's is in the graph once."""

    def __init__(self, orders, flows, level):
        self._known = sorted({abs(order) for some in orders for order in some})
        matrices = [flows.series_matrix(order, level) for order in self._known]
        self._matrices = tf.constant(np.stack(matrices))  # [orders, J, Q]

    def coefficients(self, spectra, orders):
        """[..., E, Q] -> the series of a group's entries, [rows, J]."""
        places = [self._known.index(abs(order)) for order in orders]
        by_entry = sizes(spectra)
        entries, nodes = by_entry[-2:]
        flat = reshape(spectra, [-1, entries, nodes])
        matrices = tf.gather(self._matrices, places)
        found = tf.matmul(tf.transpose(flat, [1, 0, 2]), matrices, transpose_b=True)
        return reshape(tf.transpose(found, [1, 0, 2]), [-1, found.shape[-1]])

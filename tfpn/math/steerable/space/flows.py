"""Flows in space at the radii of the quadrature, by their symbols along the third axis."""

import dataclasses
import functools
import math

import numpy as np
import tensorflow as tf

from tfpn.math.coupled_exponential import matrix_exponential
from tfpn.math.steerable.fields import Part, parts_of
from tfpn.math.steerable.flows import Flows
from tfpn.math.steerable.groups import turns
from tfpn.math.steerable.radial import quadrature
from tfpn.math.steerable.space.spherical import couplings


@dataclasses.dataclass(frozen=True)
class Group:
    """What the flows make of the input's fields in a part of rho.

    Attributes:
        inside: the part, of spin l'.
        outs: the output's kinds of mu parts each, sorted by their spin l. A kind has a row for each
            harmonic of each L from ``|l - l'|`` to l + l', and a row has K mu functionals.
    """

    inside: Part
    outs: tuple

    @property
    def waves(self):
        """(kind, L) of the rows, 2 L + 1 for each."""
        return [(kind, spin) for kind in self.outs for spin in coupled_spins(kind[0], self.inside)]

    @property
    def sizes(self):
        """The number of rows of each kind."""
        components = 2 * self.inside.frequency + 1
        return [(2 * kind[0].frequency + 1) * components for kind in self.outs]

    @property
    def rows(self):
        """The number of rows."""
        return sum(self.sizes)

    def channels(self, of_parts):
        """The channels of the input that it maps, in planar order."""
        return of_parts[self.inside]


@functools.cache
def groups(outs, insides):
    """All groups for tuples of the output's kinds and of the input's parts."""
    found = []
    for size in sorted({len(kind) for kind in outs}):
        same = tuple(sorted(kind for kind in outs if len(kind) == size))
        found += [Group(inside, same) for inside in insides]
    return tuple(found)


def coupled_spins(out, inside):
    """L from |l - l'| to l + l' for two parts of rho."""
    return range(abs(out.frequency - inside.frequency), out.frequency + inside.frequency + 1)


class SpaceFlows(Flows):
    """Flows in space, by their symbols along the third axis, which split by the order m."""

    dim, directions = 3, np.eye(3)[2:]

    def __init__(self, zeroth_order, first_order, second_order, frequencies, *args):
        # Pseudo fields turn as true ones do.
        spins = tuple(map(turns, frequencies))
        super().__init__(zeroth_order, first_order, second_order, spins, *args)

    # The kernel's transform is (2 pi)^(3/2) s^2 l^3 e^(-l^2 r^2 / 2), and waves have the factor
    # 4 pi / (2 pi)^3.
    _measure = math.sqrt(2.0 / math.pi)

    def _exponentials(self, exponent):
        found = []
        for places in _places(self.frequencies):
            # Rows and columns by component: cosines, then sines. With z = f_cos + i f_sin and its
            # conjugate, [[A, B], [-B, A]] becomes A - i B and A + i B.
            parts = [
                [tf.gather(tf.gather(exponent, rows, axis=-2), columns, axis=-1)
                 for columns in places]
                for rows in places
            ]  # fmt: skip
            if len(places) == 1:
                blocks = parts[0][0][:, :, None]
            else:
                even = 0.5 * (parts[0][0] + parts[1][1])
                odd = tf.complex(tf.zeros([], tf.float64), tf.constant(0.5, tf.float64)) * (
                    parts[0][1] - parts[1][0]
                )
                blocks = tf.stack([even - odd, even + odd], axis=2)
            found.append(matrix_exponential(blocks))  # [Q, K, 1 or 2, n, n]
        return found

    def entries(self, pairs):
        """``i^L e_L`` times the spectrum for pairs of parts of rho.

        Args:
            pairs: (output, input) for each.

        Returns:
            For each pair a list over L of [Q, K] in float64.
        """
        parts = []
        for blocks in self._symbols:
            values = [blocks[:, :, 0]]
            if blocks.shape[2] == 2:
                minus, plus = tf.unstack(blocks, axis=2)  # A - i B and A + i B
                half = tf.constant(0.5, blocks.dtype)
                values = [half * (minus + plus), half * -1j * (plus - minus)]
            parts += [tf.reshape(v, [*v.shape[:2], v.shape[-1] ** 2]) for v in values]
        flat = tf.concat(parts, axis=-1)
        flat = tf.concat([tf.math.real(flat), tf.math.imag(flat)], axis=-1)
        weights = tf.constant(_projection(self.frequencies, tuple(pairs)))
        found = tf.tensordot(flat, weights, 1) * self._spectrum[:, None, None]
        found = iter(tf.unstack(found, axis=-1))
        return [[next(found) for _ in coupled_spins(*pair)] for pair in pairs]

    def prior(self, group, kind):
        """`Flows.prior`, the sum over the components of the input."""
        pairs = [(out, group.inside) for out in kind]
        weights = tf.constant(self._weights) / self._spectrum
        total = 0.0
        by_spin = zip(*self.entries(pairs), strict=True)
        for spin, entries in zip(coupled_spins(*pairs[0]), by_spin, strict=True):
            entry = tf.reshape(tf.stack(entries, axis=-1), [-1, self.count * len(kind)])
            share = (2 * spin + 1) / (4.0 * math.pi)
            total += tf.matmul(share * weights[:, None] * entry, entry, transpose_a=True)
        return total

    def slope(self, step):
        """From the spectra of profiles of L to those of their slopes' parts of L + step.

        The slope of ``j_L(r |x|) Y_LM(x / |x|)`` along the axis i is the sum over the two steps of
        ``-step r j_(L+step)(r |x|) sum_M' G[i, M, M'] Y_(L+step)M'(x / |x|)``, with G of
        `spherical.products`. In units of 1 / L.

        Returns:
            [Q] in float64.
        """
        nodes, _ = quadrature(self.resolution, self.dim)
        return -step * nodes


@functools.cache
def _places(spins):
    """For each order m the channels of all parts with it: cosines and sines, or one for m = 0."""
    found = []
    for m in range(max(spins) + 1):
        components = range(2 if m else 1)
        found.append(
            [
                [part.start + 2 * (part.frequency - m) + component for part in _with(m, spins)]
                for component in components
            ]
        )
    return found


def _with(m, spins):
    """The parts of rho whose spins have the order m, in rho's order."""
    every = [part for same in parts_of(spins, 3).values() for part in same]
    return [part for part in every if part.frequency >= m]


@functools.cache
def _projection(spins, pairs):
    """From the real and imaginary parts of all blocks' A and B to ``i^L e_L``, [2 F, entries]."""
    columns = []
    for out, inside in pairs:
        for spin in coupled_spins(out, inside):
            zero = couplings(out.frequency, inside.frequency)[spin][-1]  # of M = 0
            parts = []
            for m in range(max(spins) + 1):
                with_m = _with(m, spins)
                for part in range(2 if m else 1):
                    weights = np.zeros((len(with_m), len(with_m)))
                    if out in with_m and inside in with_m:
                        row, column = 2 * (out.frequency - m), 2 * (inside.frequency - m)
                        value = zero[row, column + part] * (2.0 if m else 1.0)
                        weights[with_m.index(out), with_m.index(inside)] = value
                    parts.append(weights.ravel())
            column = np.concatenate(parts) * math.sqrt(4.0 * math.pi / (2 * spin + 1))
            # i^L e_L is (-1)^(L/2) Re e_L for even L, and (-1)^((L+1)/2) Im e_L for odd ones.
            sign = (-1.0) ** ((spin + 1) // 2)
            real = sign * column * (spin % 2 == 0)
            columns.append(np.concatenate([real, sign * column * (spin % 2)]))
    return np.stack(columns, axis=-1)

"""Flows in space at the radii of the quadrature, by their symbols along the third axis."""

import dataclasses
import functools
import math

import numpy as np
import tensorflow as tf

from tfpn.math.coupled_exponential import matrix_exponential
from tfpn.math.steerable.fields import planar_channels
from tfpn.math.steerable.flows import Flows
from tfpn.math.steerable.radial import quadrature
from tfpn.math.steerable.space.spherical import couplings


@dataclasses.dataclass(frozen=True)
class Group:
    """What the flows make of one component of the input's fields of a spin.

    Attributes:
        inside: l', the spin.
        component: of its 2 l' + 1.
        outs: the output's spins l, sorted; a row for each of their components, in this order.
    """

    inside: int
    component: int
    outs: tuple

    @property
    def rows(self):
        """The number of rows."""
        return sum(2 * out + 1 for out in self.outs)

    def rows_of(self, out):
        """Which rows are those of an output spin, a slice."""
        start = sum(2 * spin + 1 for spin in self.outs if spin < out)
        return slice(start, start + 2 * out + 1)

    def channels(self, fields):
        """The channels that hold the component, one a copy."""
        channels, copies = planar_channels(fields, 3)[self.inside], dict(fields)[self.inside]
        return channels[self.component * copies :][:copies]


@functools.cache
def groups(outs, insides):
    """All groups for tuples of output and input spins."""
    outs = tuple(sorted(outs))
    return tuple(
        Group(inside, component, outs) for inside in insides for component in range(2 * inside + 1)
    )


def coupled_spins(out, inside):
    """L from |l - l'| to l + l'."""
    return range(abs(out - inside), out + inside + 1)


class SpaceFlows(Flows):
    """Flows in space, by their symbols along the third axis, which split by the order m."""

    dim, axis = 3, 2
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
        """``i^L e_L`` times the spectrum for pairs of spins.

        Args:
            pairs: (l, l') for each.

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

    def prior(self, group, out):
        """`Flows.prior`, of one component of the input; every component has the same."""
        pair = out, group.inside
        weights = tf.constant(self._weights) / self._spectrum
        total = 0.0
        for spin, entry in zip(coupled_spins(*pair), self.entries([pair])[0], strict=True):
            share = (2 * spin + 1) / (4.0 * math.pi * (2 * group.inside + 1))
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
    """For each order m the channels of all spins with it: cosines and sines, or one for m = 0."""
    starts = dict(
        zip(spins, np.cumsum([0, *(2 * spin + 1 for spin in spins)]).tolist(), strict=False)
    )
    found = []
    for m in range(max(spins) + 1):
        parts = range(2 if m else 1)
        found.append(
            [
                [starts[spin] + 2 * (spin - m) + part for spin in spins if spin >= m]
                for part in parts
            ]
        )
    return found


@functools.cache
def _projection(spins, pairs):
    """From the real and imaginary parts of all blocks' A and B to ``i^L e_L``, [2 F, entries]."""
    columns = []
    for out, inside in pairs:
        for spin in coupled_spins(out, inside):
            zero = couplings(out, inside)[spin][-1]  # of M = 0
            parts = []
            for m in range(max(spins) + 1):
                with_m = [s for s in spins if s >= m]
                for part in range(2 if m else 1):
                    weights = np.zeros((len(with_m), len(with_m)))
                    if out in with_m and inside in with_m:
                        row, column = 2 * (out - m), 2 * (inside - m)
                        value = zero[row, column + part] * (2.0 if m else 1.0)
                        weights[with_m.index(out), with_m.index(inside)] = value
                    parts.append(weights.ravel())
            column = np.concatenate(parts) * math.sqrt(4.0 * math.pi / (2 * spin + 1))
            # i^L e_L is (-1)^(L/2) Re e_L for even L, and (-1)^((L+1)/2) Im e_L for odd ones.
            sign = (-1.0) ** ((spin + 1) // 2)
            real = sign * column * (spin % 2 == 0)
            columns.append(np.concatenate([real, sign * column * (spin % 2)]))
    return np.stack(columns, axis=-1)

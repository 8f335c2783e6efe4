r"""SO(2)-equivariant flows in circular harmonics, one matrix exponential for each radius.

An equivariant generator has ``M(i R xi) = rho(R) M(i xi) rho(R)^-1``, and its exponential has the
same property. For a field of frequency m take the complex basis ``f_{+m} = (f_1 + i f_2) / sqrt
2``, ``f_{-m} = conj f_{+m}``. There rho is diagonal, ``exp(i m t)``. With xi at radius r and angle
psi

    E_ab(xi) = exp(i (m_a - m_b) psi) E_ab(r),        E(r) = exp(M(i r e_1)).

So the integral over the angle, in the Fourier integral of `tfpn.math.coupled`, is a Bessel
function. With ``n = m_a - m_b`` and x = x1 - x2 at angle phi

    (A k)_ab(x) = exp(i n phi) i^|n| a / (2 pi) int_0^inf r J_|n|(r |x|) E_ab(r) e^(-l^2 r^2/2) dr

For (A k A') take E E^H in place of E. The direction enters by one factor, and the distance by one
function. So the result rotates exactly as it should, with any quadrature for that function.
`tfpn.math.steerable.radial` has the integral.

Complex numbers ``z = f_1 + i f_2`` represent the fields, and "entries" map one field to another.
For frequencies alpha of the output and beta of the input

    z_alpha = D z_beta + D~ conj(z_beta)    alpha, beta > 0    D = C_alpha,+beta  D~ = C_alpha,-beta
    z_alpha = D f_beta                      beta = 0           D = sqrt(2) C_alpha,0
    f_alpha = Re(D z_beta)                  alpha = 0 < beta   D = sqrt(2) C_0,beta
    f_0     = D f_0                                             D = C_00, which is real

with C = (A k). Entries from one part of rho with orders of one parity share the waves of a
series. They are computed together, as a `Group`.

A generator that commutes only with C_n has such a property only at the angles of C_n. Then

    E_ab(xi) = sum_j exp(i q_j psi) E_ab,j(r),    q_j = m_a - m_b + n j

and E_ab,j is the mean of ``exp(-i q_j psi) E_ab(xi)`` over the angles psi of a grid that C_n maps
to itself. So the exponentials at the angles in one n-th of the circle are enough. The kernel is the
sum over j of the above with q_j in place of n. Each term turns exactly as it should at the angles
of C_n, however many there are. With 2 J + 1 angles the sum runs from -J to J, which resolves q up
to about n J.

All this needs no more than equivariance under rotations. If the generator commutes with reflections
too, so does the result: D then is ``exp(i n phi)`` times a real function of the distance, or an
imaginary one between a pseudoscalar and other fields.
"""

import dataclasses
import functools
import math

import numpy as np
import tensorflow as tf

from tfpn.math.coupled_exponential import matrix_exponential
from tfpn.math.steerable.fields import Part, width
from tfpn.math.steerable.flows import Flows
from tfpn.math.steerable.radial import RESOLUTION, quadrature


@dataclasses.dataclass(frozen=True)
class Entry:
    """A complex map between two parts of rho.

    Attributes:
        out: the output's part, of frequency alpha.
        inside: the input's part, of frequency beta.
        conjugate: whether it maps the complex conjugate of the input.
    """

    out: Part
    inside: Part
    conjugate: bool = False

    @property
    def order(self):
        """n, the multiple of the direction's angle."""
        inside = self.inside.frequency
        return self.out.frequency + (inside if self.conjugate else -inside)

    @property
    def scale(self):
        """D / C."""
        one_real = (self.out.frequency == 0) != (self.inside.frequency == 0)
        return math.sqrt(2.0) if one_real else 1.0

    @property
    def power(self):
        """The factor of |D|^2 in the entry's share of ``E|z_alpha|^2``."""
        return 2.0 if self.out.frequency and self.inside.frequency else 1.0


@dataclasses.dataclass(frozen=True)
class Group:
    """Entries from one part of rho with orders of one parity.

    Attributes:
        inside: the part, of frequency beta >= 0.
        parity: the orders' parity.
        outs: the output's kinds.
        entries: the entries.
    """

    inside: Part
    parity: int
    outs: tuple
    entries: tuple

    def channels(self, of_parts):
        """The channels of the input that its entries map, in planar order."""
        return of_parts[self.inside]

    def by_kind(self, kind):
        """The numbers of the entries to a kind's mu parts, and those from the conjugate if any."""
        found = [
            [i for i, e in enumerate(self.entries) if e.out in kind and e.conjugate == conjugate]
            for conjugate in (False, True)
        ]
        return [numbers for numbers in found if numbers]


@functools.cache
def groups(outs, insides):
    """All groups for tuples of the output's kinds and of the input's parts."""
    found = []
    for inside in insides:
        for parity in (0, 1):
            same = tuple(
                kind for kind in outs if (kind[0].frequency - inside.frequency) % 2 == parity
            )
            entries = [
                Entry(out, inside, conjugate)
                for kind in same
                for out in kind
                for conjugate in ((False, True) if out.frequency and inside.frequency else (False,))
            ]
            if entries:
                found.append(Group(inside, parity, same, tuple(entries)))
    return tuple(found)


def harmonic_basis(frequencies):
    """The unitary matrix to the complex basis.

    A field z of frequency m >= 1 becomes ``z / sqrt 2`` and its conjugate, one after the other.
    """
    size = sum(width(m) for m in frequencies)
    basis, at = np.eye(size, dtype=complex), 0
    for m in frequencies:
        if width(m) == 2:
            basis[at : at + 2, at : at + 2] = np.array([[1.0, 1.0j], [1.0, -1.0j]]) / math.sqrt(2.0)
        at += width(m)
    return basis


class PlaneFlows(Flows):
    """Flows on the plane, by their symbols in the complex basis.

    Args:
        *args: see `Flows`.
        order: n of flows that commute with C_n only, None for all rotations.

    Attributes:
        windings: multiples of n that the orders of entries have beside their own.
    """

    dim = 2
    _measure = 1.0  # a / (2 pi L^2)

    def __init__(self, *args, order=None):
        self.windings, self._angles = (0,), np.zeros(1)
        if order is not None:
            most = -(-RESOLUTION[args[-1]].band // order)
            self.windings = tuple(order * j for j in range(-most, most + 1))
            # The other angles of this grid are those that C_n makes of these.
            count = len(self.windings)
            self._angles = 2.0 * math.pi / order * np.arange(count) / count
            self._paired = order % 2 == 0
        self.directions = np.stack([np.cos(self._angles), np.sin(self._angles)], axis=-1)
        super().__init__(*args)

    def _exponentials(self, exponent):
        basis = tf.constant(harmonic_basis(self.frequencies))
        exponent = tf.matmul(tf.matmul(basis, exponent), basis, adjoint_b=True)
        return [matrix_exponential(exponent)]  # [A Q, K, r, r]

    def _symbols_of(self, entries, windings):
        """``i^|q| D_q`` without the direction times the spectrum, q = n + winding, at the nodes.

        Args:
            entries: several `Entry`.
            windings: some of `windings`.

        Returns:
            [K, W, E, Q], complex.
        """
        size = self._symbols[0].shape[-1]
        places = [e.out.start * size + e.inside.start + int(e.conjugate) for e in entries]
        symbols = tf.reshape(self._symbols[0], [len(self._angles), -1, self.count, size * size])
        symbols = tf.gather(symbols, places, axis=-1)  # [A, Q, K, E]
        orders = np.array([[entry.order + winding for entry in entries] for winding in windings])
        factors = np.array([entry.scale for entry in entries]) / len(self._angles)
        turns = np.exp(-1j * orders[..., None] * self._angles) * factors[:, None]
        turns *= np.array([1.0, 1.0j, -1.0, -1.0j])[np.abs(orders) % 4][..., None]
        found = tf.einsum("wea,aqke->kweq", tf.constant(turns), symbols)
        return found * _complex(self._spectrum)

    def spectra(self, group, windings):
        """Hankel transforms of a group's entries without the direction, ``D exp(-i q phi)``.

        Args:
            group: a `Group`.
            windings: to add to the entries' orders n. The result is that of q = n + winding.

        Returns:
            [2, K, W E, Q] in float64 in the order part (real, imaginary), flow, winding and entry,
            node.
        """
        symbols = self._symbols_of(group.entries, windings)
        symbols = tf.reshape(symbols, [self.count, -1, symbols.shape[-1]])
        return tf.stack([tf.math.real(symbols), tf.math.imag(symbols)])

    def slope(self, orders, step):
        """The factor from spectra of orders n to those of ``i r / 2 W_{n + step}``, in 1 / L.

        `spectra` holds ``i^|n|``, so only a sign is left of ``i i^|n + step| / i^|n|``.

        Args:
            orders: n of each entry.
            step: 1 or -1.

        Returns:
            [E, Q] in float64.
        """
        nodes, _ = quadrature(self.resolution, self.dim)
        signs = [1.0 if n * step < 0 else -1.0 for n in orders]
        return 0.5 * np.outer(signs, nodes)

    def prior(self, group, kind):
        """``E[z^k conj z^k']`` of a kind before any observation, from the inputs of a group.

        Returns:
            [K mu, K mu] complex in float64; for scalars only its real part counts.
        """
        weights = tf.sqrt(tf.constant(self._weights) / self._spectrum)
        total = 0.0
        for numbers in group.by_kind(kind):
            entries = [group.entries[number] for number in numbers]
            symbols = self._symbols_of(entries, self.windings)
            factor = math.sqrt(entries[0].power) * weights
            symbols *= _complex(factor)
            symbols = tf.reshape(
                tf.transpose(symbols, [0, 2, 1, 3]), [self.count * len(entries), -1]
            )
            total += tf.matmul(symbols, symbols, adjoint_b=True)
        return total


def _complex(real):
    """The same as complex numbers; the gradient of `tf.cast` would log a warning."""
    return tf.complex(real, tf.zeros_like(real))

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

with C = (A k). Entries of one input frequency with orders of one parity share the waves of a
series. They are computed together, as a `Group`.
"""

import dataclasses
import functools
import math

import numpy as np
import tensorflow as tf

from tfpn.math.coupled import symbols
from tfpn.math.coupled_exponential import matrix_exponential
from tfpn.math.steerable.radial import RESOLUTION, quadrature


@dataclasses.dataclass(frozen=True)
class Entry:
    """A complex map between two fields.

    Attributes:
        out: alpha >= 0, the frequency of the output.
        inside: +beta, or -beta for the map from the complex conjugate.
    """

    out: int
    inside: int

    @property
    def order(self):
        """n, the multiple of the direction's angle."""
        return self.out - self.inside

    @property
    def scale(self):
        """D / C."""
        return math.sqrt(2.0) if (self.out == 0) != (self.inside == 0) else 1.0

    @property
    def power(self):
        """The factor of |D|^2 in the entry's share of ``E|z_alpha|^2``."""
        return 2.0 if self.out and self.inside else 1.0


@dataclasses.dataclass(frozen=True)
class Group:
    """Entries of one input frequency with orders of one parity.

    Attributes:
        inside: beta >= 0.
        parity: the orders' parity.
        entries: the entries.
    """

    inside: int
    parity: int
    entries: tuple

    @property
    def outs(self):
        """The output frequencies, sorted."""
        return sorted({entry.out for entry in self.entries})


@functools.cache
def groups(outs, insides):
    """All groups for tuples of output and input frequencies."""
    found = []
    for inside in insides:
        for parity in (0, 1):
            entries = []
            for out in outs:
                signs = (1, -1) if out and inside else (1,)
                if (out - inside) % 2 == parity:
                    entries += [Entry(out, sign * inside) for sign in signs]
            if entries:
                found.append(Group(inside, parity, tuple(entries)))
    return tuple(found)


def harmonic_basis(frequencies):
    """The unitary matrix to the complex basis, and the index of each signed frequency in it."""
    size = sum(1 if m == 0 else 2 for m in frequencies)
    basis, index, at = np.zeros((size, size), complex), {}, 0
    for m in frequencies:
        if m == 0:
            basis[at, at] = 1.0
            index[0] = at
            at += 1
        else:
            basis[at : at + 2, at : at + 2] = np.array([[1.0, 1.0j], [1.0, -1.0j]]) / math.sqrt(2.0)
            index[m], index[-m] = at, at + 1
            at += 2
    return basis, index


class Flows:
    """The symbols of K equivariant flows at the nodes' radii, and the kernel's spectrum there.

    Args:
        zeroth_order, first_order, second_order: C [K, r, r], B [K, 2, r, r], S [K, 2, 2, r, r] in
            float64, in the basis of the real fields of ``frequencies``, one copy each.
        frequencies: the sorted tuple of the fields' frequencies.
        signal_std, length_scale: scalars of the prior.
        dtype: dtype of the results, float32 or float64. All inside is float64.

    Attributes:
        count: K.
        reach: distance, in length scales, beyond which the kernel under all flows has decayed.
        unit: L, the tables' unit of length: the length scale, or more if a flow reaches farther
            than the largest table. The tables then cut off a part of relative size
            ``exp(-(U l / L)^2 / 2)``, or less if the flow damps it.
        level: index of the first series that holds the flows' reach, an int32 scalar.
    """

    def __init__(self, zeroth_order, first_order, second_order, frequencies, signal_std,
                 length_scale, dtype):  # fmt: skip
        self.dtype, self.resolution = dtype, RESOLUTION[dtype]
        signal_std, length_scale = (
            tf.cast(tf.convert_to_tensor(t, dtype), tf.float64) for t in (signal_std, length_scale)
        )
        self.reach = self._reach(first_order, second_order, length_scale)
        reaches = tf.constant(self.resolution.reaches, tf.float64)
        farther = tf.maximum(self.reach / reaches[-1], tf.ones([], tf.float64))
        self.unit = tf.stop_gradient(length_scale) * farther
        self.level = tf.reduce_sum(tf.cast(self.reach > reaches[:-1], tf.int32))
        self.count = first_order.shape[0]
        nodes, weights = quadrature(self.resolution)
        radii = nodes / self.unit
        points = tf.stack([radii, tf.zeros_like(radii)], axis=-1)
        generators = zip(
            *(tf.unstack(t) for t in (zeroth_order, first_order, second_order)), strict=True
        )
        exponent = tf.stack([symbols(points, *generator) for generator in generators], axis=1)
        basis, self._index = harmonic_basis(frequencies)
        basis = tf.constant(basis)
        exponent = tf.matmul(tf.matmul(basis, exponent), basis, adjoint_b=True)
        self._symbols = matrix_exponential(exponent)  # [Q, K, r, r]
        # This is a / (2 pi L^2) e^(-l^2 r^2 / 2), for integrals over u du.
        self._spectrum = tf.square(signal_std * length_scale / self.unit) * tf.exp(
            -0.5 * tf.square(length_scale * radii)
        )
        self._weights = weights

    def _reach(self, first_order, second_order, length_scale):
        first_order, second_order, length_scale = (
            tf.stop_gradient(t) for t in (first_order, second_order, length_scale)
        )

        def norm(matrices):
            return tf.sqrt(tf.reduce_max(tf.reduce_sum(tf.square(matrices), axis=[1, 2])))

        # Singular values of B_1 come in pairs, because a rotation by pi changes its sign.
        speed = norm(first_order[:, 0]) / math.sqrt(2.0)
        spread = tf.sqrt(tf.square(length_scale) + 2.0 * norm(second_order[:, 0, 0]))
        return (speed + self.resolution.margin * spread) / length_scale

    def two_sided(self):
        """The same flows with E E^H in place of E, for (A k A')."""
        found = object.__new__(Flows)
        found.__dict__.update(self.__dict__)
        found._symbols = tf.matmul(self._symbols, self._symbols, adjoint_b=True)
        return found

    def _entry(self, entry):
        """D's symbol times the spectrum at the nodes, [Q, K] complex."""
        symbol = self._symbols[:, :, self._index[entry.out], self._index[entry.inside]]
        factor = entry.scale * self._spectrum[:, None]
        return symbol * tf.complex(factor, tf.zeros_like(factor))

    def spectra(self, group):
        """Hankel transforms of a group's entries without the direction, ``D exp(-i n phi)``.

        Returns:
            [2, K, E, Q] in float64 in the order part (real, imaginary), flow, entry, node.
        """
        parts = []
        for entry in group.entries:
            symbol = self._entry(entry)
            real, imaginary = (
                tf.transpose(part) for part in (tf.math.real(symbol), tf.math.imag(symbol))
            )
            for _ in range(abs(entry.order) % 4):  # multiplies by i
                real, imaginary = -imaginary, real
            parts.append(tf.stack([real, imaginary]))
        return tf.stack(parts, axis=2)

    def slope(self, orders, step):
        """The factor from spectra of orders n to those of ``i r / 2 W_{n + step}``, in 1 / L.

        `spectra` holds ``i^|n|``, so only a sign is left of ``i i^|n + step| / i^|n|``.

        Args:
            orders: n of each entry.
            step: 1 or -1.

        Returns:
            [E, Q] in float64.
        """
        nodes, _ = quadrature(self.resolution)
        signs = [1.0 if n * step < 0 else -1.0 for n in orders]
        return 0.5 * np.outer(signs, nodes)

    def prior(self, group, out):
        """``E[z_alpha^k conj z_alpha^k']`` before any observation, from the inputs of a group.

        Returns:
            [K, K] complex in float64; for alpha = 0 only its real part counts.
        """
        weights = tf.constant(self._weights) / self._spectrum
        total = 0.0
        for entry in group.entries:
            if entry.out == out:
                symbol = self._entry(entry)
                factor = entry.power * weights[:, None]
                scaled = symbol * tf.complex(factor, tf.zeros_like(factor))
                total += tf.matmul(scaled, tf.math.conj(symbol), transpose_a=True)
        return total

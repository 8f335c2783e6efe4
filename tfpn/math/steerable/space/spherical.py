r"""Real spherical harmonics and what couples them, in the channels' order of `equivariance.SO3`.

The harmonics of spin l are orthonormal on the sphere. They stand in the order cos l phi, sin l phi,
..., cos phi, sin phi, 1, with phi the angle about the third axis. For l = 1 they are x, y and z,
times ``sqrt(3 / (4 pi))``. A rotation R acts by the matrices of the irreducible representations:
``Y_l(R u) = D_l(R) Y_l(u)``.

The couplings ``C^L`` of the spins l and l' are real Clebsch-Gordan coefficients: matrices
``C^L_M [2 l + 1, 2 l' + 1]`` for each channel M of spin L, with

    D_l C^L_M D_l'^T = sum_M' D_L[M', M] C^L_M'        sum_ab C^L_M[a, b] C^J_N[a, b] = 1 or 0

so that the matrices of all L from ``|l - l'|`` to ``l + l'`` are an orthonormal basis.
"""

import functools
import math

import numpy as np


def spherical_harmonics(x, y, z, one, highest):
    """The harmonics of all spins up to the highest, as homogeneous polynomials.

    Args:
        x, y, z: coordinates of unit vectors, NumPy arrays or tensors of one shape.
        one: 1 of the same shape. Where it and the coordinates are 0, the harmonics are 0, except
            for spin 0.
        highest: the highest spin.

    Returns:
        For each spin l a list of 2 l + 1 arrays.

    Example:

    >>> import numpy as np
    >>> from tfpn.math.steerable.space.spherical import spherical_harmonics
    >>> scalar, vector = spherical_harmonics(0.6, 0.0, 0.8, 1.0, 1)
    >>> (np.array(vector) * np.sqrt(4 * np.pi / 3)).round(12).tolist()
    [0.6, 0.0, 0.8]
    """
    # (x + i y)^m, without which the associated Legendre functions are polynomials of z.
    turns = [(0.0 * one + 1.0, None)]
    for _ in range(highest):
        cosine, sine = turns[-1]
        turns.append((cosine * x, cosine * y) if sine is None else
                     (cosine * x - sine * y, cosine * y + sine * x))  # fmt: skip
    legendre = {}
    for m in range(highest + 1):
        legendre[m, m] = math.prod(range(1, 2 * m, 2), start=1.0)
        for spin in range(m + 1, highest + 1):
            found = (2 * spin - 1) * z * legendre[spin - 1, m]
            if spin - m > 1:
                found = found - (spin + m - 1) * one * legendre[spin - 2, m]
            legendre[spin, m] = found / (spin - m)
    harmonics = []
    for spin in range(highest + 1):
        found = []
        for m in range(spin, -1, -1):
            profile = _norm(spin, m) * legendre[spin, m]
            found += [profile * part for part in turns[m] if part is not None]
        harmonics.append(found)
    return harmonics


def _norm(spin, m):
    """Of the harmonics ``P_l^m(z) cos m phi`` without the sign (-1)^m."""
    ratio = math.factorial(spin - m) / math.factorial(spin + m)
    return math.sqrt((2 * spin + 1) / (4.0 * math.pi) * ratio * (2.0 if m else 1.0))


@functools.cache
def couplings(out, inside):
    """C^L of two spins.

    Args:
        out, inside: l and l'.

    Returns:
        A dict from each L to an array [2 L + 1, 2 l + 1, 2 l' + 1].
    """
    # It needs no TensorFlow, but half a second of sympy.
    from equivariance import SO3

    found, start = {}, 0
    basis = (SO3.irrep(out) @ SO3.irrep(inside)).decompose().change_of_basis_numpy
    for spin in range(abs(out - inside), out + inside + 1):
        stop = start + 2 * spin + 1
        found[spin] = basis[:, start:stop].T.reshape(-1, 2 * out + 1, 2 * inside + 1)
        start = stop
    return found


@functools.cache
def coupling_matrix(out, inside):
    """C^L of all L after one another, [(2 l + 1) (2 l' + 1), 2 l + 1, 2 l' + 1]."""
    return np.concatenate(list(couplings(out, inside).values()))


@functools.cache
def products(spin, step):
    """G of ``u_i Y_lM(u) = sum_M' G[i, M, M'] Y_(l + step)M'(u) + ...``, [3, 2 l + 1, 2 L + 1].

    Args:
        spin: l.
        step: 1 or -1; the product has these two parts.
    """
    # The integrand is a polynomial of degree 2 l + 2 at most, for which the rule is exact.
    size = spin + 2
    z, weights = np.polynomial.legendre.leggauss(size)
    angles = math.pi * (np.arange(2 * size) + 0.5) / size
    z, angles = (a.ravel() for a in np.meshgrid(z, angles, indexing="ij"))
    weights = np.repeat(weights, 2 * size) * math.pi / size
    radius = np.sqrt(1.0 - z**2)
    x, y = radius * np.cos(angles), radius * np.sin(angles)
    harmonics = spherical_harmonics(x, y, z, np.ones_like(z), spin + 1)
    given, wanted = np.stack(harmonics[spin]), np.stack(harmonics[spin + step])
    return np.einsum("q,iq,mq,nq->imn", weights, np.stack([x, y, z]), given, wanted)

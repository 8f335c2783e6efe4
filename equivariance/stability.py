"""Finds whether exp(M) amplifies, and whether it acts on a Gaussian process with an RBF kernel."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy.utilities.iterables import connected_components

from equivariance.arguments import positive_number, real_array
from equivariance.characters import ORDERS
from equivariance.generator_tensors import infer_shape, read_generator

ROUNDING = 1e-10  # relative to the sizes of the terms
SYMMETRY = 1e-13  # relative; a smaller part of C or B is the rounding of 0
DIRECTIONS = 180
RADII = 64


@dataclass(frozen=True)
class Amplification:
    """The result of ``amplifies``. It is true as a condition if the generator amplifies.

    Attributes:
        growth: the largest growth rate found for the norm of a plane wave's channels, which is the
            top of the numerical range of M(i xi); inf if it has no bound. If it is at most 0,
            |exp(t M)| <= 1 for all t >= 0.
        frequency: the frequency xi [d] of this rate (a direction if growth is inf).
        well_posed: whether exp(M(i xi)) stays bounded as xi grows, as far as S decides it: no
            eigenvalue of sum_ij k_i k_j S_ij has a negative real part for any direction k.
        margin_one_side, margin_both_sides: with a length scale l, the smallest real part of an
            eigenvalue of sum_ij k_i k_j S_ij over unit vectors k, plus l^2 / 2 and l^2 / 4. The
            kernels A k and A k A' of an RBF kernel k exist if their margin is positive. None
            without a length scale.
    """

    growth: float
    frequency: np.ndarray
    well_posed: bool
    margin_one_side: float | None
    margin_both_sides: float | None

    @property
    def amplifies(self) -> bool:
        return self.growth > 0.0

    def __bool__(self) -> bool:
        return self.amplifies

    def __str__(self) -> str:
        at = np.array2string(self.frequency, precision=3)
        if not self.amplifies:
            lines = ["exp(M) does not amplify."]
        elif np.isinf(self.growth):
            lines = [f"exp(M) amplifies without bound as frequencies grow in the direction {at}."]
        else:
            lines = [f"exp(M) amplifies: rate {self.growth:.3g} at the frequency {at}."]
        if not self.well_posed:
            lines.append("Some direction has anti-diffusion: the PDE is ill-posed.")
        for margin, name, power in (
            (self.margin_one_side, "A k", "l^2 / 2"),
            (self.margin_both_sides, "A k A'", "l^2 / 4"),
        ):
            if margin is not None:
                verdict = "exists" if margin > 0.0 else "does not exist"
                condition = f"min Re spec S(k) + {power} = {margin:.3g}"
                lines.append(f"On the RBF kernel {name} {verdict}: {condition}.")
        return "\n".join(lines)


def amplifies(generator: Any, length_scale: float | None = None) -> Amplification:
    """Whether exp(M) makes some plane wave larger.

    |exp(t M(i xi))| <= 1 for all t >= 0 if and only if the Hermitian part of M(i xi),

        sym(C) + i xi . antisym(B) - xi^T sym(S) xi

    has no positive eigenvalue (sym and antisym refer to channels). The function examines S in a
    number of directions: the only one in one dimension, 180 on a half circle in the plane (the
    other half is the same), and as many random ones in higher dimensions, down to 40 for hundreds
    of channels. If S is positive and B is symmetric, the largest eigenvalue is that of sym(C), at
    xi = 0. Otherwise a search runs over a grid of lengths and directions, which is coarser for many
    channels, and climbs from the grid's best points. Channels that are not coupled are examined
    separately. A frequency proves the answer "amplifies". The answer "does not" is as good as the
    search, up to rounding. A dissipative parameterization needs no check.

    Args:
        generator: one ``Generator``, triple (C, B, S) or dict, of real numbers.
        length_scale: l of an RBF kernel for exp(M) to act on; optional.

    Returns:
        An ``Amplification``.

    Raises:
        TypeError, ValueError: if the arrays do not fit, or the length scale is not positive.

    Example: heat diffusion, and its reverse on a kernel, once smooth enough and once not.

    >>> import numpy as np
    >>> heat = np.eye(2)[:, :, None, None] / 2
    >>> bool(amplifies({"second_order": heat}))
    False
    >>> print(amplifies({"second_order": -0.1 * heat}, length_scale=0.4))
    exp(M) amplifies without bound as frequencies grow in the direction [1. 0.].
    Some direction has anti-diffusion: the PDE is ill-posed.
    On the RBF kernel A k exists: min Re spec S(k) + l^2 / 2 = 0.03.
    On the RBF kernel A k A' does not exist: min Re spec S(k) + l^2 / 4 = -0.01.
    """
    if length_scale is not None:
        length_scale = positive_number(length_scale, "length_scale")
    c, b, s = _arrays(generator)
    coupled = (c != 0) | (b != 0).any(axis=0) | (s != 0).any(axis=(0, 1))
    pairs = zip(*np.nonzero(coupled), strict=True)
    found = []
    for part in connected_components((range(len(c)), list(pairs))):
        rows = np.ix_(part, part)
        found.append(_examined(c[rows], b[:, *rows], s[:, :, *rows]))
    growth, frequency, *_ = max(found, key=lambda x: x[0])
    well_posed, lowest = all(x[2] for x in found), min(x[3] for x in found)
    margins: tuple = (None, None)
    if length_scale is not None:
        margins = tuple(float(lowest + length_scale * length_scale / n) for n in (2, 4))
    return Amplification(growth, frequency, well_posed, *margins)


def _arrays(generator):
    """C [c, c], B [d, c, c] and S [d, d, c, c] in float64, with zeros for missing parts."""
    dim, out, inside = infer_shape(generator)
    if out != inside:
        raise ValueError(
            f"exp(M) needs as many output as input channels, found {out} and {inside}."
        )
    parts, _ = read_generator(generator, dim, (out, inside))
    found = []
    for order, name in enumerate(ORDERS):
        shape = (dim,) * order + (out, inside)
        found.append(real_array(parts.get(name, np.zeros(shape)), name))
        if not np.isfinite(found[-1]).all():
            raise ValueError(f"{name} has an entry too large for a float.")
    return found


def _examined(c, b, s):
    """The growth rate and its frequency, whether exp(M) is well posed, and S's lowest eigenvalue.

    The frequency is a direction if the rate is inf. The eigenvalue is that of S(k) with the
    smallest real part, over the directions k.
    """
    directions = _directions(len(b), len(c))
    c, b, s, rate, length, size = _scaled(c, b, s)
    forms = np.einsum("ni,nj,ijab->nab", directions, directions, s)
    hermitian = (forms + forms.swapaxes(-1, -2)) / 2
    rounding = ROUNDING * max(float(np.abs(forms).max()), 1e-300)
    values = np.linalg.eigvalsh(hermitian)[:, 0]
    if np.array_equal(forms, hermitian):
        lowest = float(values.min())
    else:  # few directions for many channels, because eigenvalues without symmetry are slow
        some = forms[:: max(1, len(c) // 20)]
        lowest = float(np.linalg.eigvals(some).real.min())
    well_posed = bool(values.min() >= -rounding or lowest >= -rounding)
    if values.min() < -rounding:
        # The first of the worst directions, regardless of rounding.
        worst = directions[np.argmax(values <= values.min() + rounding)]
        return np.inf, worst, well_posed, lowest * size
    growth = float(np.linalg.eigvalsh(c)[-1] - ROUNDING * np.abs(c).max())
    frequency = np.zeros(len(b))
    if b.any():
        unbounded = _unbounded(b, directions, hermitian, values <= rounding)
        if unbounded is not None:
            return np.inf, unbounded, well_posed, lowest * size
        s = (s + s.swapaxes(0, 1)) / 2
        found = _searched(c, b, (s + s.swapaxes(-1, -2)) / 2, directions)
        growth, frequency = max((growth, frequency), found, key=lambda x: x[0])
    growth, frequency = growth * rate, frequency * length
    if not (np.isfinite(growth) and np.isfinite(frequency).all()):
        raise ValueError("The growth rate is beyond the largest float: scale M down.")
    return growth, frequency, well_posed, lowest * size


def _scaled(c, b, s):
    """Scales the largest terms to about 1, exactly, by powers of two.

    Returns:
        The symmetric part of C, the antisymmetric part of B, S, the units of rate and frequency,
        and the unit of S in these.
    """
    even = c / 2 + c.T / 2
    odd = b / 2 - b.swapaxes(-1, -2) / 2
    even[np.abs(even) <= SYMMETRY * np.abs(c).max()] = 0.0
    odd[np.abs(odd) <= SYMMETRY * np.abs(b).max()] = 0.0
    sizes = [np.abs(x).max() for x in (even, odd, s)]
    exponents = [float(np.log2(x)) if x else -np.inf for x in sizes]
    length = 0.0
    if sizes[2] and max(sizes[:2]):
        length = max(exponents[1] - exponents[2], (exponents[0] - exponents[2]) / 2)
    length = np.floor(length)
    rate = max(x + n * length for n, x in enumerate(exponents))
    rate = np.floor(rate) if np.isfinite(rate) else 0.0
    units = (rate, length, rate - 2 * length)
    if max(units) > 1023 or min(units) < -1074:
        raise ValueError(
            "The sizes of C, B and S are too far apart, or too near the largest or smallest float: "
            f"their largest entries are {[float(np.abs(x).max()) for x in (c, b, s)]}."
        )
    powers = [int(n * length - rate) for n in range(3)]
    scaled = [np.ldexp(x, n) for n, x in zip(powers, (even, odd, s), strict=True)]
    return *scaled, *(float(2.0**x) for x in units)


def _directions(dim, channels):
    """Unit vectors [n, d], one of each opposite pair; fewer for many channels."""
    if dim == 1:
        return np.ones((1, 1))
    count = int(np.clip(DIRECTIONS * 40 / channels, 40, DIRECTIONS))
    if dim == 2:
        angle = np.arange(count) * (np.pi / count)
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    found = np.random.default_rng(0).normal(size=(count, dim))
    found = np.concatenate([np.eye(dim), found])
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def _unbounded(b, directions, forms, singular):
    """The direction in which B acts most on what S leaves unchanged, or None."""
    worst, where = ROUNDING * np.abs(b).max(), None
    rounding = ROUNDING * np.abs(forms).max()
    for k, form in zip(directions[singular], forms[singular], strict=True):
        values, vectors = np.linalg.eigh(form)
        null = vectors[:, values <= rounding]
        if null.shape[1]:
            rate = np.abs(np.linalg.eigvalsh(1j * null.T @ np.tensordot(k, b, 1) @ null)).max()
            if rate > worst * (1 + ROUNDING):
                worst, where = rate, k
    return where


def _hermitian(c, b, s, xi):
    """The Hermitian part of M(i xi); xi [..., d]."""
    first = 1j * np.einsum("...i,iab->...ab", xi, b)
    return c + first - np.einsum("...i,...j,ijab->...ab", xi, xi, s)


def _rate(c, b, s, xi):
    """The rate at xi, minus a bound on its rounding, and xi."""
    r = np.linalg.norm(xi)
    sizes = [float(np.abs(x).max()) for x in (c, b, s)]
    top = np.linalg.eigvalsh(_hermitian(c, b, s, xi))[-1]
    return float(top - ROUNDING * (sizes[0] + r * sizes[1] + r * r * sizes[2])), xi


def _searched(c, b, s, directions):
    """The largest rate on a grid of frequencies, and on climbs from its best points."""
    coarser = -(-len(c) // 24)  # for many channels
    lengths, directions = np.logspace(-4, 4, RADII)[::coarser], directions[::coarser]
    grid = lengths[:, None, None] * directions
    tops = np.array([np.linalg.eigvalsh(_hermitian(c, b, s, x))[:, -1] for x in grid])
    # Of the best rates of the lengths, take the best and those better than their neighbours.
    rows, columns = np.pad(tops.max(axis=1), 1, constant_values=-np.inf), tops.argmax(axis=1)
    peaks = np.flatnonzero((rows[1:-1] >= rows[:-2]) & (rows[1:-1] >= rows[2:]))
    best = sorted(peaks, key=lambda n: -rows[n + 1])[:3]
    starts = [grid[n, columns[n]] for n in best]
    points = [*starts, *(_climbed(c, b, s, xi) for xi in starts)]
    return max((_rate(c, b, s, xi) for xi in points), key=lambda x: x[0])


def _climbed(c, b, s, xi):
    """Climbs from xi: takes the best vector for xi, then the best xi for that vector, in turns."""
    for _ in range(100):
        v = np.linalg.eigh(_hermitian(c, b, s, xi))[1][:, -1]
        linear = np.einsum("a,iab,b->i", v.conj(), 1j * b, v, optimize=True).real
        form = np.einsum("a,ijab,b->ij", v.conj(), s, v, optimize=True).real
        if np.linalg.eigvalsh(form)[0] <= ROUNDING * np.abs(s).max():
            return xi  # the rate is flat in some direction
        moved = np.linalg.solve(form, linear) / 2
        if np.linalg.norm(moved - xi) <= 1e-9 * np.linalg.norm(moved):
            return moved
        xi = moved
    return xi

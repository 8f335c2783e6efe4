"""The largest growth rate of plane waves under a generator: a search over frequencies."""

from typing import NamedTuple

import numpy as np

ROUNDING = 1e-10  # relative to the sizes of the terms
SYMMETRY = 1e-13  # relative: below it a part of C or B is the rounding of 0
DIRECTIONS = 180
FEW_CHANNELS = 24  # up to here the grid is searched with all channels


class Growth(NamedTuple):
    """What ``analyse`` finds; see ``equivariance.stability.Amplification``."""

    growth: float
    frequency: np.ndarray
    well_posed: bool
    lowest: float | None  # smallest real part of an eigenvalue of S(k), |k| = 1, if asked for


def analyse(c, b, s, spectrum):
    """Growth rate and well-posedness of a generator.

    Args:
        c, b, s: [n, n], [d, n, n], [d, d, n, n], float64.
        spectrum: whether ``lowest`` is wanted.

    Returns:
        A ``Growth``.

    Raises:
        ValueError: if the sizes of C, B and S are too far apart for float64.
    """
    directions = _directions(len(b), len(c))
    c, b, s, rate, length, size = _scaled(c, b, s)
    forms = np.einsum("ni,nj,ijab->nab", directions, directions, s)
    hermitian = (forms + forms.swapaxes(-1, -2)) / 2
    scale = max(float(np.abs(forms).max()), 1e-300)
    definite = [_is_positive(x, ROUNDING * scale) for x in hermitian]
    dissipative = all(_is_positive(x, -ROUNDING * scale) for x in hermitian[~np.array(definite)])
    symmetric = np.array_equal(forms, hermitian)
    lowest, well_posed = None, dissipative
    if not dissipative and symmetric:
        well_posed = False
    if spectrum or not (dissipative or symmetric):
        eigenvalues = np.linalg.eigvalsh if symmetric else _real_parts
        lowest = np.inf
        for form in forms if symmetric else forms[:: max(1, len(c) // 20)]:
            lowest = min(lowest, float(eigenvalues(form).min()))
            if lowest < -ROUNDING * scale and not spectrum:
                break
        well_posed = dissipative or lowest >= -ROUNDING * scale
        lowest = lowest * size
    if not dissipative:
        values = np.array([np.linalg.eigvalsh(x)[0] for x in hermitian])
        # The first of the directions that are as bad, whatever the rounding.
        worst = directions[np.argmax(values <= values.min() + ROUNDING * scale)]
        return Growth(np.inf, worst, well_posed, lowest)
    growth, frequency = _largest_growth(c, b, s, directions, hermitian, definite)
    if np.isfinite(growth):
        growth, frequency = growth * rate, frequency * length
        if not (np.isfinite(growth) and np.isfinite(frequency).all()):
            raise ValueError("The growth rate is beyond the largest float: scale M down.")
    return Growth(growth, frequency, well_posed, lowest)


def _scaled(c, b, s):
    """In units in which the largest terms are of size 1; exact, by powers of two.

    The symmetric part of C, the antisymmetric part of B, S, the units of rate and frequency, and
    what the unit of S is in them.
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
    """Unit vectors [n, d], one of each pair of opposite ones; fewer for many channels."""
    if dim == 1:
        return np.ones((1, 1))
    count = int(np.clip(DIRECTIONS * 40 / channels, 40, DIRECTIONS))
    if dim == 2:
        angle = np.arange(count) * (np.pi / count)
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    found = np.random.default_rng(0).normal(size=(count, dim))
    found = np.concatenate([np.eye(dim), found])
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def _is_positive(matrix, shift):
    """Whether all eigenvalues are above the shift."""
    try:
        np.linalg.cholesky(matrix - shift * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def _real_parts(matrix):
    return np.linalg.eigvals(matrix).real


def _largest_growth(c, b, s, directions, forms, definite):
    """For S without negative directions: the rate, and xi (a direction if the rate is inf)."""
    first = np.linalg.eigvalsh(c)[-1] - ROUNDING * np.abs(c).max()
    best = float(first), np.zeros(len(b))
    if not b.any():
        return best
    unbounded = _unbounded(b, directions, forms, definite)
    if unbounded is not None:
        return np.inf, unbounded
    s = (s + s.swapaxes(0, 1)) / 2
    s = (s + s.swapaxes(-1, -2)) / 2
    if len(c) <= FEW_CHANNELS:
        return max(best, _searched(c, b, s, directions, 64), key=lambda x: x[0])
    # Many channels: the search is for a few vectors, to which the best at its result are added.
    basis = np.zeros((len(c), 0))
    points = [best[1], *directions[:: max(1, len(directions) // 5)]]
    for _ in range(12):
        for xi in points:
            vectors = np.linalg.eigh(_hermitian(c, b, s, xi))[1][:, -2:]
            basis = np.linalg.qr(np.concatenate([basis, vectors], axis=1))[0]
            best = max(best, _rate(c, b, s, xi), key=lambda x: x[0])
        few = [basis.conj().T @ x @ basis for x in (c, b, s)]
        growth, xi = _searched(*few, directions[::4], 24)
        if growth <= best[0] + ROUNDING:
            break
        points = [xi]
        reached = _rate(c, b, s, xi)
        if reached[0] <= growth + ROUNDING:
            return max(best, reached, key=lambda x: x[0])
    return best


def _unbounded(b, directions, forms, definite):
    """The direction in which B acts most where S does nothing, or None."""
    worst, where = ROUNDING * np.abs(b).max(), None
    scale = np.abs(forms).max()
    for k, form, is_definite in zip(directions, forms, definite, strict=True):
        if is_definite:
            continue
        values, vectors = np.linalg.eigh(form)
        null = vectors[:, values <= ROUNDING * scale]
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
    """The rate at xi, less what may be rounding, and xi."""
    r = np.linalg.norm(xi)
    sizes = [float(np.abs(x).max()) for x in (c, b, s)]
    top = np.linalg.eigvalsh(_hermitian(c, b, s, xi))[-1]
    return float(top - ROUNDING * (sizes[0] + r * sizes[1] + r * r * sizes[2])), xi


def _searched(c, b, s, directions, radii):
    """The largest rate on a grid of frequencies, and from its best points upwards."""
    grid = np.logspace(-4, 4, radii)[:, None, None] * directions
    tops = np.array([np.linalg.eigvalsh(_hermitian(c, b, s, x))[:, -1] for x in grid])
    # The best of each length, of which the best and those better than their neighbours.
    columns = tops.argmax(axis=1)
    rows = tops.max(axis=1)
    peaks = [
        n
        for n in range(radii)
        if rows[n] >= rows[max(n - 1, 0)] and rows[n] >= rows[min(n + 1, radii - 1)]
    ]
    peaks = sorted(peaks, key=lambda n: -rows[n])[:3]
    starts = [grid[n, columns[n]] for n in peaks]
    climbed = [_climbed(c, b, s, xi) for xi in starts]
    return max((_rate(c, b, s, xi) for xi in [*starts, *climbed]), key=lambda x: x[0])


def _climbed(c, b, s, xi):
    """Upwards from xi: the best vector for xi, then the best xi for that vector, in turns."""
    for _ in range(100):
        v = np.linalg.eigh(_hermitian(c, b, s, xi))[1][:, -1]
        linear = np.einsum("a,iab,b->i", v.conj(), 1j * b, v).real
        form = np.einsum("a,ijab,b->ij", v.conj(), s, v).real
        if np.linalg.eigvalsh(form)[0] <= ROUNDING * np.abs(s).max():
            return xi  # flat in some direction
        moved = np.linalg.solve(form, linear) / 2
        if np.linalg.norm(moved - xi) <= 1e-9 * np.linalg.norm(moved):
            return moved
        xi = moved
    return xi

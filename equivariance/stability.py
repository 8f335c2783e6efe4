"""When exp(M) amplifies, and what it does to a Gaussian process with an RBF kernel."""

from dataclasses import dataclass

import numpy as np

from equivariance.characters import ORDERS
from equivariance.generator_tensors import as_float, infer_shape, read_generator
from equivariance.representations import positive_number

DIRECTIONS = 360
RADII = 241
ROUNDING = 1e-10


@dataclass(frozen=True)
class Amplification:
    """What ``amplifies`` found. True in a condition if the generator amplifies.

    Attributes:
        growth: the largest rate found at which the norm of a plane wave's channels can grow, the
            top of the numerical range of M(i xi); inf if it has no bound. At most 0 means
            |exp(t M)| <= 1 for all t >= 0.
        frequency: where: xi [d] (a direction, if growth is inf).
        well_posed: whether exp(M(i xi)) stays bounded as xi grows, as far as S decides it: no
            eigenvalue of sum_ij k_i k_j S_ij has a negative real part for any direction k.
        margin_one_side, margin_both_sides: with a length scale l, the smallest real part of an
            eigenvalue of sum_ij k_i k_j S_ij over unit vectors k, plus l^2 / 2 and l^2 / 4. The
            kernels A k and A k A' of an RBF kernel k exist where they are positive. None without
            a length scale.
    """

    growth: float
    frequency: np.ndarray
    well_posed: bool
    margin_one_side: float | None
    margin_both_sides: float | None

    @property
    def amplifies(self):
        return self.growth > 0.0

    def __bool__(self):
        return self.amplifies

    def __str__(self):
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


def amplifies(generator, length_scale=None):
    """Whether exp(M) makes some plane wave larger.

    |exp(t M(i xi))| <= 1 for all t >= 0 if and only if the Hermitian part of M(i xi),

        sym(C) + i xi . antisym(B) - xi^T sym(S) xi

    (transposes of channels), has no positive eigenvalue. Its largest eigenvalue is searched over
    directions (all of them in one dimension, 360 in the plane, as many on the sphere and above) and
    241 lengths over 8 decades about the one at which S balances B and C. So "amplifies" comes with
    a frequency that proves it; "does not" holds on this grid, up to rounding. A dissipative
    parameterization needs no check.

    Args:
        generator: ``Generator``, triple (C, B, S) or dict, of real numbers, one generator.
        length_scale: l of an RBF kernel that exp(M) is to act on; optional.

    Returns:
        An ``Amplification``.

    Raises:
        TypeError, ValueError: if the arrays do not fit, or the length scale is not positive.

    Example: heat diffusion, and its reverse on a kernel that is smooth enough, or not.

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
    dim = len(b)
    directions = _directions(dim)
    forms = np.einsum("ni,nj,ijab->nab", directions, directions, s)
    size = np.abs(forms).max()
    lowest = np.linalg.eigvals(forms).real.min(axis=-1)
    tolerance = ROUNDING * max(size, 1e-300)
    well_posed = bool(lowest.min() >= -tolerance)
    growth, frequency = _largest_growth(c, b, forms, directions)
    margins = (None, None)
    if length_scale is not None:
        margins = tuple(float(lowest.min() + length_scale**2 / n) for n in (2, 4))
    return Amplification(growth, frequency, well_posed, *margins)


def _largest_growth(c, b, forms, directions):
    c = (c + c.T) / 2
    b = (b - b.swapaxes(-1, -2)) / 2
    forms = (forms + forms.swapaxes(-1, -2)) / 2
    first = np.einsum("ni,iab->nab", directions, b)
    sizes = [float(np.abs(x).max()) for x in (c, first, forms)]
    lowest = np.linalg.eigvalsh(forms)[:, 0]
    tolerance = ROUNDING * max(sizes[2], 1e-300)
    if lowest.min() < -tolerance:
        # The first of the directions that are as bad, whatever the rounding.
        return np.inf, directions[np.argmax(lowest <= lowest.min() + tolerance)]
    if sizes[2] == 0.0 and sizes[1] > 0.0:  # i xi . antisym(B) has eigenvalues of both signs
        rates = np.abs(np.linalg.eigvalsh(1j * first)).max(axis=-1)
        return np.inf, directions[rates.argmax()]
    radius = 1.0
    if sizes[2] > 0.0 and max(sizes[:2]) > 0.0:
        radius = max(sizes[1] / sizes[2], np.sqrt(sizes[0] / sizes[2]))
    radii = np.concatenate([[0.0], radius * np.logspace(-4, 4, RADII - 1)])
    best, where = -np.inf, None
    for r in radii:
        tops = np.linalg.eigvalsh(c + 1j * r * first - r * r * forms)[:, -1]
        # Rounding of the large terms is no growth.
        tops = tops - ROUNDING * (sizes[0] + r * sizes[1] + r * r * sizes[2])
        n = int(tops.argmax())
        if tops[n] > best:
            best, where = float(tops[n]), r * directions[n]
    return best, where


def _arrays(generator):
    """C [c, c], B [d, c, c] and S [d, d, c, c] in float64, zeros for what is missing."""
    dim, out, inside = infer_shape(generator)
    if out != inside:
        raise ValueError(
            f"exp(M) needs as many output as input channels, found {out} and {inside}."
        )
    parts, _ = read_generator(generator, dim, (out, inside))
    found = []
    for order, name in enumerate(ORDERS):
        try:
            found.append(as_float(parts[name]) if name in parts else None)
        except TypeError as error:
            raise TypeError(f"{name} must hold numbers, found symbols.") from error
        if found[-1] is None:
            found[-1] = np.zeros((dim,) * order + (out, inside))
    return found


def _directions(dim):
    """Unit vectors [n, d]."""
    if dim == 1:
        return np.array([[1.0], [-1.0]])
    if dim == 2:
        angle = np.arange(DIRECTIONS) * (2.0 * np.pi / DIRECTIONS)
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    found = np.random.default_rng(0).normal(size=(DIRECTIONS, dim))
    found = np.concatenate([np.eye(dim), found])
    return found / np.linalg.norm(found, axis=-1, keepdims=True)

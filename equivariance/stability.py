"""When exp(M) amplifies, and what it does to a Gaussian process with an RBF kernel."""

from dataclasses import dataclass

import numpy as np

from equivariance.arguments import positive_number, real_array
from equivariance.characters import ORDERS
from equivariance.exact import connected_parts
from equivariance.generator_tensors import infer_shape, read_generator
from equivariance.growth import analyse


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

    (transposes of channels), has no positive eigenvalue. S is examined in a number of directions,
    all of them in one dimension, 180 on a half circle (the other half is the same) or as many
    random ones above, down to 40 for hundreds of channels. Where it is positive and B is symmetric,
    the largest eigenvalue is that of sym(C), at xi = 0, and nothing has to be searched. Otherwise
    it is searched on a grid of lengths and directions, from whose best points the search climbs.
    Channels that are not coupled are examined apart. "Amplifies" comes with a frequency that proves
    it; "does not" is as good as this search, up to rounding. A dissipative parameterization needs
    no check.

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
    parts = np.array(connected_parts(len(c), zip(*np.nonzero(_couplings(c, b, s)), strict=True)))
    found = []
    for n in range(parts.max() + 1):
        at = np.flatnonzero(parts == n)
        rows = np.ix_(at, at)
        part = c[rows], b[:, *rows], s[:, :, *rows]
        found.append(analyse(*part, spectrum=length_scale is not None))
    worst = max(found, key=lambda x: x.growth)
    margins = (None, None)
    if length_scale is not None:
        lowest = min(x.lowest for x in found)
        margins = tuple(float(lowest + length_scale * length_scale / n) for n in (2, 4))
    well_posed = all(x.well_posed for x in found)
    return Amplification(worst.growth, worst.frequency, well_posed, *margins)


def _couplings(c, b, s):
    """Whether a channel acts on another, [out, in]."""
    return (c != 0) | (b != 0).any(axis=0) | (s != 0).any(axis=(0, 1))


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
        if name in parts:
            found.append(real_array(parts[name], name))
        else:
            found.append(np.zeros((dim,) * order + (out, inside)))
        if not np.isfinite(found[-1]).all():
            raise ValueError(f"{name} has an entry too large for a float.")
    return found

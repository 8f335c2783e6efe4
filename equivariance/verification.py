"""Checks whether given C, B and S commute with a group, and measures by how much they do not."""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from sympy.utilities.iterables import connected_components

from equivariance.arguments import tolerance_number
from equivariance.characters import ORDERS
from equivariance.exact import simplified, to_numpy
from equivariance.generator_tensors import infer_shape, read_generator
from equivariance.groups.base import Group
from equivariance.inputs import arrow, read_pair
from equivariance.representations import Representation

LETTERS = dict(zip(ORDERS, "CBS", strict=True))
SHOWN = 8  # number of violations in a report
SMALL_BLOCK = 1e-4  # a block below this part of the largest entry has no smaller tolerance


@dataclass(frozen=True)
class Violation:
    """One entry that violates an equation.

    Attributes:
        element: the generator of the group, such as "lie_generators[0]".
        order: "zeroth_order", "first_order" or "second_order".
        derivatives: derivative indices, (), (i,) or (i, j), counted from 0.
        channels: (output channel, input channel), counted from 0.
        residual: left minus right side, a sympy expression or a float (inf beyond the largest
            float).
    """

    element: str
    order: str
    derivatives: tuple[int, ...]
    channels: tuple[int, int]
    residual: Any

    def __str__(self) -> str:
        axes = "".join(str(i) for i in self.derivatives)
        out, inside = self.channels
        name = f"{LETTERS[self.order]}_{axes}" if axes else LETTERS[self.order]
        value = self.residual if isinstance(self.residual, sympy.Expr) else f"{self.residual:.3g}"
        return f"{name}[{out}, {inside}] misses the equation of {self.element} by {value}"


@dataclass(frozen=True)
class Verification:
    """The result of ``verify``. It is true as a condition if the generator is equivariant.

    Attributes:
        equivariant: whether all equations hold (exactly, or to the tolerance).
        exact: whether the arithmetic was exact.
        violations: the ``Violation`` entries, sorted by Lie-algebra or discrete generator and by
            order, with the largest first within each.
        residuals: a dict from pairs (element, order) to arrays [d, ..., out, in], left minus right
            sides of the equations.
        size: the largest residual relative to the size of its block (see ``verify``), a float; nan
            if it depends on symbols.
        symmetric: whether S_ij = S_ji. If not, only the symmetric part acts, and was checked.
        representations: text that names the checked representations.
    """

    equivariant: bool
    exact: bool
    violations: tuple[Violation, ...]
    residuals: dict[tuple[str, str], Any]
    size: float
    symmetric: bool
    representations: str

    def __bool__(self) -> bool:
        return self.equivariant

    def __str__(self) -> str:
        how = "exactly" if self.exact else f"to {self.size:.1e}"
        lines = []
        if self.equivariant:
            lines.append(f"Equivariant ({self.representations}), {how}.")
        else:
            lines.append(f"Not equivariant ({self.representations}):")
            lines += [f"  {x}" for x in self.violations[:SHOWN]]
            if len(self.violations) > SHOWN:
                lines.append(f"  and {len(self.violations) - SHOWN} more entries")
        if not self.symmetric:
            lines.append(
                "S_ij and S_ji differ: the symmetric part, (S_ij + S_ji) / 2, is all that acts, "
                "and was checked."
            )
        return "\n".join(lines)


def verify(
    generator: Any,
    rep_in: Representation | Group,
    rep_out: Representation | None = None,
    *,
    tolerance: float = 1e-9,
) -> Verification:
    """Whether M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j commutes with a group.

    For each Lie-algebra generator J and each discrete generator h of the group it checks

        (J on the derivative indices) X + d rho_out(J) X - X d rho_in(J) = 0
        (h on the derivative indices) rho_out(h) X rho_in(h)^-1 - X = 0

    for X = C, B and S. If these hold for the generators, they hold for all elements.

    Args:
        generator: ``Generator``, triple (C, B, S) or dict with some of the keys zeroth_order [out,
            in], first_order [d, out, in] and second_order [d, d, out, in]. Integers, fractions and
            sympy expressions are checked exactly; symbols stand for any real number. Floats are
            checked numerically.
        rep_in: the representation that M acts on. A group stands for scalar channels.
        rep_out: the representation of the result. The default is ``rep_in``.
        tolerance: for floats, the largest residual relative to the size of its block of C, B or S.
            The block holds the output and input channels that the group mixes with the entry's own:
            only these enter its equation. Its size is its largest entry, but at least 1e-4 of the
            largest entry of all. Smaller entries may be the rounding of 0. The group's matrices
            also count, by the terms of J's equation, and by those of h's equation in the form
            ``rho_out(h) h.X = X rho_in(h)``.

    Returns:
        A ``Verification``. Print it to see the violations.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or shape, or is not finite; or if
            the generator has floats and the group's matrices are too large for them.

    Example: the gradient of a vector field's divergence, and a drift that is not equivariant.

    >>> import equivariance, sympy
    >>> s = [[[[1, 0], [0, 0]], [[0, sympy.Rational(1, 2)], [sympy.Rational(1, 2), 0]]],
    ...      [[[0, sympy.Rational(1, 2)], [sympy.Rational(1, 2), 0]], [[0, 0], [0, 1]]]]
    >>> print(equivariance.verify({"second_order": s}, equivariance.O2.irrep(1)))
    Equivariant (O2: 1), exactly.
    >>> print(equivariance.verify({"first_order": [[[1]], [[0]]]}, equivariance.SO2))
    Not equivariant (SO2: 0):
      B_1[0, 0] misses the equation of lie_generators[0] by 1
    """
    if isinstance(rep_in, Group):
        _, out, inside = infer_shape(generator)
        rep_out = out * rep_in.trivial if rep_out is None else rep_out
        rep_in = inside * rep_in.trivial
    rep_in, rep_out = read_pair(rep_in, rep_out)
    tolerance, group = tolerance_number(tolerance, "tolerance"), rep_out.group
    parts, exact = read_generator(generator, group.dim, (rep_out.dim, rep_in.dim))
    exponents = {}
    if not exact:  # scale entries to at most 1, so that nothing overflows
        exponents = {name: _exponent(x) for name, x in parts.items()}
        parts = {name: np.ldexp(x, -exponents[name]) for name, x in parts.items()}
    symmetric = True
    if "second_order" in parts:
        s = parts["second_order"]
        other = s.swapaxes(0, 1)
        parts["second_order"], symmetric = (s + other) / 2, not np.any(s - other)
    if exact:
        scales = dict.fromkeys(parts)
    else:
        scales = {name: _block_sizes(x, rep_in, rep_out) for name, x in parts.items()}
    violations, residuals, size = [], {}, 0.0
    for element, order, left, sizes in _residuals(parts, scales, rep_in, rep_out, exact):
        if exact:
            ratios = _exact_ratios(left, parts[order])
            left = sympy.ImmutableDenseNDimArray(list(left.flat), left.shape)
            wrong = [at for at in np.ndindex(*left.shape) if left[at] != 0]
        else:
            ratios = np.divide(np.abs(left), sizes, out=np.zeros(left.shape), where=left != 0)
            wrong = list(map(tuple, np.argwhere(ratios > tolerance).tolist()))
            with np.errstate(over="ignore"):
                left = np.ldexp(left, exponents[order])
        if not np.isnan(ratios).any():
            wrong.sort(key=lambda at: -ratios[at])
        for at in wrong:
            value = left[at] if exact else float(left[at])
            violations.append(Violation(element, order, at[:-2], at[-2:], value))
        residuals[element, order] = left
        largest = float(ratios.max())
        size = max(size, largest) if largest == largest else largest
    return Verification(
        not violations,
        exact,
        tuple(violations),
        residuals,
        size,
        symmetric,
        f"{group.name}: {arrow(rep_in, rep_out)}",
    )


def _exponent(x):
    """The e for which the entries of x / 2^e are at most 1."""
    return int(np.frexp(np.abs(x).max(initial=0.0))[1])


def _block_sizes(x, rep_in, rep_out):
    """For each pair of channels the size of the block that the group mixes its entry with."""
    largest = np.abs(x).max(axis=tuple(range(x.ndim - 2)))
    out, inside = _mixed_channels(rep_out), _mixed_channels(rep_in)
    blocks = np.zeros((max(out) + 1, max(inside) + 1))
    np.maximum.at(blocks, np.ix_(out, inside), largest)
    return np.maximum(blocks, SMALL_BLOCK * largest.max())[np.ix_(out, inside)]


@lru_cache(maxsize=256)
def _mixed_channels(rep):
    """The number of each channel's block; no generator mixes channels of different blocks."""
    matrices = [*rep.model.plain, *(x.weights for x in rep.model.turns)]
    pairs = [at for x in matrices for at in x.to_dok()]
    blocks = connected_components((range(rep.dim), pairs))
    numbers = {channel: n for n, block in enumerate(blocks) for channel in block}
    return [numbers[channel] for channel in range(rep.dim)]


def _exact_ratios(left, x):
    """The sizes of exact residuals relative to the largest entry of x; NaN if symbols occur."""
    ratios = np.zeros(left.shape)
    wrong = [at for at in np.ndindex(*left.shape) if left[at] != 0]
    if any(left[at].free_symbols for at in wrong):
        return np.full(left.shape, np.nan)
    if wrong:
        scale = max(abs(sympy.N(y)) for y in x.flat if not y.free_symbols)
        for at in wrong:
            ratios[at] = float(abs(sympy.N(left[at])) / scale)
    return ratios


def _residuals(parts, scales, rep_in, rep_out, exact):
    """Element, order, residual, and for numeric ones the sizes to compare their entries with.

    A scaled Lie generator scales its equation and says nothing new, so its size counts. For a
    discrete generator h the sizes of the terms of ``rho_out(h) h.X - X rho_in(h)`` count. With an
    inverse on one side, as in ``rho_out(h) h.X rho_in(h)^-1 - X``, large terms could hide an error.
    """
    group = rep_in.group
    parts = {name: _by_derivative(x, exact) for name, x in parts.items()}
    for n, j in enumerate(group.lie_generators):
        element = f"lie_generators[{n}]"
        j, a, b = _read(element, group, exact, j, rep_out.lie_algebra[n], rep_in.lie_algebra[n])
        size = 1.0 if exact else max(np.abs(m).max(initial=0.0) for m in (j, a, b)) or 1.0
        for order, x in parts.items():
            left = {at: a @ y - y @ b for at, y in x.items()}
            for at, slot in itertools.product(x, range(ORDERS.index(order))):
                for k in range(group.dim):
                    if j[at[slot], k]:
                        left[at] = left[at] + j[at[slot], k] * x[(*at[:slot], k, *at[slot + 1 :])]
            yield element, order, _stacked(left, exact), None if exact else size * scales[order]
    for n, h in enumerate(group.discrete_generators):
        element = f"discrete_generators[{n}]"
        g, a, b = _read(element, group, exact, h.matrix, rep_out.matrix(h), rep_in.matrix(h))
        for order, x in parts.items():
            moved = _moved(g, x)
            if exact:
                inverse = rep_in.matrix(group.inverse(h))
                left = {at: a @ moved[at] @ inverse - x[at] for at in x}
                yield element, order, _stacked(left, exact), None
                continue
            sizes = _moved(abs(g), {at: abs(y) for at, y in x.items()})
            sizes = {at: abs(a) @ sizes[at] + abs(x[at]) @ abs(b) for at in x}
            left = {at: a @ moved[at] - x[at] @ b for at in x}
            yield element, order, _stacked(left), np.maximum(_stacked(sizes), scales[order])


def _moved(g, x):
    """The derivative indices of x moved by the matrix g."""
    found = {at: 0 * y for at, y in x.items()}
    for at, source in itertools.product(x, repeat=2):
        if factor := math.prod(g[place] for place in zip(at, source, strict=True)):
            found[at] = found[at] + factor * x[source]
    return found


def _read(element, group, exact, *matrices):
    """The matrices, in float64 unless exact; raises an error if float64 cannot hold them."""
    if exact:
        return matrices
    found = [to_numpy(x) for x in matrices]
    size = max(float(np.abs(x).max(initial=0.0)) for x in found)
    if not size < 1e100:  # products of three stay finite then; NaN fails this, too
        raise ValueError(
            f"group {group.name}: {element} and its representations have entries too large for "
            f"double precision (found {size:.3g}); give the generator by exact numbers, or scale "
            "the group's generators."
        )
    return found


def _by_derivative(x, exact):
    """The matrices [out, in] of an array, by derivative indices; sympy's if exact."""
    places = np.ndindex(*x.shape[:-2])
    return {at: sympy.ImmutableMatrix(x[at]) if exact else x[at] for at in places}


def _stacked(matrices, exact=False):
    """The array [d, ..., out, in] of matrices by derivative indices; simplified if exact."""
    at = max(matrices)
    shape = tuple(n + 1 for n in at) + matrices[at].shape
    if not exact:
        return np.array(list(matrices.values())).reshape(shape)
    found = np.empty(math.prod(shape), dtype=object)
    found[:] = [simplified(x) for matrix in matrices.values() for x in matrix.flat()]
    return found.reshape(shape)

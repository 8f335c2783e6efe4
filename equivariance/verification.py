"""Whether given C, B and S commute with a group, and by how much they do not."""

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy

from equivariance.arguments import tolerance_number
from equivariance.characters import ORDERS
from equivariance.exact import connected_parts, flat_entries, simplified, to_numpy
from equivariance.generator_tensors import infer_shape, read_generator
from equivariance.groups.base import Group
from equivariance.representations import read_pair

LETTERS = dict(zip(ORDERS, "CBS", strict=True))
SHOWN = 8  # violations in a report
SMALL_BLOCK = 1e-4  # of the largest entry: a smaller block's tolerance is not reduced further


@dataclass(frozen=True)
class Violation:
    """One entry by which an equation is missed.

    Attributes:
        element: which generator of the group, as "lie_generators[0]".
        order: "zeroth_order", "first_order" or "second_order".
        derivatives: derivative indices, (), (i,) or (i, j), counted from 0.
        channels: (output channel, input channel), counted from 0.
        residual: left minus right side; a sympy expression or a float (inf where it is beyond
            the largest float).
    """

    element: str
    order: str
    derivatives: tuple
    channels: tuple
    residual: Any

    def __str__(self):
        axes = "".join(str(i) for i in self.derivatives)
        out, inside = self.channels
        name = f"{LETTERS[self.order]}_{axes}" if axes else LETTERS[self.order]
        value = self.residual if isinstance(self.residual, sympy.Expr) else f"{self.residual:.3g}"
        return f"{name}[{out}, {inside}] misses the equation of {self.element} by {value}"


@dataclass(frozen=True)
class Verification:
    """What ``verify`` found. True in a condition if the generator is equivariant.

    Attributes:
        equivariant: whether all equations hold (exactly, or to the tolerance).
        exact: whether the arithmetic was exact.
        violations: the ``Violation`` entries, one Lie-algebra or discrete generator and order
            after the other, the largest first within each.
        residuals: a dict from pairs (element, order) to arrays [d, ..., out, in], left minus right
            sides of the equations.
        size: the largest residual relative to the size of its block (see ``verify``), a float; nan
            if it depends on symbols.
        symmetric: whether S_ij = S_ji. If not, its symmetric part, all that acts, was checked.
        representations: text that says which were checked.
    """

    equivariant: bool
    exact: bool
    violations: tuple
    residuals: dict
    size: float
    symmetric: bool
    representations: str

    def __bool__(self):
        return self.equivariant

    def __str__(self):
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


def verify(generator, rep_in, rep_out=None, *, tolerance=1e-9):
    """Whether M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j commutes with a group.

    Checks, for each Lie-algebra generator J and each discrete generator h of the group,

        (J on the derivative indices) X + d rho_out(J) X - X d rho_in(J) = 0
        (h on the derivative indices) rho_out(h) X rho_in(h)^-1 - X = 0

    for X = C, B and S. These hold for all elements if they hold for the generators.

    Args:
        generator: ``Generator``, triple (C, B, S) or dict with some of the keys zeroth_order [out,
            in], first_order [d, out, in] and second_order [d, d, out, in]. Integers, fractions and
            sympy expressions are checked exactly (symbols may occur, and stand for any real
            number), floats numerically.
        rep_in: the representation that M acts on. A group stands for scalar channels.
        rep_out: the one that it gives; the same by default.
        tolerance: for floats, how large a residual may be relative to the size of its block of
            C, B or S: the largest entry between the output and input channels that the group mixes
            with the entry's own, as only these enter its equation. So a block is judged by its own
            size, however large others are, down to 1e-4 of the largest entry of all: what is
            smaller may be the rounding of a calculation that should have given 0. The group's
            matrices count too, by the terms of J's equation, and of h's in the form
            ``rho_out(h) h.X = X rho_in(h)``.

    Returns:
        A ``Verification``; printing it says what is missed where.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or shape, or is not finite, or if
            the generator is of floats and the group's matrices are too large for them.

    Example: a vector field's gradient of the divergence, and a drift that is none.

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
    tolerance = tolerance_number(tolerance, "tolerance")
    group = rep_in.group
    parts, exact = read_generator(generator, group.dim, (rep_out.dim, rep_in.dim))
    exponents = {}
    if not exact:  # entries of at most 1, so that nothing overflows
        exponents = {name: _exponent(x) for name, x in parts.items()}
        parts = {name: np.ldexp(x, -exponents[name]) for name, x in parts.items()}
    symmetric = True
    if "second_order" in parts:
        parts["second_order"], symmetric = _symmetrised(parts["second_order"], exact)
    violations, residuals, size = [], {}, 0.0
    if exact:
        checks = _exact_residuals(parts, rep_in, rep_out)
    else:
        scales = {name: _block_sizes(x, rep_in, rep_out) for name, x in parts.items()}
        checks = _numeric_residuals(parts, scales, rep_in, rep_out)
    for element, order, left, sizes in checks:
        if exact:
            relative, found = _exact_violations(left, parts[order], element, order)
        else:
            ratio = _ratio(left, sizes)
            with np.errstate(over="ignore"):
                left = np.ldexp(left, exponents[order])
            relative, found = _violations(left, ratio, element, order, tolerance)
        residuals[element, order] = left
        size = max(size, relative) if relative == relative else relative
        violations += found
    names = str(rep_in) if rep_in == rep_out else f"{rep_in} -> {rep_out}"
    return Verification(
        not violations,
        exact,
        tuple(violations),
        residuals,
        size,
        symmetric,
        f"{group.name}: {names}",
    )


def _symmetrised(s, exact):
    if not exact:
        other = s.swapaxes(0, 1)
        return (s + other) / 2, bool(np.array_equal(s, other))
    other = sympy.permutedims(s, (1, 0, 2, 3))
    return (s + other) / 2, all(x == 0 for x in flat_entries(s - other))


def _exponent(x):
    """e such that the entries of x / 2^e are at most 1."""
    return int(np.frexp(np.abs(x).max(initial=0.0))[1])


def _block_sizes(x, rep_in, rep_out):
    """For each pair of channels the size of what the group mixes its entry with, [out, in]."""
    largest = np.abs(x).max(axis=tuple(range(x.ndim - 2)))
    out, inside = _mixed_channels(rep_out), _mixed_channels(rep_in)
    blocks = np.zeros((max(out) + 1, max(inside) + 1))
    np.maximum.at(blocks, np.ix_(out, inside), largest)
    return np.maximum(blocks, SMALL_BLOCK * largest.max())[np.ix_(out, inside)]


@lru_cache(maxsize=256)
def _mixed_channels(rep):
    """The number of each channel's block; no generator mixes channels of different blocks."""
    model = rep.model
    matrices = [*model.lie, *model.discrete, *(x.weights for x in model.turns)]
    return connected_parts(rep.dim, (at for x in matrices for at in x.to_dok()))


def _ratio(left, scale):
    return np.divide(np.abs(left), scale, out=np.zeros(left.shape), where=np.abs(left) > 0)


def _violations(left, ratio, element, order, tolerance):
    wrong = sorted(map(tuple, np.argwhere(ratio > tolerance).tolist()), key=lambda at: -ratio[at])
    found = [_violation(element, order, at, float(left[at])) for at in wrong]
    return float(ratio.max()), found


def _exact_violations(left, x, element, order):
    wrong = [at for at in np.ndindex(*left.shape) if left[at] != 0]
    if not wrong:
        return 0.0, []
    if any(left[at].free_symbols for at in wrong):
        return float("nan"), [_violation(element, order, at, left[at]) for at in wrong]
    digits = {at: abs(sympy.N(left[at])) for at in wrong}
    wrong.sort(key=lambda at: -digits[at])
    scale = max(abs(sympy.N(y)) for y in flat_entries(x) if not y.free_symbols)
    found = [_violation(element, order, at, left[at]) for at in wrong]
    return float(digits[wrong[0]] / scale), found


def _violation(element, order, at, value):
    return Violation(element, order, tuple(at[:-2]), tuple(at[-2:]), value)


def _numeric_residuals(parts, scales, rep_in, rep_out):
    """Element, order, residual, and the sizes that its entries are judged by.

    Scaling a Lie generator scales its equation and says nothing new, so its size counts. A discrete
    generator h has ``rho_out(h) h.X - X rho_in(h)``, whose terms' sizes count: with an inverse on
    one side, as in ``rho_out(h) h.X rho_in(h)^-1 - X``, large terms could hide what is wrong.
    """
    group = rep_in.group
    for n, j in enumerate(group.lie_generators):
        element, j = f"lie_generators[{n}]", to_numpy(j)
        a, b = to_numpy(rep_out.lie_algebra[n]), to_numpy(rep_in.lie_algebra[n])
        size = _size(element, group, j, a, b) or 1.0
        for order, x in parts.items():
            left = a @ x - x @ b
            for axis in range(x.ndim - 2):
                left = left + np.moveaxis(np.tensordot(j, x, (1, axis)), 0, axis)
            yield element, order, left, size * scales[order]
    for n, h in enumerate(group.discrete_generators):
        element, g = f"discrete_generators[{n}]", to_numpy(h.matrix)
        a, b = to_numpy(rep_out.matrix(h)), to_numpy(rep_in.matrix(h))
        _size(element, group, g, a, b)
        for order, x in parts.items():
            left = a @ _moved(g, x) - x @ b
            terms = abs(a) @ _moved(abs(g), abs(x)) + abs(x) @ abs(b)
            yield element, order, left, np.maximum(terms, scales[order])


def _moved(g, x):
    """The derivative axes of x moved by the matrix g."""
    for axis in range(x.ndim - 2):
        x = np.moveaxis(np.tensordot(g, x, (1, axis)), 0, axis)
    return x


def _size(element, group, *matrices):
    """The largest entry of all; an error if double precision cannot hold them."""
    size = max(float(np.abs(matrix).max(initial=0.0)) for matrix in matrices)
    if not size < 1e100:  # so that products of three stay finite; NaN fails this as well
        raise ValueError(
            f"group {group.name}: {element} and its representations have entries too large for "
            f"double precision (found {size:.3g}); give the generator by exact numbers, or scale "
            "the group's generators."
        )
    return size


def _exact_residuals(parts, rep_in, rep_out):
    group, axes = rep_in.group, range(rep_in.group.dim)
    matrices = {name: _by_derivative(x) for name, x in parts.items()}
    for n, j in enumerate(group.lie_generators):
        a, b = rep_out.lie_algebra[n], rep_in.lie_algebra[n]
        for order, x in matrices.items():
            left = {}
            for at in x:
                left[at] = a * x[at] - x[at] * b
                for slot, axis in enumerate(at):
                    for k in axes:
                        if j[axis, k]:
                            left[at] += j[axis, k] * x[(*at[:slot], k, *at[slot + 1 :])]
            yield f"lie_generators[{n}]", order, _as_array(left, parts[order].shape), 1
    for n, h in enumerate(group.discrete_generators):
        g, a, b = h.matrix, rep_out.matrix(h), rep_in.matrix(group.inverse(h))
        for order, x in matrices.items():
            moved = {at: a * matrix * b for at, matrix in x.items()}
            left = {}
            for at in x:
                left[at] = -x[at]
                for source in x:
                    factor = sympy.prod([g[i, k] for i, k in zip(at, source, strict=True)])
                    if factor:
                        left[at] += factor * moved[source]
            yield f"discrete_generators[{n}]", order, _as_array(left, parts[order].shape), 1


def _by_derivative(x):
    shape = x.shape[-2:]
    order = len(x.shape) - 2
    found = {}
    for at in itertools.product(range(x.shape[0]) if order else (), repeat=order):
        rows = x[at] if at else x
        found[at] = sympy.ImmutableMatrix(*shape, flat_entries(rows))
    return found


def _as_array(matrices, shape):
    entries = [simplified(x) for at in sorted(matrices) for x in matrices[at].flat()]
    return sympy.ImmutableDenseNDimArray(entries, shape)

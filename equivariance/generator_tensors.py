"""A generator M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j as three arrays, read and checked."""

from collections.abc import Mapping
from numbers import Rational, Real
from typing import Any, NamedTuple

import numpy as np
import sympy

from equivariance.arguments import real_array
from equivariance.characters import ORDERS
from equivariance.exact import flat_entries
from equivariance.generators import symbol


class Generator(NamedTuple):
    """The coefficients of M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j.

    Attributes:
        zeroth_order: C [out, in], or None.
        first_order: B [d, out, in], or None.
        second_order: S [d, d, out, in], or None.

    Each is a NumPy array or a sympy array. Arrays of many generators have leading axes.

    Example:

    >>> import numpy as np
    >>> heat = Generator(second_order=np.eye(2)[:, :, None, None] / 2)
    >>> heat.symbol(1j * np.array([1.0, 1.0]))  # M(i xi)
    array([[-1.+0.j]])
    """

    zeroth_order: Any = None
    first_order: Any = None
    second_order: Any = None

    def symbol(self, frequency):
        """M(xi), derivatives replaced by numbers: see ``equivariance.symbol``.

        ``symbol(1j * xi)`` is what M does to plane waves exp(i xi . x).
        """
        return symbol(frequency, *self)

    def to_numpy(self):
        """The same generator in float64."""
        return Generator(
            *(None if x is None else real_array(x, n) for n, x in zip(ORDERS, self, strict=True))
        )


def infer_shape(generator):
    """What the arrays' shapes say of a generator: (d, out, in); 1 where they say nothing."""
    dim, out, inside = 1, 1, 1
    parts = generator.values() if isinstance(generator, Mapping) else generator
    if isinstance(parts, str) or not hasattr(parts, "__iter__"):
        return dim, out, inside
    for x in parts:
        shape = x.shape if hasattr(x, "shape") else _list_shape(x)
        if len(shape) >= 2:
            out, inside = max(shape[-2], 1), max(shape[-1], 1)
        if len(shape) >= 3:
            dim = max(shape[0], 1)
    return dim, out, inside


def _list_shape(x):
    shape = []
    while isinstance(x, list | tuple):
        shape.append(len(x))
        x = x[0] if x else None
    return shape


def read_generator(generator, dim, shape):
    """A generator from any form of it, checked.

    Args:
        generator: ``Generator``, triple (C, B, S) or dict with the keys of ``ORDERS``; parts that
            are missing or None are zero.
        dim: d.
        shape: (out, in).

    Returns:
        Dict from the orders given to arrays, and whether they are exact. Exact ones are sympy
        arrays, the others float64.

    Raises:
        TypeError: if it is none of these, or an entry is no real number.
        ValueError: if a shape does not fit or an entry is not finite.
    """
    if isinstance(generator, Mapping):
        unknown = sorted(set(generator) - set(ORDERS), key=str)
        if unknown:
            raise ValueError(f"generator has the keys {unknown}; known are {list(ORDERS)}.")
        parts = {name: generator.get(name) for name in ORDERS}
    elif isinstance(generator, tuple | list) and len(generator) == 3:
        parts = dict(zip(ORDERS, generator, strict=True))
    else:
        raise TypeError(
            "generator must be a Generator, a triple (C, B, S) or a dict with some of the keys "
            f"{list(ORDERS)}, found {type(generator).__name__}."
        )
    parts = {name: _entries(x, name) for name, x in parts.items() if x is not None}
    if not parts:
        raise ValueError("generator is empty: give at least one of C, B and S.")
    exact = all(x.dtype == object for x in parts.values())
    for order, name in enumerate(ORDERS):
        expected = (dim,) * order + tuple(shape)
        if name in parts and parts[name].shape != expected:
            letters = "CBS"[order]
            raise ValueError(
                f"{name} ({letters}) must have the shape {expected} (derivative indices, out, in), "
                f"found {parts[name].shape}."
            )
    if exact:
        return {name: _sympy(x) for name, x in parts.items()}, True
    return {name: _float(x) for name, x in parts.items()}, False


def _entries(array, name):
    """Object array of sympy numbers if all entries are exact, float64 array otherwise."""
    if isinstance(array, sympy.MatrixBase | sympy.NDimArray):
        flat = flat_entries(array)
        found = np.empty(len(flat), dtype=object)
        found[:] = flat
        found = found.reshape(array.shape)
    else:
        try:
            found = np.asarray(array)
        except ValueError as error:
            raise ValueError(f"{name} must be an array, found lists of unequal length.") from error
        if np.issubdtype(found.dtype, np.integer):
            found = found.astype(object)
    if found.dtype == object:
        for x in found.flat:
            if isinstance(x, sympy.Expr | Real) and not isinstance(x, bool):
                if isinstance(x, sympy.Expr) and x.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
                    raise ValueError(f"{name} must be finite, found the entry {x}.")
                if isinstance(x, sympy.Expr) and x.is_real is False:
                    raise TypeError(f"{name} must be real, found the entry {x}.")
                continue
            raise TypeError(
                f"{name} must hold numbers or sympy expressions, found {x!r} ({type(x).__name__})."
            )
        if all(_is_exact(x) for x in found.flat):
            return found
    if found.dtype == object and any(
        isinstance(x, sympy.Expr) and x.free_symbols for x in found.flat
    ):
        raise TypeError(f"{name} mixes floats with symbols: write the floats as exact numbers.")
    found = real_array(found, name)
    if not np.all(np.isfinite(found)):
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(found))[0])
        raise ValueError(f"{name} must be finite, found {found[at]} at {at}.")
    return found


def _is_exact(x):
    if isinstance(x, sympy.Expr):
        return not x.has(sympy.Float)
    return isinstance(x, Rational)


def _sympy(array):
    return sympy.ImmutableDenseNDimArray([sympy.sympify(x) for x in array.flat], array.shape)


def _float(array):
    return np.array(array, dtype=float)

"""Reads and checks a generator M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j as three arrays."""

from collections.abc import Mapping
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np
import sympy

from equivariance.arguments import (
    EXPRESSION,
    is_real_entry,
    plain_array,
    real_array,
    require_finite,
    require_shape,
    wrong_type,
)
from equivariance.characters import ORDERS
from equivariance.exact import object_array


class Generator(NamedTuple):
    """The coefficients of M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j.

    Attributes:
        zeroth_order: C [out, in], or None.
        first_order: B [d, out, in], or None.
        second_order: S [d, d, out, in], or None.

    Each array is from NumPy or sympy. Arrays of many generators have leading axes.

    Example:

    >>> import numpy as np
    >>> heat = Generator(second_order=np.eye(2)[:, :, None, None] / 2)
    >>> heat.symbol(1j * np.array([1.0, 1.0]))  # M(i xi)
    array([[-1.+0.j]])
    """

    zeroth_order: Any = None
    first_order: Any = None
    second_order: Any = None

    def symbol(self, frequency: Any) -> np.ndarray:
        """M(xi), with numbers instead of derivatives: see ``equivariance.symbol``.

        ``symbol(1j * xi)`` is the action of M on plane waves exp(i xi . x).
        """
        return symbol(frequency, *self)

    def to_numpy(self) -> "Generator":
        """The same generator in float64."""
        return Generator(
            *(None if x is None else real_array(x, n) for n, x in zip(ORDERS, self, strict=True))
        )


def symbol(
    frequency: Any, zeroth_order: Any = None, first_order: Any = None, second_order: Any = None
) -> np.ndarray:
    """M(xi) = C + sum_i xi_i B_i + sum_ij xi_i xi_j S_ij, with numbers instead of derivatives.

    Args:
        frequency: xi [d], real or complex.
        zeroth_order: C [out, in]; optional.
        first_order: B [d, out, in]; optional.
        second_order: S [d, d, out, in]; optional.

    Returns:
        Array [out, in].

    Raises:
        ValueError: if none of C, B and S is given.

    Example:

    >>> import numpy as np
    >>> symbol(np.array([1.0, 2.0]), second_order=np.eye(2)[:, :, None, None])
    array([[5.]])
    """
    frequency = np.asarray(frequency)
    if frequency.ndim != 1 or frequency.dtype.kind not in "fiuc":
        raise ValueError(f"frequency must be a vector of numbers, found {frequency!r}.")
    terms = []
    for order, x in enumerate((zeroth_order, first_order, second_order)):
        if x is None:
            continue
        x = np.asarray(x)
        if order and x.shape[:-2] != order * frequency.shape:
            raise ValueError(
                f"{ORDERS[order]} must have the shape {order * frequency.shape} (derivative "
                f"indices), then out and in, found {x.shape}."
            )
        for _ in range(order):
            x = np.tensordot(frequency, x, 1)
        terms.append(x)
    if not terms:
        raise ValueError("Give at least one of zeroth_order, first_order and second_order.")
    return sum(terms[1:], terms[0])


def infer_shape(generator):
    """Infers (d, out, in) of a generator from its arrays' shapes; unknown sizes are 1."""
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
    """Reads and checks a generator in any form.

    Args:
        generator: ``Generator``, triple (C, B, S) or dict with the keys of ``ORDERS``. Parts that
            are missing or None are zero.
        dim: d.
        shape: (out, in).

    Returns:
        A dict from the given orders to NumPy arrays, and whether they are exact. Exact arrays hold
        sympy numbers; others are float64.

    Raises:
        TypeError: if it has another form, or an entry is not a real number.
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
    found = {name: _entries(x, name) for name, x in parts.items() if x is not None}
    if not found:
        raise ValueError("generator is empty: give at least one of C, B and S.")
    for name, x in found.items():
        order = ORDERS.index(name)
        title = f"{name}, {'CBS'[order]}[derivative indices, out, in],"
        require_shape(x, (dim,) * order + tuple(shape), title)
    if all(x.dtype == object for x in found.values()):
        sympify = np.vectorize(sympy.sympify, otypes=[object])
        return {name: sympify(x) if x.size else x for name, x in found.items()}, True
    return {name: real_array(x, name) for name, x in found.items()}, False


def _entries(array, name):
    """An object array of numbers if all entries are exact, otherwise a float64 array."""
    if isinstance(array, sympy.MatrixBase | sympy.NDimArray):
        found = object_array(array)
    else:
        found = plain_array(array, name)
        if np.issubdtype(found.dtype, np.integer):
            found = found.astype(object)
    if found.dtype == object:
        for x in found.flat:
            if not is_real_entry(x):
                raise wrong_type(name, EXPRESSION, x)
            if isinstance(x, sympy.Expr) and x.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
                raise ValueError(f"{name} must be finite, found the entry {x}.")
            if isinstance(x, sympy.Expr) and x.is_real is False:
                raise TypeError(f"{name} must be real, found the entry {x}.")
        if all(_is_exact(x) for x in found.flat):
            return found
        if any(isinstance(x, sympy.Expr) and x.free_symbols for x in found.flat):
            raise TypeError(f"{name} mixes floats with symbols: write the floats as exact numbers.")
    found = real_array(found, name)
    require_finite(found, name)
    return found


def _is_exact(x):
    return not x.has(sympy.Float) if isinstance(x, sympy.Expr) else isinstance(x, Rational)

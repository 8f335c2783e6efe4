"""Checks of arguments: numbers, arrays of numbers and sizes. Errors name the argument."""

import math
from numbers import Integral, Real

import numpy as np
import sympy

from equivariance.exact import to_numpy

EXPRESSION = "made of numbers or sympy expressions"
MAX_CHANNELS = 2000  # limit for a representation to be solved, decomposed, checked or written


def wrong_type(name, expected, found):
    """The TypeError for an argument of the wrong type."""
    return TypeError(f"{name} must be {expected}, found {found!r} ({type(found).__name__}).")


def require_shape(array, shape, name):
    """Raises a ValueError if an array has another shape."""
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}, found {array.shape}.")


def require_finite(array, name):
    """Raises a ValueError if an entry of a float array is infinite or NaN."""
    if not np.isfinite(array).all():
        at = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise ValueError(f"{name} is not finite: found {array[at]} at {at}.")


def require_channels(dim, name):
    """Raises a ValueError if a representation has more channels than are supported."""
    if dim > MAX_CHANNELS:
        raise ValueError(
            f"{name}: {dim} channels are more than the {MAX_CHANNELS} supported here. Solve one "
            "copy of each part: all copies have the same tensors between two irreducible parts."
        )


def require_same_group(left, right, verb):
    """Raises a ValueError if two representations have different groups."""
    if left.group != right.group:
        raise ValueError(
            f"Representations of different groups cannot be {verb}: found {left.group.name} "
            f"({left}) and {right.group.name} ({right})."
        )


def natural_number(value, name):
    """The value as an int; raises an error unless it is an integer of at least 0."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_type(name, "an integer", value)
    if value < 0:
        raise ValueError(f"{name} must not be negative, found {value}.")
    return int(value)


def positive_number(value, name):
    """The value as a float; raises an error unless it is a positive number."""
    found = _real(value, name, "a positive number")
    if not (math.isfinite(found) and found > 0):
        raise ValueError(f"{name} must be a positive number, found {value!r}.")
    return found


def tolerance_number(value, name):
    """The value as a float; raises an error unless it is a finite number of at least 0."""
    found = _real(value, name, "a number")
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(f"{name} must be finite and not negative, found {value!r}.")
    return found


def _real(value, name, kind):
    if isinstance(value, bool) or not isinstance(value, Real | sympy.Number):
        raise wrong_type(name, kind, value)
    return float(value)


def real_number(value, name):
    """The value as a finite real sympy number, exact unless it is a float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | sympy.Expr):
        raise wrong_type(name, "real", value)
    found = sympy.sympify(value)
    if not found.is_number or found.is_real is not True or not found.is_finite:
        raise ValueError(f"{name} must be a finite real number, found {value!r}.")
    return found


def plain_array(values, name):
    """Nested lists or an array as a NumPy array; raises a ValueError if lengths differ."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, found lists of unequal length.") from error


def require_keys(values, names, title="values"):
    """Raises a ValueError unless ``values`` is a dict with exactly these keys."""
    if not hasattr(values, "keys") or set(values) != set(names):
        found = sorted(values, key=str) if hasattr(values, "keys") else type(values).__name__
        raise ValueError(f"{title} must be a dict with the keys {list(names)}, found {found}.")


def is_real_entry(x):
    """Whether x is a real number or a sympy expression, but not a truth value."""
    return isinstance(x, Real | sympy.Expr) and not isinstance(x, bool | np.bool_)


def real_array(values, name):
    """A NumPy or sympy array, or nested lists, as float64 real numbers (not always finite).

    Raises:
        TypeError: if an entry is complex, a truth value or text, or holds symbols.
        ValueError: if lists have unequal lengths.

    Example:

    >>> real_array([[1, 2.5]], "x").dtype
    dtype('float64')
    """
    if isinstance(values, sympy.MatrixBase | sympy.NDimArray):
        return _as_floats(to_numpy, values, name)
    found = plain_array(values, name)
    if np.iscomplexobj(found):
        raise TypeError(f"{name} must be real, found complex numbers ({found.dtype}).")
    if found.dtype.kind not in "fiuO":
        raise TypeError(f"{name} must hold real numbers, found {found.dtype} entries.")
    for x in found.flat if found.dtype == object else ():
        if not is_real_entry(x):
            raise TypeError(f"{name} must hold real numbers, found {x!r} ({type(x).__name__}).")
    return _as_floats(lambda x: x.astype(float), found, name)


def _as_floats(convert, values, name):
    try:
        return convert(values)
    except TypeError as error:
        raise TypeError(f"{name} must hold real numbers, found symbols or complex.") from error
    except OverflowError as error:
        raise ValueError(f"{name} has an entry too large for a float.") from error

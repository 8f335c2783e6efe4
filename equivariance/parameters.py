"""Arrays of free parameters: their names, shapes, initial values, and reading them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from equivariance.arguments import (
    EXPRESSION,
    is_real_entry,
    positive_number,
    real_array,
    require_finite,
    require_keys,
    require_shape,
    wrong_type,
)
from equivariance.exact import object_array


@dataclass(frozen=True)
class Parameter:
    """An array of free parameters.

    Attributes:
        name: its key in the dict of all parameters.
        shape: shape of the array.
        scale: standard deviation of the initial values, for lengths of 1.
        length_power: power of the unit of length by which the initial values scale.
        description: the quantity that it parameterises.
        center: mean of the initial values, an array or 0.
    """

    name: str
    shape: tuple[int, ...]
    scale: float
    length_power: int
    description: str
    center: Any = 0.0

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


class Parameterization:
    """Free parameters, their initial values, and the map from them.

    Attributes:
        parameters: a tuple of ``Parameter``.
    """

    parameters: tuple[Parameter, ...] = ()

    @property
    def size(self) -> int:
        """The number of free parameters."""
        return sum(p.size for p in self.parameters)

    def initial(
        self, rng: np.random.Generator | int = 0, length: float = 1.0
    ) -> dict[str, np.ndarray]:
        """Random initial parameters.

        Their map has the order of 1. It transports and spreads each channel over about ``length``,
        and mixings keep the variance.

        Args:
            rng: ``numpy.random.Generator`` or a seed.
            length: unit of length, such as the distance of neighbouring points.

        Returns:
            A dict from names to float64 arrays.
        """
        length = positive_number(length, "length")
        try:
            rng = np.random.default_rng(rng)
        except (TypeError, ValueError) as error:
            raise TypeError(f"rng must be a seed or a numpy Generator, found {rng!r}.") from error
        return {
            p.name: (p.center + p.scale * rng.normal(size=p.shape)) * length**p.length_power
            for p in self.parameters
        }

    def symbols(self) -> dict[str, sympy.ImmutableDenseNDimArray]:
        """sympy symbols for all parameters: a dict from names to sympy arrays."""
        letters = {"zeroth_order": "c", "first_order": "b", "second_order": "s"}
        found = {}
        for p in self.parameters:
            letter = letters.get(p.name, p.name[0])
            names = [f"{letter}_{'_'.join(str(i + 1) for i in at)}" for at in np.ndindex(*p.shape)]
            symbols = [sympy.Symbol(name, real=True) for name in names]
            found[p.name] = sympy.ImmutableDenseNDimArray(symbols, p.shape)
        return found

    def _read(self, values):
        """Checks the parameters; returns float64 arrays with common leading axes."""
        require_keys(values, [p.name for p in self.parameters])
        arrays, leading = {}, None
        for p in self.parameters:
            array = real_array(values[p.name], f"The parameter {p.name}")
            end = array.ndim - len(p.shape)
            if end < 0 or array.shape[end:] != p.shape or leading not in (None, array.shape[:end]):
                raise ValueError(
                    f"The parameter {p.name} must have the shape {p.shape}, or leading axes before "
                    f"it that are the same for all parameters; found {array.shape}."
                )
            require_finite(array, f"The parameter {p.name}")
            leading = array.shape[:end]
            arrays[p.name] = array
        return arrays, leading or ()

    def _read_one(self, values, user):
        """The same, but leading axes raise an error."""
        arrays, leading = self._read(values)
        if leading:
            raise ValueError(f"{user} takes no leading axes, found {leading}.")
        return arrays

    def _read_exact(self, values):
        """The parameters as NumPy arrays of sympy numbers; the default is their symbols."""
        if values is None:
            return {name: object_array(x) for name, x in self.symbols().items()}
        require_keys(values, [p.name for p in self.parameters])
        found = {}
        for p in self.parameters:
            array = values[p.name]
            array = np.array(array.tolist() if hasattr(array, "tolist") else array, dtype=object)
            require_shape(array, p.shape, f"The parameter {p.name}")
            for at, x in np.ndenumerate(array):
                if not is_real_entry(x):
                    raise wrong_type(f"The parameter {p.name}", EXPRESSION, x)
                array[at] = sympy.sympify(x)
            found[p.name] = array
        return found

    def _title(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        shapes = ", ".join(f"{p.name} {list(p.shape)}" for p in self.parameters)
        return f"<{self._title()}: {shapes}>"


def coefficient_scale(basis):
    """The standard deviation of coefficients that gives a channel's row the squared norm 1.

    With two derivatives the norm is that of heat diffusion, S = delta / 2.
    """
    rows = basis.shape[-2] * (1, basis.shape[0], basis.shape[0] / 4)[basis.order]
    return float(np.sqrt(rows / basis.squared_norm()))


def exact_combination(coefficients, basis):
    """The map with exact coefficients [..., size], a NumPy array of sympy numbers."""
    arrays = np.empty((basis.size, *basis.shape), dtype=object)
    for n, array in enumerate(basis.arrays()):
        arrays[n] = object_array(array)
    return np.tensordot(coefficients, arrays, 1) + sympy.S.Zero

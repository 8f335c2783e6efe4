"""Arrays of free parameters: names, shapes, initial values, and how they are read."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
import sympy

from equivariance.arguments import positive_number, real_array
from equivariance.exact import flat_entries


@dataclass(frozen=True)
class Parameter:
    """An array of free parameters.

    Attributes:
        name: its key in the dict of all parameters.
        shape: of the array.
        scale: standard deviation of the initial values, for lengths of 1.
        length_power: they scale with this power of the unit of length.
        description: what it parameterises.
        center: mean of the initial values, an array or 0.
    """

    name: str
    shape: tuple
    scale: float
    length_power: int
    description: str
    center: object = 0.0

    @property
    def size(self):
        return int(np.prod(self.shape))


class Parameterization:
    """Free parameters, their initial values, and what they are mapped to.

    Attributes:
        parameters: a tuple of ``Parameter``.
    """

    parameters = ()

    @property
    def size(self):
        """The number of free parameters."""
        return sum(p.size for p in self.parameters)

    def initial(self, rng=0, length=1.0):
        """Random initial parameters.

        The map they give is of order 1: each channel is transported, and spread, over about
        ``length``, and mixings keep the variance.

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

    def symbols(self):
        """sympy symbols for all parameters: a dict from names to sympy arrays."""
        found = {}
        for p in self.parameters:
            letter = p.name[0] if p.name != "zeroth_order" else "c"
            letter = {"first_order": "b", "second_order": "s"}.get(p.name, letter)
            names = [f"{letter}_{'_'.join(str(i + 1) for i in at)}" for at in np.ndindex(*p.shape)]
            symbols = [sympy.Symbol(name, real=True) for name in names]
            found[p.name] = sympy.ImmutableDenseNDimArray(symbols, p.shape)
        return found

    def _read(self, values):
        """The parameters as float64 arrays with common leading axes, checked."""
        expected = {p.name: p.shape for p in self.parameters}
        if not hasattr(values, "keys") or set(values) != set(expected):
            found = sorted(values, key=str) if hasattr(values, "keys") else type(values).__name__
            raise ValueError(
                f"values must be a dict with the keys {list(expected)}, found {found}."
            )
        arrays, leading = {}, None
        for name, shape in expected.items():
            array = real_array(values[name], f"The parameter {name}")
            end = array.ndim - len(shape)
            if end < 0 or array.shape[end:] != shape or leading not in (None, array.shape[:end]):
                raise ValueError(
                    f"The parameter {name} must have the shape {shape}, or leading axes before it "
                    f"that are the same for all parameters; found {array.shape}."
                )
            if not np.all(np.isfinite(array)):
                raise ValueError(f"The parameter {name} is not finite.")
            leading = array.shape[:end]
            arrays[name] = array
        return arrays, leading or ()

    def _read_exact(self, values):
        symbols = self.symbols()
        if values is None:
            return {name: flat_entries(x) for name, x in symbols.items()}
        if not hasattr(values, "keys") or set(values) != set(symbols):
            found = sorted(values, key=str) if hasattr(values, "keys") else type(values).__name__
            raise ValueError(f"values must be a dict with the keys {list(symbols)}, found {found}.")
        found = {}
        for p in self.parameters:
            array = values[p.name]
            array = np.array(array.tolist() if hasattr(array, "tolist") else array, dtype=object)
            if array.shape != p.shape:
                raise ValueError(
                    f"The parameter {p.name} must have the shape {p.shape}, found {array.shape}."
                )
            for x in array.flat:
                if isinstance(x, bool | str) or not isinstance(x, Real | sympy.Expr):
                    raise TypeError(
                        f"The parameter {p.name} must hold numbers or sympy expressions, found "
                        f"{x!r} ({type(x).__name__})."
                    )
            entries = [sympy.sympify(x) for x in array.flat]
            found[p.name] = entries
        return found

    def __repr__(self):
        shapes = ", ".join(f"{p.name} {list(p.shape)}" for p in self.parameters)
        return f"<{self._title()}: {shapes}>"


def coefficient_scale(basis, order):
    """Standard deviation of coefficients for which a channel's row has the squared norm 1."""
    rows = basis.shape[-2] * (basis.shape[0] if order else 1)
    if order == 2:  # as heat diffusion, S = delta / 2
        rows = basis.shape[-2] * basis.shape[0] / 4
    return float(np.sqrt(rows / basis.squared_norm()))


def combination(coefficients, arrays, shape):
    total = [sympy.S.Zero] * int(np.prod(shape))
    for x, array in zip(coefficients, arrays, strict=True):
        for n, y in enumerate(flat_entries(array)):
            if y != 0:
                total[n] += x * y
    return sympy.ImmutableDenseNDimArray([sympy.expand(x) for x in total], shape)

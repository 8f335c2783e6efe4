"""Free parameters of channel mixings that commute with the group."""

import sympy

from equivariance.parameters import Parameter, Parameterization, coefficient_scale


class MixingParameterization(Parameterization):
    """Parameters of a channel mixing; made by ``Intertwiners.parameterization``.

    Attributes:
        mixings: the ``Intertwiners``.
        parameters: one ``Parameter``, "weights", coefficients in the basis of the mixings.

    Example:

    >>> from equivariance import SO3, solve_intertwiners
    >>> mixing = solve_intertwiners(2 * SO3.irrep(1), 4 * SO3.irrep(1)).parameterization()
    >>> mixing
    <mixings 2x1 -> 4x1: weights [8]>
    >>> mixing.matrix(mixing.initial(rng=0)).shape
    (12, 6)
    """

    def __init__(self, mixings):
        self.mixings = mixings
        basis = mixings.factored
        scale = coefficient_scale(basis, 0) if basis.size else 0.0
        description = "coefficients in the basis of the mixings"
        self.parameters = (Parameter("weights", (basis.size,), scale, 0, description),)

    def matrix(self, values):
        """The mixing W, float64 [..., dim_out, dim_in], of ``{"weights": [..., size]}``."""
        values, _ = self._read(values)
        return self.mixings.factored.assemble(values["weights"])

    def exact(self, values=None):
        """The mixing as an exact sympy matrix; by default of the ``symbols()``."""
        (weights,) = self._read_exact(values).values()
        shape = (self.mixings.rep_out.dim, self.mixings.rep_in.dim)
        total = sympy.zeros(*shape)
        for x, matrix in zip(weights, self.mixings, strict=True):
            total += x * matrix
        return sympy.ImmutableMatrix(total)

    def _title(self):
        return f"mixings {self.mixings.rep_in} -> {self.mixings.rep_out}"

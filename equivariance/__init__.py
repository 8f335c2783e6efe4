"""Symmetry constraints on coupled-PDE generators, solved exactly (sympy and NumPy only).

Which generators ``M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j`` and which channel mixings commute
with a group of rotations, reflections or other matrices that acts on space and on the channels:

>>> from equivariance import SO2, solve_generators
>>> channels = 2 * SO2.irrep(0) + SO2.irrep(1)  # two scalar fields and a vector field
>>> solve_generators(channels).dimensions
{'zeroth_order': 6, 'first_order': 8, 'second_order': 8}
"""

from equivariance.characters import count_generators, count_invariants
from equivariance.decomposition import Decomposition, decompose
from equivariance.exact import to_numpy
from equivariance.factored import FactoredBasis, PairBlock
from equivariance.generators import GeneratorSolution, solve_generators, symbol
from equivariance.groups import O2, SO2, SO3, Cyclic, Dihedral, Group, MatrixGroup
from equivariance.intertwiners import Intertwiners, solve_intertwiners
from equivariance.representations import Representation
from tfpn._version import __version__

__all__ = [
    "Cyclic",
    "Decomposition",
    "Dihedral",
    "FactoredBasis",
    "GeneratorSolution",
    "Group",
    "Intertwiners",
    "MatrixGroup",
    "O2",
    "PairBlock",
    "Representation",
    "SO2",
    "SO3",
    "__version__",
    "count_generators",
    "count_invariants",
    "decompose",
    "solve_generators",
    "solve_intertwiners",
    "symbol",
    "to_numpy",
]

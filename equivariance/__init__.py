"""Symmetry constraints on coupled-PDE generators, solved exactly (sympy and NumPy only).

The package finds the generators ``M = C + sum_i B_i d_i + sum_ij S_ij d_i d_j`` and the channel
mixings that commute with a group. The group consists of rotations, reflections or other matrices
that act on space and on the channels:

>>> from equivariance import SO2, solve_generators
>>> channels = 2 * SO2.irrep(0) + SO2.irrep(1)  # two scalar fields and a vector field
>>> solve_generators(channels).dimensions
{'zeroth_order': 6, 'first_order': 8, 'second_order': 8}
"""

from equivariance._version import __version__
from equivariance.characters import count_generators, count_invariants
from equivariance.decomposition import Decomposition
from equivariance.documents import to_document
from equivariance.exact import to_numpy
from equivariance.factored import FactoredBasis, PairBlock
from equivariance.generator_tensors import Generator, symbol
from equivariance.generators import GeneratorSolution, solve_generators
from equivariance.groups import O2, O3, SO2, SO3, Cyclic, Dihedral, Group, MatrixGroup
from equivariance.inputs import decompose
from equivariance.intertwiners import Intertwiners, MixingParameterization, solve_intertwiners
from equivariance.keras_source import keras_source
from equivariance.notation import NotationError, parse_group, parse_representation
from equivariance.orbits import DiffusionOrbits, diffusion_orbits
from equivariance.parameterization import GeneratorParameterization
from equivariance.parameters import Parameter
from equivariance.proofs import (
    Claim,
    Proof,
    Step,
    prove_generator_constraints,
    prove_scalar_diffusions_trivial,
)
from equivariance.representations import Representation
from equivariance.stability import Amplification, amplifies
from equivariance.verification import Verification, Violation, verify
from equivariance.writing import latex_basis, latex_system, text_system

__all__ = [
    "Amplification",
    "Claim",
    "Cyclic",
    "Decomposition",
    "DiffusionOrbits",
    "Dihedral",
    "FactoredBasis",
    "Generator",
    "GeneratorParameterization",
    "GeneratorSolution",
    "Group",
    "Intertwiners",
    "MatrixGroup",
    "MixingParameterization",
    "NotationError",
    "O2",
    "O3",
    "PairBlock",
    "Parameter",
    "Proof",
    "Representation",
    "SO2",
    "SO3",
    "Step",
    "Verification",
    "Violation",
    "__version__",
    "amplifies",
    "count_generators",
    "count_invariants",
    "decompose",
    "diffusion_orbits",
    "keras_source",
    "latex_basis",
    "latex_system",
    "parse_group",
    "parse_representation",
    "prove_generator_constraints",
    "prove_scalar_diffusions_trivial",
    "solve_generators",
    "solve_intertwiners",
    "symbol",
    "text_system",
    "to_document",
    "to_numpy",
    "verify",
]

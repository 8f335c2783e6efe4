"""Groups and small representations of each, for the tests of this folder."""

import sympy
from tolerance import rounding

from equivariance import O2, SO2, SO3, Cyclic, Dihedral, MatrixGroup
from equivariance.verification import SMALL_BLOCK

QUARTER_TURN = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
DIAGONAL_TURN = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]

CUBE = MatrixGroup("cube", 3, [], [QUARTER_TURN, DIAGONAL_TURN])
O3 = MatrixGroup("O3", 3, SO3.lie_generators, [-sympy.eye(3)])
# Rotations by 2 pi / 3: a generator with a square root.
TRIANGLE = MatrixGroup(
    "triangle", 2, [], [sympy.Matrix([[-1, -sympy.sqrt(3)], [sympy.sqrt(3), -1]]) / 2]
)
# Boosts and a reflection: matrices that are not orthogonal, a group without bound.
LORENTZ = MatrixGroup("Lorentz", 2, [[[0, 1], [1, 0]]], [[[1, 0], [0, -1]]])
SHEAR = MatrixGroup("shear", 2, [[[0, 1], [0, 0]]])

ROTATIONS = [SO2, O2, SO3]
FINITE = [Cyclic(n) for n in (1, 2, 3, 4, 5, 6, 8)] + [Dihedral(n) for n in (1, 2, 3, 4, 5, 6)]
BUILT_IN = ROTATIONS + FINITE
ORTHOGONAL = BUILT_IN + [CUBE, O3, TRIANGLE]
ALL = ORTHOGONAL + [LORENTZ, SHEAR]


def irreps(group, largest=3):
    """The irreducible representations of a built-in group, up to a frequency or spin."""
    order = getattr(group, "order", None)
    if order is not None:
        largest = min(largest, order // 2)
    found = []
    for k in range(largest + 1):
        found.append(group.irrep(k))
        if getattr(group, "reflections", False) and found[-1].dim == 1:
            found.append(group.irrep(k, parity=-1))
    return found


def atoms(group):
    """Representations to build others from."""
    found = [group.tensor(0, 0), group.tensor(1, 0), group.tensor(0, 1), group.tensor(1, 1)]
    return found if group not in BUILT_IN else found + irreps(group)


def residual_limit(rep, factors=1):
    """What `verify` may find of a generator whose entries are rounded.

    An entry of S is a sum of ``factors`` times ``rep.dim`` products of two, which are sums over a
    basis themselves; an equation adds up derivatives, and the channels of both sides. Blocks that
    should be 0 are judged by SMALL_BLOCK times the largest entry, and their rounding is its.
    """
    sums = (factors + 2) * rep.dim + 2 * (rep.group.dim + rep.dim)
    return rounding(sums, condition=1.0 / SMALL_BLOCK)


def is_zero(matrix):
    """Whether an exact matrix is zero; ``simplify`` is slow, and seldom needed."""
    return all(x == 0 or sympy.expand(x) == 0 or sympy.simplify(x) == 0 for x in matrix)


def name(value):
    return str(value)

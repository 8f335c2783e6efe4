"""The groups of the plane and of space, and user-defined groups."""

from equivariance.groups.base import Group
from equivariance.groups.finite_plane import Cyclic, Dihedral
from equivariance.groups.full_space import O3
from equivariance.groups.matrix_group import MatrixGroup
from equivariance.groups.plane import O2, SO2
from equivariance.groups.space import SO3

__all__ = ["Cyclic", "Dihedral", "Group", "MatrixGroup", "O2", "O3", "SO2", "SO3"]

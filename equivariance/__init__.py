"""Symmetry constraints on coupled-PDE generators, solved exactly (sympy and NumPy only).

The solver is not part of this release; the package holds its place in the distribution.
"""

from tfpn._version import __version__

__all__ = ["__version__"]

"""Derivations that sympy checks.

A ``Proof`` is a list of ``Step`` objects. Each step makes a statement in words and backs it by
``Claim`` objects: pairs of expressions that were computed separately. sympy decides on demand
whether they agree.
"""

from equivariance.proofs.claims import Claim, Proof, Step, latex_words, plain_words
from equivariance.proofs.diffusions import prove_scalar_diffusions_trivial
from equivariance.proofs.generators import prove_generator_constraints

__all__ = [
    "Claim",
    "Proof",
    "Step",
    "latex_words",
    "plain_words",
    "prove_generator_constraints",
    "prove_scalar_diffusions_trivial",
]

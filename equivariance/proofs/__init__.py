"""Derivations that are checked by sympy as they are made.

A ``Proof`` is a list of ``Step`` objects. Each makes its statement in words and backs it by
``Claim`` objects, pairs of expressions that were computed separately. Whether they agree is decided
by sympy when it is asked for.
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

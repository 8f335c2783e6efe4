import functools
import re

import pytest
import sympy

import equivariance.proofs.symbols
from equivariance import (
    O2,
    SO2,
    SO3,
    Claim,
    Cyclic,
    Proof,
    Step,
    prove_generator_constraints,
    prove_scalar_diffusions_trivial,
)

PROOFS = {
    "plane": lambda: prove_scalar_diffusions_trivial(),
    "plane with reflections": lambda: prove_scalar_diffusions_trivial(O2),
    "space": lambda: prove_scalar_diffusions_trivial(SO3),
    "generators of the plane": lambda: prove_generator_constraints(2),
    "generators of space": lambda: prove_generator_constraints(3),
}


@functools.cache
def proof_of(name):
    return PROOFS[name]()


@pytest.mark.parametrize("name", PROOFS)
def test_every_claim_holds(name):
    proof = proof_of(name)
    assert isinstance(proof, Proof) and proof.verified
    for step in proof.steps:
        assert isinstance(step, Step) and step.verified and step.claims, step.title
        assert step.statement.endswith((".", ")"))
        assert len(step.equations) == len(step.claims)
        assert all(isinstance(x, sympy.core.relational.Relational) for x in step.equations)
    assert "All steps checked." in str(proof) and "NOT" not in str(proof).replace("NOT_", "")


@pytest.mark.parametrize("name", PROOFS)
def test_latex(name):
    text = proof_of(name).latex()
    assert text.count("{") == text.count("}")
    for environment in ("enumerate", "gather*"):
        begins = text.count(rf"\begin{{{environment}}}")
        assert begins == text.count(rf"\end{{{environment}}}") > 0
    for n, part in enumerate(text.split("gather*}")):
        if n % 2 == 0:  # words: sub- and superscripts are between dollar signs
            assert part.count("$") % 2 == 0
            assert not set("_^") & set("".join(part.split("$")[::2]))


def test_claims_are_decided_by_sympy():
    x = sympy.Symbol("x")
    assert Claim("a", (x + 1) ** 2, x**2 + 2 * x + 1).holds
    assert not Claim("a", (x + 1) ** 2, x**2 + 1).holds
    assert not Claim("a", x, x, equal=False).holds
    assert Claim("a", sympy.eye(2), sympy.zeros(2, 2), equal=False).holds
    assert not Claim("a", sympy.eye(2), sympy.eye(3)).holds
    assert not Claim("a", sympy.FiniteSet(1), sympy.FiniteSet(2)).holds
    assert not Step("empty", "Nothing.", ()).verified
    false = Step("false", "Wrong.", (Claim("one", sympy.Integer(1), sympy.Integer(2)),))
    proof = Proof("title", "theorem", (false,))
    assert not proof.verified and "NOT TRUE" in str(proof) and "NOT confirmed" in str(proof)


@pytest.mark.parametrize(
    ("broken", "steps"),
    [
        # The paper's printed factor for S, and a drift that rotates the wrong way.
        (lambda s, j: s.exponent(s.xi) * 0, ["Infinitesimal rotations", "Separation"]),
        (
            lambda s, j: -sympy.I * (j * s.beta).dot(s.xi),
            ["Infinitesimal rotations", "Separation"],
        ),
    ],
)
def test_a_wrong_formula_is_noticed(monkeypatch, broken, steps):
    monkeypatch.setattr(equivariance.proofs.symbols.Space, "change", broken)
    proof = prove_scalar_diffusions_trivial()
    assert not proof.verified
    assert [x.title for x in proof.steps if not x.verified] == steps


def test_the_conclusions_are_those_of_the_theorem():
    proof = proof_of("space")
    by_title = {step.title: step for step in proof.steps}
    (drift,) = by_title["No drift"].claims
    assert drift.left == sympy.FiniteSet((0, 0, 0))
    diffusion = by_title["Isotropic diffusion"].claims[0].left
    assert diffusion.is_diagonal() and len(set(diffusion.diagonal())) == 1


@pytest.mark.parametrize("name", PROOFS)
def test_what_was_computed_in_some_cases_says_so(name):
    """Powers, polynomials and channels that stand for any: in the claim, the text and the LaTeX."""
    proof = proof_of(name)
    general = re.compile(r"rho_\{out\}|of order|r m\^|exp\(t M\)")
    claims = [claim for step in proof.steps for claim in step.claims]
    partial = tuple(claim for claim in claims if general.search(claim.label))
    assert partial and proof.partial == partial
    for claim in proof.partial:
        assert re.search("[0-9]", claim.cases)
        assert f"checked, {claim.cases} only]" in str(proof)
        assert rf"\text{{({claim.cases} only)}}" in proof.latex()
    assert f"{len(partial)} claims were computed in the named cases only." in str(proof)


def test_bad_arguments():
    with pytest.raises(ValueError, match="continuous rotations.*C4.*diffusion_orbits"):
        prove_scalar_diffusions_trivial(Cyclic(4))
    with pytest.raises(ValueError, match="found 2"):
        prove_scalar_diffusions_trivial(2)
    with pytest.raises(ValueError, match="dim must be 2 or 3, found 4"):
        prove_generator_constraints(4)
    assert prove_scalar_diffusions_trivial(SO2).title.endswith("SO2")

"""Derivations that are checked by sympy as they are made.

A ``Proof`` is a list of ``Step`` objects. Each makes its statement in words and backs it by
``Claim`` objects, pairs of expressions that were computed separately. Whether they agree is decided
by sympy when it is asked for.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy
from sympy import I, exp

from equivariance.exact import simplified
from equivariance.groups import O2, SO2, SO3


@dataclass(frozen=True)
class Claim:
    """Something that sympy can check.

    Attributes:
        label: what the left side is, in words with LaTeX between dollar signs.
        left: what it came out as: an expression, a matrix or a sympy set.
        right: what it is said to be.
        equal: whether the two are said to be equal, or to differ.

    Example:

    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> Claim("sin^2 + cos^2", sympy.sin(x) ** 2 + sympy.cos(x) ** 2, sympy.Integer(1)).holds
    True
    """

    label: str
    left: Any
    right: Any
    equal: bool = True

    @cached_property
    def holds(self):
        """Whether it is true, decided by sympy."""
        return self._agree() == self.equal

    def _agree(self):
        if isinstance(self.left, sympy.Set):
            return self.left == self.right
        if isinstance(self.left, sympy.MatrixBase):
            if self.left.shape != self.right.shape:
                return False
            return all(_is_zero(x) for x in self.left - self.right)
        return _is_zero(sympy.sympify(self.left) - sympy.sympify(self.right))

    def latex(self):
        """The claim as LaTeX, without dollar signs."""
        sign = "=" if self.equal else r"\neq"
        right = sympy.latex(self.right)
        return rf"\text{{{latex_words(self.label)}}} {sign} {right}"

    def __str__(self):
        mark = "checked" if self.holds else "NOT TRUE"
        sign = "=" if self.equal else "!="
        return f"{plain_words(self.label)} {sign} {_plain(self.right)}  [{mark}]"


@dataclass(frozen=True)
class Step:
    """One step of a derivation.

    Attributes:
        title: in a few words.
        statement: what is concluded, and why; words with LaTeX between dollar signs.
        claims: the ``Claim`` objects that back it, at least one.
    """

    title: str
    statement: str
    claims: tuple

    @cached_property
    def verified(self):
        """Whether there are claims and sympy confirms all of them."""
        return bool(self.claims) and all(claim.holds for claim in self.claims)

    @property
    def equations(self):
        """The claims as sympy relations, unevaluated (matrices and sets included)."""
        relation = {True: sympy.Eq, False: sympy.Ne}
        return tuple(relation[x.equal](x.left, x.right, evaluate=False) for x in self.claims)


@dataclass(frozen=True)
class Proof:
    """A derivation.

    Attributes:
        title: what it is about.
        theorem: what is proved; words with LaTeX between dollar signs.
        steps: a tuple of ``Step``.
    """

    title: str
    theorem: str
    steps: tuple

    @property
    def verified(self):
        """Whether sympy confirms every step."""
        return all(step.verified for step in self.steps)

    def latex(self):
        """The derivation as LaTeX (amsmath), for the body of a document."""
        lines = [rf"\paragraph{{{self.title}.}} {latex_words(self.theorem)}"]
        lines.append(r"\begin{enumerate}")
        for step in self.steps:
            lines.append(rf"\item \textbf{{{step.title}.}} {latex_words(step.statement)}")
            lines.append(r"\begin{gather*}")
            lines.append(" \\\\\n".join(f"  {claim.latex()}" for claim in step.claims))
            lines.append(r"\end{gather*}")
        return "\n".join([*lines, r"\end{enumerate}"])

    def __str__(self):
        lines = [self.title, "", plain_words(self.theorem)]
        for n, step in enumerate(self.steps, 1):
            lines += ["", f"{n}. {step.title}. {plain_words(step.statement)}"]
            lines += [f"   {claim}" for claim in step.claims]
        verdict = "All steps checked." if self.verified else "Some steps are NOT confirmed."
        return "\n".join([*lines, "", verdict])


def prove_scalar_diffusions_trivial(group=SO2):
    """That scalar diffusions sum_k W_k exp(D_k) are trivial under continuous rotations.

    The theorem of the paper's appendix on equivariance: whatever the representations of input and
    output, the drifts are 0 and the diffusions multiples of the identity. It is derived here from
    the symbols exp(i beta . xi - xi^T Sigma xi / 2) instead of the densities, which covers
    diffusions without an inverse as well, and does not need the two places where the paper slips:
    the sign of its third term, and J^T Sigma^-1 = 0, of which only the symmetric part vanishes.

    Args:
        group: ``SO2``, ``O2`` (which contains the rotations) or ``SO3``.

    Returns:
        A ``Proof``; ``print`` it, or take its ``latex()``.

    Raises:
        ValueError: for other groups. For finite ones there are other solutions, see
            ``diffusion_orbits``.

    Example:

    >>> proof = prove_scalar_diffusions_trivial()
    >>> proof.verified, len(proof.steps)
    (True, 9)
    >>> print(proof.steps[6].claims[0])
    the solutions beta of J beta = 0 for all J = {(0, 0)}  [checked]
    """
    if group not in (SO2, O2, SO3):
        raise ValueError(
            f"The theorem is about continuous rotations: group must be SO2, O2 or SO3, found "
            f"{group!r}. For finite groups there are other solutions, see diffusion_orbits."
        )
    space = _Space(group.dim)
    steps = (
        _plane_waves(space),
        _moved(space),
        _derivative(space, group),
        _product_rule(space),
        _independence(),
        _separation(space, group),
        _no_drift(space, group),
        _isotropic(space, group),
        _converse(space, group),
    )
    return Proof(
        f"Scalar diffusions under {group.name}",
        r"If a finite sum $A = \sum_k W_k \exp(D_k)$, $D_k = \beta_k \cdot \nabla + \nabla^T "
        r"\Sigma_k \nabla / 2$, with distinct pairs $(\beta_k, \Sigma_k)$ and no $W_k = 0$, "
        r"commutes with all rotations acting on space and by $\rho_{in}$ and $\rho_{out}$ on the"
        r" channels, then $\beta_k = 0$, $\Sigma_k = c_k 1$ and $d\rho_{out}(J) W_k = W_k "
        r"d\rho_{in}(J)$ for all $k$. The converse holds.",
        steps,
    )


def prove_generator_constraints(dim=2):
    """The constraints on kernels, and on C, B and S, from that on operators.

    An operator A is equivariant if rho_out(g) L_g A L_g^-1 rho_in(g)^-1 = A with (L_g f)(x) =
    f(g^-1 x) (the paper's eq. op_constraint). Specialised to convolutions this is rho_out(g)
    K(g^-1 x) rho_in(g)^-1 = K(x); to M = C + sum B_i d_i + sum S_ij d_i d_j the three equations
    that ``solve_generators`` solves; and it carries over to exp(M).

    Args:
        dim: dimension of space, 2 or 3.

    Returns:
        A ``Proof``.

    Raises:
        ValueError: if dim is neither.

    Example:

    >>> prove_generator_constraints().verified
    True
    """
    if dim not in (2, 3):
        raise ValueError(f"dim must be 2 or 3, found {dim!r}.")
    space = _Space(dim)
    steps = (
        _convolutions(space),
        _moved_generator(space),
        _coefficients(space),
        _symmetry(space),
        _infinitesimal(space),
        _exponential(space),
    )
    return Proof(
        f"Equivariant convolutions and generators in {dim} dimensions",
        r"$A$ commutes with the group if and only if $\rho_{out}(g) L_g A L_g^{-1} "
        r"\rho_{in}(g)^{-1} = A$, where $(L_g f)(x) = f(g^{-1} x)$. For a convolution: "
        r"$\rho_{out}(g) K(g^{-1} x) \rho_{in}(g)^{-1} = K(x)$. For $M = C + \sum_i B_i "
        r"\partial_i + \sum_{ij} S_{ij} \partial_i \partial_j$ with $S_{ij} = S_{ji}$: "
        r"$\rho_{out} C \rho_{in}^{-1} = C$, $\sum_j g_{ij} \rho_{out} B_j \rho_{in}^{-1} = "
        r"B_i$, $\sum_{kl} g_{ik} g_{jl} \rho_{out} S_{kl} \rho_{in}^{-1} = S_{ij}$.",
        steps,
    )


class _Space:
    """Symbols for d dimensions."""

    def __init__(self, dim):
        self.dim = dim
        names = range(1, dim + 1)

        def vector(letter):
            return sympy.Matrix([sympy.Symbol(f"{letter}_{i}", real=True) for i in names])

        def matrix(letter):
            return sympy.Matrix(
                dim, dim, lambda i, j: sympy.Symbol(f"{letter}_{i + 1}{j + 1}", real=True)
            )

        self.x, self.xi, self.beta = vector("x"), vector("xi"), vector("beta")
        self.g = matrix("g")
        full = matrix("Sigma")
        self.sigma = sympy.Matrix(dim, dim, lambda i, j: full[min(i, j), max(i, j)])
        self.theta = sympy.Symbol("theta", real=True)

    def exponent(self, xi, beta=None, sigma=None):
        """q(xi) = i beta . xi - xi^T Sigma xi / 2."""
        beta = self.beta if beta is None else beta
        sigma = self.sigma if sigma is None else sigma
        return I * beta.dot(xi) - (xi.T * sigma * xi)[0] / 2

    def rotation(self, j):
        """exp(theta J) by Rodrigues' formula; the generators here have J^3 = -J."""
        return sympy.eye(self.dim) + sympy.sin(self.theta) * j + (1 - sympy.cos(self.theta)) * j * j

    def diffuse(self, f):
        """D f."""
        first = sum(b * sympy.diff(f, x) for b, x in zip(self.beta, self.x, strict=True))
        second = sum(
            self.sigma[i, j] * sympy.diff(f, self.x[i], self.x[j])
            for i in range(self.dim)
            for j in range(self.dim)
        )
        return first + second / 2

    def change(self, j):
        """p(xi), the derivative of q(g^T xi) along J: i (J beta) . xi - xi^T (J S - S J) xi / 2."""
        commutator = j * self.sigma - self.sigma * j
        return I * (j * self.beta).dot(self.xi) - (self.xi.T * commutator * self.xi)[0] / 2


def _plane_waves(s):
    wave = exp(I * s.xi.dot(s.x))
    t = sympy.Symbol("t", positive=True)
    q = s.exponent(s.xi)
    flow = exp(t * q) * wave
    return Step(
        "Plane waves",
        r"$D$ multiplies $e^{i \xi \cdot x}$ by $q(\xi) = i \beta \cdot \xi - \xi^T \Sigma \xi /"
        r" 2$, so its flow at time 1, $\exp(D)$, multiplies it by $e^{q(\xi)}$, and $A$ by "
        r"$\sum_k W_k e^{q_k(\xi)}$. $\Sigma$ need not have an inverse.",
        (
            Claim(
                r"$e^{-i \xi \cdot x} D e^{i \xi \cdot x}$", sympy.expand(s.diffuse(wave) / wave), q
            ),
            Claim(
                r"$(d/dt - D) e^{t q} e^{i \xi \cdot x}$",
                sympy.expand((sympy.diff(flow, t) - s.diffuse(flow)) / flow),
                sympy.S.Zero,
            ),
        ),
    )


def _moved(s):
    moved = s.exponent(s.g.T * s.xi)
    return Step(
        "Moving by g",
        r"$L_g^{-1}$ turns $e^{i \xi \cdot x}$ into the wave with frequency $g^T \xi$, so $L_g "
        r"\exp(D) L_g^{-1}$ has the symbol $e^{q(g^T \xi)}$: it is the flow with drift $g \beta$"
        r" and diffusion $g \Sigma g^T$. $A$ is equivariant if and only if, for all $g$ and "
        r"$\xi$, $\sum_k \rho_{out}(g) W_k \rho_{in}(g)^{-1} e^{q_k(g^T \xi)} = \sum_k W_k "
        r"e^{q_k(\xi)}$.",
        (
            Claim(r"$\xi \cdot (g x)$", s.xi.dot(s.g * s.x), (s.g.T * s.xi).dot(s.x)),
            Claim(r"$q(g^T \xi)$", moved, s.exponent(s.xi, s.g * s.beta, s.g * s.sigma * s.g.T)),
        ),
    )


def _derivative(s, group):
    claims = []
    for n, j in enumerate(group.lie_generators, 1):
        j = sympy.Matrix(j)
        g = s.rotation(j)
        name = "J" if len(group.lie_generators) == 1 else f"J_{n}"
        claims.append(Claim(rf"$dg / d\theta$ for ${name}$", sympy.diff(g, s.theta), j * g))
        slope = sympy.diff(s.exponent(g.T * s.xi), s.theta).subs(s.theta, 0)
        claims.append(Claim(rf"$dq(g^T \xi) / d\theta$ at 0 for ${name}$", slope, s.change(j)))
    return Step(
        "Infinitesimal rotations",
        r"With $g = \exp(\theta J)$, $q(g^T \xi)$ changes at the rate $p(\xi) = i (J \beta) "
        r"\cdot \xi - \xi^T (J \Sigma - \Sigma J) \xi / 2$ at $\theta = 0$.",
        tuple(claims),
    )


def _product_rule(s):
    a, b, w = (
        sympy.Matrix(2, 2, lambda i, j, n=n: sympy.Symbol(f"{n}_{i + 1}{j + 1}")) for n in "abw"
    )
    q, p = sympy.symbols("q p")
    one = sympy.eye(2)
    moved = (one + s.theta * a) * w * (one - s.theta * b) * exp(q + s.theta * p)
    return Step(
        "One equation for each J",
        r"Differentiating at $\theta = 0$, with $a = d\rho_{out}(J)$ and $b = d\rho_{in}(J)$: "
        r"for all $\xi$, $\sum_k (a W_k - W_k b + p_k(\xi) W_k) e^{q_k(\xi)} = 0$.",
        (
            Claim(
                r"$d(\rho_{out} W \rho_{in}^{-1} e^q) / d\theta$ at 0",
                sympy.diff(moved, s.theta).subs(s.theta, 0),
                (a * w - w * b + p * w) * exp(q),
            ),
        ),
    )


def _independence():
    t, a, b, c, m, u = sympy.symbols("t a b c m u", positive=True)
    claims = [
        Claim(
            f"the derivative of order {n + 1} of $t^{n}$",
            sympy.diff(t**n, (t, n + 1)),
            sympy.S.Zero,
        )
        for n in range(4)
    ]
    for r in (b * t, b * t**2 + c * t):
        degree = sympy.degree(r, t)
        derivative = sympy.diff(a * t**m * exp(r), t) * exp(-r)
        leading = a * degree * b * t ** (m + degree - 1)
        ratio = sympy.expand(sympy.powsimp(sympy.expand(derivative / leading)))
        claims.append(
            Claim(
                f"$d(a t^m e^r)/dt$ over ${degree} a b t^{{m + {degree - 1}}} e^r$ for large $t$, "
                f"$r = {sympy.latex(r)}$",
                sympy.expand(ratio.subs(t, 1 / u)).subs(u, 0),
                sympy.Integer(1),
            )
        )
    return Step(
        "Independence",
        r"If $q_1, ..., q_n$ are distinct polynomials of degree at most 2 without constant terms"
        r" and $\sum_k P_k e^{q_k} = 0$ with polynomials $P_k$, then all $P_k = 0$. By induction"
        r" on $n$: on a line $\xi = t v$ on which no two $q_k$ are the same (almost any $v$), "
        r"divide by $e^{q_n}$ and differentiate $\deg P_n + 1$ times. That removes $P_n$, and "
        r"turns every other $P e^r$, $r = q_k - q_n$, into $(P' + r' P) e^r$, whose polynomial "
        r"is not 0 if $P$ is not: its leading coefficient is that of $P$ times that of $r'$. "
        r"Here the $q_k$ are distinct, because the pairs $(\beta_k, \Sigma_k)$ are.",
        tuple(claims),
    )


def _separation(s, group):
    claims = []
    for n, j in enumerate(group.lie_generators, 1):
        j = sympy.Matrix(j)
        p = sympy.Poly(sympy.expand(s.change(j)), *s.xi)
        name = "p" if len(group.lie_generators) == 1 else f"p_{n}"
        zero = (0,) * s.dim
        claims.append(Claim(rf"${name}$ at $\xi = 0$", p.coeff_monomial(zero), sympy.S.Zero))
        first = sympy.Matrix([p.coeff_monomial(x) for x in s.xi])
        claims.append(Claim(f"first-order coefficients of ${name}$", first, I * (j * s.beta)))
        hessian = sympy.hessian(p.as_expr(), list(s.xi))
        claims.append(Claim(f"Hessian of ${name}$", hessian, -(j * s.sigma - s.sigma * j)))
    return Step(
        "Separation",
        r"So $a W_k - W_k b + p_k(\xi) W_k = 0$ for each $k$ and all $\xi$. $p_k$ has no "
        r"constant term: $a W_k = W_k b$. Some entry of $W_k$ is not 0, hence $p_k(\xi) = 0$ for"
        r" all $\xi$: $J \beta_k = 0$ and $J \Sigma_k - \Sigma_k J = 0$.",
        tuple(claims),
    )


def _no_drift(s, group):
    equations = [x for j in group.lie_generators for x in sympy.Matrix(j) * s.beta]
    found = sympy.linsolve(equations, *s.beta)
    return Step(
        "No drift",
        r"$J \beta = 0$ for every generator $J$ leaves $\beta = 0$.",
        (
            Claim(
                r"the solutions $\beta$ of $J \beta = 0$ for all $J$",
                found,
                sympy.FiniteSet(sympy.Tuple(*[0] * s.dim)),
            ),
        ),
    )


def _isotropic(s, group):
    unknowns = [s.sigma[i, j] for i in range(s.dim) for j in range(i, s.dim)]
    generators = [sympy.Matrix(j) for j in group.lie_generators]
    equations = [x for j in generators for x in j * s.sigma - s.sigma * j if x != 0]
    (solution,) = sympy.linsolve(equations, *unknowns)
    found = s.sigma.subs(dict(zip(unknowns, solution, strict=True)), simultaneous=True)
    c = s.sigma[s.dim - 1, s.dim - 1]
    positive = sympy.Symbol("c", positive=True)
    claims = [
        Claim(
            r"the solution $\Sigma$ of $J \Sigma = \Sigma J$ for all $J$",
            found,
            c * sympy.eye(s.dim),
        )
    ]
    j = generators[0]
    precision = sympy.eye(s.dim) / positive
    claims.append(
        Claim(
            r"$x^T J^T \Sigma^{-1} x$ for $\Sigma = c 1$",
            (s.x.T * j.T * precision * s.x)[0],
            sympy.S.Zero,
        )
    )
    claims.append(
        Claim(
            r"$J^T \Sigma^{-1}$ for $\Sigma = c 1$",
            j.T * precision,
            sympy.zeros(s.dim, s.dim),
            False,
        )
    )
    g = s.rotation(j)
    density = -((g.T * s.x + s.beta).T * s.sigma * (g.T * s.x + s.beta))[0] / 2
    slope = sympy.diff(density, s.theta).subs(s.theta, 0)
    claims.append(
        Claim(
            r"$d \log N(g^{-1} x; -\beta, \Sigma^{-1}) / d\theta$ at 0 minus "
            r"$x^T J^T \Sigma (x + \beta)$",
            slope - (s.x.T * j.T * s.sigma * (s.x + s.beta))[0],
            sympy.S.Zero,
        )
    )
    return Step(
        "Isotropic diffusion",
        r"$J \Sigma = \Sigma J$ for every $J$ leaves the multiples of the identity. (In terms of"
        r" densities: $x^T J^T \Sigma^{-1} x = 0$ for all $x$ says that the symmetric part of "
        r"$J^T \Sigma^{-1}$ vanishes, not $J^T \Sigma^{-1}$ itself; and the term with it enters "
        r"with a plus sign.)",
        tuple(claims),
    )


def _converse(s, group):
    c = sympy.Symbol("c", positive=True)
    zero, isotropic = sympy.zeros(s.dim, 1), c * sympy.eye(s.dim)
    claims = []
    for n, j in enumerate(group.lie_generators, 1):
        g = s.rotation(sympy.Matrix(j))
        moved = s.exponent(g.T * s.xi, zero, isotropic)
        label = rf"$q(g^T \xi)$ for $\beta = 0$, $\Sigma = c 1$, $g = \exp(\theta J_{n})$"
        claims.append(Claim(label, sympy.simplify(moved), s.exponent(s.xi, zero, isotropic)))
    turn = s.rotation(sympy.Matrix(group.lie_generators[0])).subs(s.theta, sympy.pi / 2)
    orbit, moved = sympy.S.Zero, sympy.S.Zero
    for n in range(4):
        power = turn**n
        drift, diffusion = power * s.beta, power * s.sigma * power.T
        orbit += exp(sympy.expand(s.exponent(s.xi, drift, diffusion)))
        moved += exp(sympy.expand(s.exponent(turn.T * s.xi, drift, diffusion)))
    claims.append(
        Claim("a quarter turn of the sum of an orbit, minus it", moved - orbit, sympy.S.Zero)
    )
    return Step(
        "Converse, and why the rotations must be continuous",
        r"With $\beta_k = 0$ and $\Sigma_k = c_k 1$ each $e^{q_k(\xi)}$ is unchanged by "
        r"rotations, so $A$ commutes with them if every $W_k$ does. For finite groups there is "
        r"more: the four quarter turns of any drift and diffusion add up to an operator that "
        r"commutes with quarter turns.",
        tuple(claims),
    )


def _convolutions(s):
    y, gamma = (
        sympy.Matrix([sympy.Symbol(f"{n}_{i + 1}", real=True) for i in range(s.dim)])
        for n in ("y", "gamma")
    )
    h = s.g  # stands for g^-1, any matrix
    left = h * s.x + h * gamma
    right = s.x + gamma
    rotation = s.rotation(sympy.Matrix((SO2 if s.dim == 2 else SO3).lie_generators[0]))
    return Step(
        "Convolutions",
        r"$(L_g (K *) L_g^{-1} f)(x) = \int K(g^{-1} x - y) f(g y) dy$. With $y = g^{-1} z$ this"
        r" is $\int K(g^{-1} (x - z)) f(z) dz / |\det g|$, and $|\det g| = 1$: conjugation moves"
        r" the kernel's argument. So the constraint is $\rho_{out}(g) K(g^{-1} x) "
        r"\rho_{in}(g)^{-1} = K(x)$. The density of a drift-diffusion is moved to that with "
        r"drift $g \beta$ and diffusion $g \Sigma g^T$.",
        (
            Claim(r"$g^{-1} x - g^{-1} z$", h * s.x - h * y, h * (s.x - y)),
            Claim(r"$\det g$ of a rotation", sympy.simplify(rotation.det()), sympy.Integer(1)),
            Claim(
                r"$(g^{-1} x + \beta)^T \Sigma (g^{-1} x + \beta)$ with $\beta = g^{-1} \gamma$",
                (left.T * s.sigma * left)[0],
                (right.T * h.T * s.sigma * h * right)[0],
            ),
        ),
    )


def _moved_generator(s):
    c = sympy.Symbol("C")
    b = [sympy.Symbol(f"B_{i + 1}") for i in range(s.dim)]
    second = _symmetric_symbols(s.dim)
    f = exp(I * s.xi.dot(s.g * s.x))
    applied = c * f + sum(b[i] * sympy.diff(f, s.x[i]) for i in range(s.dim))
    applied += sum(
        second[i, j] * sympy.diff(f, s.x[i], s.x[j]) for i in range(s.dim) for j in range(s.dim)
    )
    moved = s.g.T * s.xi
    symbol = (
        c + I * sum(x * y for x, y in zip(b, moved, strict=True)) - (moved.T * second * moved)[0]
    )
    return Step(
        "Generators",
        r"$L_g^{-1} e^{i \xi \cdot x} = e^{i \xi \cdot g x}$, and $M$ multiplies that by $M(i "
        r"g^T \xi)$, where $M(i \xi) = C + i \sum_i \xi_i B_i - \sum_{ij} \xi_i \xi_j S_{ij}$. "
        r"So the constraint is $\rho_{out}(g) M(i g^T \xi) \rho_{in}(g)^{-1} = M(i \xi)$ for all"
        r" $\xi$.",
        (
            Claim(
                r"$e^{-i \xi \cdot g x} M e^{i \xi \cdot g x}$", sympy.expand(applied / f), symbol
            ),
        ),
    )


def _symmetric_symbols(dim):
    return sympy.Matrix(dim, dim, lambda i, j: sympy.Symbol(f"S_{min(i, j) + 1}{max(i, j) + 1}"))


def _channel_matrices(s):
    """rho_out, rho_in^-1, B_i and S_ij as matrices of symbols, 1 output and 2 input channels."""

    def matrix(name, rows, columns):
        return sympy.Matrix(
            rows, columns, lambda i, j: sympy.Symbol(f"{name}_{i + 1}{j + 1}", real=True)
        )

    out, inverse = matrix("r", 1, 1), matrix("t", 2, 2)
    b = [matrix(f"B{i + 1}", 1, 2) for i in range(s.dim)]
    second = {
        (i, j): matrix(f"S{min(i, j) + 1}{max(i, j) + 1}", 1, 2)
        for i in range(s.dim)
        for j in range(s.dim)
    }
    return out, inverse, b, second


def _coefficients(s):
    out, inverse, b, second = _channel_matrices(s)
    r = range(s.dim)
    moved = s.g.T * s.xi
    first = out * sum((moved[i] * b[i] for i in r), sympy.zeros(1, 2)) * inverse
    form = sum((moved[i] * moved[j] * second[i, j] for i in r for j in r), sympy.zeros(1, 2))
    form = out * form * inverse
    claims = []
    for i in r:
        expected = sum((s.g[i, j] * out * b[j] * inverse for j in r), sympy.zeros(1, 2))
        claims.append(
            Claim(
                rf"coefficient of $\xi_{i + 1}$ minus "
                rf"$\sum_j g_{{{i + 1}j}} \rho_{{out}} B_j \rho_{{in}}^{{-1}}$",
                sympy.diff(first, s.xi[i]) - expected,
                sympy.zeros(1, 2),
            )
        )
    for i in r:
        for j in range(i, s.dim):
            expected = sympy.zeros(1, 2)
            for k in r:
                for n in r:
                    expected += s.g[i, k] * s.g[j, n] * out * second[k, n] * inverse
            at = f"{i + 1}{j + 1}"
            claims.append(
                Claim(
                    f"coefficient {at} of the form minus "
                    rf"$\sum_{{kl}} g_{{{i + 1}k}} g_{{{j + 1}l}} \rho_{{out}} S_{{kl}} "
                    r"\rho_{in}^{-1}$",
                    sympy.diff(form, s.xi[i], s.xi[j]) / 2 - expected,
                    sympy.zeros(1, 2),
                )
            )
    return Step(
        "One equation a derivative",
        r"Both sides are polynomials in $\xi$, so their coefficients agree: $\rho_{out} C "
        r"\rho_{in}^{-1} = C$, $\sum_j g_{ij} \rho_{out} B_j \rho_{in}^{-1} = B_i$, $\sum_{kl} "
        r"g_{ik} g_{jl} \rho_{out} S_{kl} \rho_{in}^{-1} = S_{ij}$.",
        tuple(claims),
    )


def _symmetry(s):
    turn = s.rotation(sympy.Matrix((SO2 if s.dim == 2 else SO3).lie_generators[0]))
    quarter = turn.subs(s.theta, sympy.pi / 2)
    r = range(s.dim)
    right = sum(quarter[0, k] * quarter[1, k] for k in r)
    printed = sum(quarter[0, k] * quarter[0, k] for k in r)
    skew = sympy.zeros(s.dim, s.dim)
    skew[0, 1], skew[1, 0] = 1, -1
    return Step(
        "Two remarks",
        r"The factor is $g_{ik} g_{jl}$: with $g_{il} g_{ik}$, as the paper prints it, heat "
        r"diffusion ($S_{kl} = \delta_{kl}$) would be turned into an $S$ with $S_{12} = 1$. And "
        r"$S_{ij} = S_{ji}$ has to be imposed: an antisymmetric $S$ acts as 0, but can fulfil "
        r"the equation.",
        (
            Claim("$S_{12}$ of heat after a quarter turn, by $g_{1k} g_{2l}$", right, sympy.S.Zero),
            Claim(
                "$S_{12}$ of heat after a quarter turn, by $g_{1l} g_{1k}$",
                printed,
                sympy.S.Zero,
                False,
            ),
            Claim(r"$\xi^T S \xi$, $S$ antisymmetric", (s.xi.T * skew * s.xi)[0], sympy.S.Zero),
            Claim(
                r"$g S g^T$, $S$ antisymmetric",
                (turn * skew * turn.T).applyfunc(sympy.simplify),
                skew,
            ),
        ),
    )


def _infinitesimal(s):
    a, b = (
        sympy.Matrix(n, n, lambda i, j, x=x: sympy.Symbol(f"{x}_{i + 1}{j + 1}"))
        for x, n in (("a", 1), ("b", 2))
    )
    j = sympy.Matrix((SO2 if s.dim == 2 else SO3).lie_generators[0])
    _, _, first, second = _channel_matrices(s)
    g = s.rotation(j)
    out = sympy.eye(1) + s.theta * a
    inverse = sympy.eye(2) - s.theta * b
    r = range(s.dim)
    moved = sum((g[0, k] * out * first[k] * inverse for k in r), sympy.zeros(1, 2))
    expected = sum((j[0, k] * first[k] for k in r), a * first[0] - first[0] * b)
    claims = [
        Claim(
            r"$d/d\theta$ at 0 of $\sum_j g_{1j} \rho_{out} B_j \rho_{in}^{-1}$",
            sympy.diff(moved, s.theta).subs(s.theta, 0),
            expected,
        )
    ]
    moved = sympy.zeros(1, 2)
    expected = a * second[0, 1] - second[0, 1] * b
    for k in r:
        expected += j[0, k] * second[k, 1] + j[1, k] * second[0, k]
        for n in r:
            moved += g[0, k] * g[1, n] * out * second[k, n] * inverse
    claims.append(
        Claim(
            r"$d/d\theta$ at 0 of $\sum_{kl} g_{1k} g_{2l} \rho_{out} S_{kl} \rho_{in}^{-1}$",
            sympy.diff(moved, s.theta).subs(s.theta, 0),
            expected,
        )
    )
    return Step(
        "Lie algebra",
        r"For $g = \exp(\theta J)$ the equations hold for all $\theta$ if and only if their "
        r"derivatives at 0 vanish: $a C - C b = 0$, $\sum_j J_{ij} B_j + a B_i - B_i b = 0$, "
        r"$\sum_k (J_{ik} S_{kj} + J_{jk} S_{ik}) + a S_{ij} - S_{ij} b = 0$, with $a = "
        r"d\rho_{out}(J)$, $b = d\rho_{in}(J)$.",
        tuple(claims),
    )


def _exponential(s):
    m = sympy.Matrix(2, 2, lambda i, j: sympy.Symbol(f"m_{i + 1}{j + 1}"))
    r = sympy.Matrix(2, 2, lambda i, j: sympy.Symbol(f"r_{i + 1}{j + 1}"))
    t = sympy.Symbol("t", real=True)
    # r^-1 times det r, which keeps the identities polynomial.
    adjugate, det = r.adjugate(), r.det()
    conjugate = r * m * adjugate
    claims = [
        Claim(
            rf"$((r m r^{{-1}})^{n} - r m^{n} r^{{-1}}) (\det r)^{n}$",
            ((conjugate**n) - r * m**n * adjugate * det ** (n - 1)).expand(),
            sympy.zeros(2, 2),
        )
        for n in (2, 3)
    ]
    series = sum((t**n * m**n / sympy.factorial(n) for n in range(4)), sympy.zeros(2, 2))
    claims.append(Claim(r"$d \exp(t M) / dt$ at 0", sympy.diff(series, t).subs(t, 0), m))
    turn = sympy.Matrix([[sympy.cos(t), -sympy.sin(t)], [sympy.sin(t), sympy.cos(t)]])
    j = sympy.Matrix([[0, -1], [1, 0]])
    flip = sympy.diag(1, -1)
    claims.append(Claim("$dR(t) / dt - J R(t)$", sympy.diff(turn, t) - j * turn, sympy.zeros(2, 2)))
    claims.append(Claim(r"$\exp(2 \pi J)$", turn.subs(t, 2 * sympy.pi), sympy.eye(2)))
    claims.append(Claim(r"$F J F^{-1}$", flip * j * flip, j, False))
    return Step(
        "From M to exp(M)",
        r"Powers of $M$ are equivariant with it, so $\exp(t M)$ is for every $t$; and $M$ is its"
        r" derivative at $t = 0$, so it is equivariant if $\exp(t M)$ is for every $t$. For $t ="
        r" 1$ alone this needs a $C$ that is not too large, $C = 0$ for example, so that exp is "
        r"one to one near $\xi = 0$: $\exp(2 \pi J) = 1$ commutes with the reflection $F$ of two"
        r" channels, and $2 \pi J$ does not.",
        tuple(claims),
    )


def _is_zero(x):
    x = sympy.sympify(x)
    return simplified(x) == 0


def _plain(x):
    if isinstance(x, sympy.MatrixBase):
        return str(x.tolist())
    return str(x)


def latex_words(text):
    """Words with LaTeX between dollar signs, as LaTeX."""
    text = text.replace("^T", r"^{\top}")
    return re.sub(r"_\{(out|in)\}", r"_{\\mathrm{\1}}", text)


def plain_words(text):
    """The same for reading as it is."""
    text = text.replace("$", "").replace(r"\cdot", ".").replace(r"\nabla", "grad")
    text = text.replace(r"\partial", "d")
    text = re.sub(r"\\([A-Za-z]+)", r"\1", text)
    text = re.sub(r"\^\{([^{}]*[ (][^{}]*)\}", r"^(\1)", text)
    return text.replace("{", "").replace("}", "")

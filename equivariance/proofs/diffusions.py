"""Proof that continuous rotations allow only isotropic scalar diffusions without drift."""

import sympy
from sympy import I, exp

from equivariance.groups import O2, SO2, SO3, Group
from equivariance.proofs.claims import Claim, Proof, Step
from equivariance.proofs.symbols import Space, matrix


def prove_scalar_diffusions_trivial(group: Group = SO2) -> Proof:
    """Proves that scalar diffusions sum_k W_k exp(D_k) are trivial under continuous rotations.

    This is the theorem of the paper's appendix on equivariance. For all representations of input
    and output the drifts are 0, and the diffusions are multiples of the identity. The derivation
    uses the symbols exp(i beta . xi - xi^T Sigma xi / 2) instead of the densities. So it also
    covers diffusions without an inverse. It avoids two mistakes of the paper: the sign of its third
    term, and J^T Sigma^-1 = 0, of which only the symmetric part vanishes.

    If sympy computes only some cases of a general statement, the ``cases`` of the claim say so.

    Args:
        group: ``SO2``, ``O2`` (which contains the rotations) or ``SO3``.

    Returns:
        A ``Proof``. ``print`` it, or take its ``latex()``.

    Raises:
        ValueError: for other groups. Finite groups have other solutions, see ``diffusion_orbits``.

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
    space = Space(group.dim)
    generators = [sympy.Matrix(j) for j in group.lie_generators]
    steps = (
        _plane_waves(space),
        _moved(space),
        _derivative(space, generators),
        _product_rule(space),
        _independence(),
        _separation(space, generators),
        _no_drift(space, generators),
        _isotropic(space, generators),
        _converse(space, generators),
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


def _plane_waves(s):
    wave, t = exp(I * s.xi.dot(s.x)), sympy.Symbol("t", positive=True)
    q = s.exponent(s.xi)
    flow = exp(t * q) * wave
    missed = sympy.expand((sympy.diff(flow, t) - s.diffuse(flow)) / flow)
    symbol = sympy.expand(s.diffuse(wave) / wave)
    return Step(
        "Plane waves",
        r"$D$ multiplies $e^{i \xi \cdot x}$ by $q(\xi) = i \beta \cdot \xi - \xi^T \Sigma \xi /"
        r" 2$, so its flow at time 1, $\exp(D)$, multiplies it by $e^{q(\xi)}$, and $A$ by "
        r"$\sum_k W_k e^{q_k(\xi)}$. $\Sigma$ need not have an inverse.",
        (
            Claim(r"$e^{-i \xi \cdot x} D e^{i \xi \cdot x}$", symbol, q),
            Claim(r"$(d/dt - D) e^{t q} e^{i \xi \cdot x}$", missed, sympy.S.Zero),
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


def _derivative(s, generators):
    claims = []
    for name, j in _named("J", generators):
        g = s.rotation(j)
        slope = s.slope(s.exponent(g.T * s.xi))
        claims.append(Claim(rf"$dg / d\theta$ for ${name}$", sympy.diff(g, s.theta), j * g))
        claims.append(Claim(rf"$dq(g^T \xi) / d\theta$ at 0 for ${name}$", slope, s.change(j)))
    return Step(
        "Infinitesimal rotations",
        r"With $g = \exp(\theta J)$, $q(g^T \xi)$ changes at the rate $p(\xi) = i (J \beta) "
        r"\cdot \xi - \xi^T (J \Sigma - \Sigma J) \xi / 2$ at $\theta = 0$.",
        tuple(claims),
    )


def _named(letter, generators):
    """Pairs of a name, numbered if there is more than one, and a generator."""
    if len(generators) == 1:
        return [(letter, generators[0])]
    return [(f"{letter}_{n}", j) for n, j in enumerate(generators, 1)]


def _product_rule(s):
    a, b, w = (matrix(n, 2, 2) for n in "abw")
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
                s.slope(moved),
                (a * w - w * b + p * w) * exp(q),
                cases="2 x 2 matrices",
            ),
        ),
    )


def _independence():
    t, a, b, c, m, u = sympy.symbols("t a b c m u", positive=True)
    claims = []
    for n in range(4):
        label = f"the derivative of order {n + 1} of $t^{n}$"
        left = sympy.diff(t**n, (t, n + 1))
        claims.append(Claim(label, left, sympy.S.Zero, cases=f"n = {n}"))
    for r in (b * t, b * t**2 + c * t):
        degree = sympy.degree(r, t)
        derivative = sympy.diff(a * t**m * exp(r), t) * exp(-r)
        leading = a * degree * b * t ** (m + degree - 1)
        ratio = sympy.expand(sympy.powsimp(sympy.expand(derivative / leading)))
        label = (
            f"$d(a t^m e^r)/dt$ over ${degree} a b t^{{m + {degree - 1}}} e^r$ for large $t$, "
            f"$r = {sympy.latex(r)}$"
        )
        limit = sympy.expand(ratio.subs(t, 1 / u)).subs(u, 0)
        claims.append(Claim(label, limit, sympy.S.One))
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


def _separation(s, generators):
    claims = []
    for name, j in _named("p", generators):
        p = sympy.Poly(sympy.expand(s.change(j)), *s.xi)
        first = sympy.Matrix([p.coeff_monomial(x) for x in s.xi])
        hessian = sympy.hessian(p.as_expr(), list(s.xi))
        claims += [
            Claim(rf"${name}$ at $\xi = 0$", p.coeff_monomial((0,) * s.dim), sympy.S.Zero),
            Claim(f"first-order coefficients of ${name}$", first, I * (j * s.beta)),
            Claim(f"Hessian of ${name}$", hessian, -(j * s.sigma - s.sigma * j)),
        ]
    return Step(
        "Separation",
        r"So $a W_k - W_k b + p_k(\xi) W_k = 0$ for each $k$ and all $\xi$. $p_k$ has no "
        r"constant term: $a W_k = W_k b$. Some entry of $W_k$ is not 0, hence $p_k(\xi) = 0$ for"
        r" all $\xi$: $J \beta_k = 0$ and $J \Sigma_k - \Sigma_k J = 0$.",
        tuple(claims),
    )


def _no_drift(s, generators):
    found = sympy.linsolve([x for j in generators for x in j * s.beta], *s.beta)
    zero = sympy.FiniteSet(sympy.Tuple(*[0] * s.dim))
    return Step(
        "No drift",
        r"$J \beta = 0$ for every generator $J$ leaves $\beta = 0$.",
        (Claim(r"the solutions $\beta$ of $J \beta = 0$ for all $J$", found, zero),),
    )


def _isotropic(s, generators):
    unknowns = [s.sigma[i, j] for i in s.axes for j in range(i, s.dim)]
    equations = [x for j in generators for x in j * s.sigma - s.sigma * j if x != 0]
    (solution,) = sympy.linsolve(equations, *unknowns)
    found = s.sigma.subs(dict(zip(unknowns, solution, strict=True)), simultaneous=True)
    j, one, c = generators[0], sympy.eye(s.dim), s.sigma[s.dim - 1, s.dim - 1]
    turned = j.T / sympy.Symbol("c", positive=True)  # J^T Sigma^-1
    moved = s.rotation(j).T * s.x + s.beta
    slope = s.slope(-(moved.T * s.sigma * moved)[0] / 2)
    slope -= (s.x.T * j.T * s.sigma * (s.x + s.beta))[0]
    density = (
        r"$d \log N(g^{-1} x; -\beta, \Sigma^{-1}) / d\theta$ at 0 minus "
        r"$x^T J^T \Sigma (x + \beta)$"
    )
    quadratic = r"$x^T J^T \Sigma^{-1} x$ for $\Sigma = c 1$"
    zero = sympy.zeros(s.dim, s.dim)
    return Step(
        "Isotropic diffusion",
        r"$J \Sigma = \Sigma J$ for every $J$ leaves the multiples of the identity. (In terms of"
        r" densities: $x^T J^T \Sigma^{-1} x = 0$ for all $x$ says that the symmetric part of "
        r"$J^T \Sigma^{-1}$ vanishes, not $J^T \Sigma^{-1}$ itself; and the term with it enters "
        r"with a plus sign.)",
        (
            Claim(r"the solution $\Sigma$ of $J \Sigma = \Sigma J$ for all $J$", found, c * one),
            Claim(quadratic, (s.x.T * turned * s.x)[0], sympy.S.Zero),
            Claim(r"$J^T \Sigma^{-1}$ for $\Sigma = c 1$", turned, zero, False),
            Claim(density, slope, sympy.S.Zero),
        ),
    )


def _converse(s, generators):
    zero, isotropic = sympy.zeros(s.dim, 1), sympy.Symbol("c", positive=True) * sympy.eye(s.dim)
    claims = []
    for n, j in enumerate(generators, 1):
        moved = s.exponent(s.rotation(j).T * s.xi, zero, isotropic)
        label = rf"$q(g^T \xi)$ for $\beta = 0$, $\Sigma = c 1$, $g = \exp(\theta J_{n})$"
        claims.append(Claim(label, sympy.simplify(moved), s.exponent(s.xi, zero, isotropic)))
    turn = s.rotation(generators[0]).subs(s.theta, sympy.pi / 2)
    difference = sympy.S.Zero
    for n in range(4):
        drift, diffusion = turn**n * s.beta, turn**n * s.sigma * (turn**n).T
        difference += exp(sympy.expand(s.exponent(turn.T * s.xi, drift, diffusion)))
        difference -= exp(sympy.expand(s.exponent(s.xi, drift, diffusion)))
    label = "a quarter turn of the sum of an orbit, minus it"
    return Step(
        "Converse, and why the rotations must be continuous",
        r"With $\beta_k = 0$ and $\Sigma_k = c_k 1$ each $e^{q_k(\xi)}$ is unchanged by "
        r"rotations, so $A$ commutes with them if every $W_k$ does. For finite groups there is "
        r"more: the four quarter turns of any drift and diffusion add up to an operator that "
        r"commutes with quarter turns.",
        (*claims, Claim(label, difference, sympy.S.Zero)),
    )

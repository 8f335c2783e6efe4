"""Scalar diffusions under continuous rotations: only isotropic ones, without drift."""

import sympy
from sympy import I, exp

from equivariance.groups import O2, SO2, SO3
from equivariance.proofs.claims import Claim, Proof, Step
from equivariance.proofs.symbols import Space


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
    space = Space(group.dim)
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

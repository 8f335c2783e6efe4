"""From the constraint on operators to those on kernels and on C, B and S."""

import sympy
from sympy import I, exp

from equivariance.groups import SO2, SO3
from equivariance.proofs.claims import Claim, Proof, Step
from equivariance.proofs.symbols import Space


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
    space = Space(dim)
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

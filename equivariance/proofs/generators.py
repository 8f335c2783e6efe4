"""Derives the constraints on kernels and on C, B and S from the constraint on operators."""

import sympy
from sympy import I, exp

from equivariance.proofs.claims import Claim, Proof, Step
from equivariance.proofs.symbols import Space, matrix


def prove_generator_constraints(dim: int = 2) -> Proof:
    """Proves the constraints on kernels, and on C, B and S, from the constraint on operators.

    An operator A is equivariant if rho_out(g) L_g A L_g^-1 rho_in(g)^-1 = A with (L_g f)(x) =
    f(g^-1 x) (the paper's eq. op_constraint). For convolutions this becomes rho_out(g) K(g^-1 x)
    rho_in(g)^-1 = K(x). For M = C + sum B_i d_i + sum S_ij d_i d_j it becomes the three equations
    that ``solve_generators`` solves. It carries over to exp(M).

    sympy computes with one output and two input channels, and with some powers of a matrix. The
    ``cases`` of these claims say so.

    Args:
        dim: dimension of space, 2 or 3.

    Returns:
        A ``Proof``.

    Raises:
        ValueError: if dim is neither 2 nor 3.

    Example:

    >>> proof = prove_generator_constraints()
    >>> proof.verified
    True
    >>> print(proof.partial[-3].cases)
    n = 2 of 2 x 2 matrices
    """
    if dim not in (2, 3):
        raise ValueError(f"dim must be 2 or 3, found {dim!r}.")
    space = Space(dim)
    channels = _Channels(space)
    steps = (
        _convolutions(space),
        _moved_generator(space),
        _coefficients(space, channels),
        _symmetry(space),
        _infinitesimal(space, channels),
        _exponential(),
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


class _Channels:
    """rho_out, rho_in^-1, B_i and S_ij as matrices of symbols: 1 output, 2 input channels."""

    cases = "1 output and 2 input channels"

    def __init__(self, s):
        self.out, self.inverse = matrix("r", 1, 1, real=True), matrix("t", 2, 2, real=True)
        self.first = [matrix(f"B{i + 1}", 1, 2, real=True) for i in s.axes]
        self.second = {
            (i, j): matrix(f"S{min(i, j) + 1}{max(i, j) + 1}", 1, 2, real=True)
            for i in s.axes
            for j in s.axes
        }

    def moved(self, vectors, out=None, inverse=None):
        """rho_out (B contracted with one vector, or S with two) rho_in^-1."""
        out, inverse = out or self.out, inverse or self.inverse
        terms = {(i,): b for i, b in enumerate(self.first)} if len(vectors) == 1 else self.second
        total = sympy.zeros(1, 2)
        for at, term in terms.items():
            factor = sympy.prod([vector[i] for vector, i in zip(vectors, at, strict=True)])
            total += factor * out * term * inverse
        return total


def _convolutions(s):
    y, gamma = s.vector("y"), s.vector("gamma")
    h = s.g  # stands for g^-1, any matrix
    left, right = h * s.x + h * gamma, s.x + gamma
    return Step(
        "Convolutions",
        r"$(L_g (K *) L_g^{-1} f)(x) = \int K(g^{-1} x - y) f(g y) dy$. With $y = g^{-1} z$ this"
        r" is $\int K(g^{-1} (x - z)) f(z) dz / |\det g|$, and $|\det g| = 1$: conjugation moves"
        r" the kernel's argument. So the constraint is $\rho_{out}(g) K(g^{-1} x) "
        r"\rho_{in}(g)^{-1} = K(x)$. The density of a drift-diffusion is moved to that with "
        r"drift $g \beta$ and diffusion $g \Sigma g^T$.",
        (
            Claim(r"$g^{-1} x - g^{-1} z$", h * s.x - h * y, h * (s.x - y)),
            Claim(r"$\det g$ of a rotation", sympy.simplify(s.rotation(s.j).det()), sympy.S.One),
            Claim(
                r"$(g^{-1} x + \beta)^T \Sigma (g^{-1} x + \beta)$ with $\beta = g^{-1} \gamma$",
                (left.T * s.sigma * left)[0],
                (right.T * h.T * s.sigma * h * right)[0],
            ),
        ),
    )


def _moved_generator(s):
    c, b = sympy.Symbol("C"), sympy.Matrix([sympy.Symbol(f"B_{i + 1}") for i in s.axes])
    full = matrix("S", s.dim, s.dim)
    second = sympy.Matrix(s.dim, s.dim, lambda i, j: full[min(i, j), max(i, j)])
    f = exp(I * s.xi.dot(s.g * s.x))
    gradient = sympy.Matrix([sympy.diff(f, x) for x in s.x])
    applied = c * f + b.dot(gradient) + (second * sympy.hessian(f, list(s.x))).trace()
    moved = s.g.T * s.xi
    symbol = c + I * b.dot(moved) - (moved.T * second * moved)[0]
    label = r"$e^{-i \xi \cdot g x} M e^{i \xi \cdot g x}$"
    return Step(
        "Generators",
        r"$L_g^{-1} e^{i \xi \cdot x} = e^{i \xi \cdot g x}$, and $M$ multiplies that by $M(i "
        r"g^T \xi)$, where $M(i \xi) = C + i \sum_i \xi_i B_i - \sum_{ij} \xi_i \xi_j S_{ij}$. "
        r"So the constraint is $\rho_{out}(g) M(i g^T \xi) \rho_{in}(g)^{-1} = M(i \xi)$ for all"
        r" $\xi$.",
        (Claim(label, sympy.expand(applied / f), symbol),),
    )


def _coefficients(s, channels):
    moved, zero, claims = s.g.T * s.xi, sympy.zeros(1, 2), []
    first, form = channels.moved([moved]), channels.moved([moved, moved])
    for i in s.axes:
        label = (
            rf"coefficient of $\xi_{i + 1}$ minus "
            rf"$\sum_j g_{{{i + 1}j}} \rho_{{out}} B_j \rho_{{in}}^{{-1}}$"
        )
        left = sympy.diff(first, s.xi[i]) - channels.moved([s.g.row(i)])
        claims.append(Claim(label, left, zero, cases=channels.cases))
    for i in s.axes:
        for j in range(i, s.dim):
            label = (
                f"coefficient {i + 1}{j + 1} of the form minus "
                rf"$\sum_{{kl}} g_{{{i + 1}k}} g_{{{j + 1}l}} \rho_{{out}} S_{{kl}} "
                r"\rho_{in}^{-1}$"
            )
            left = sympy.diff(form, s.xi[i], s.xi[j]) / 2
            left -= channels.moved([s.g.row(i), s.g.row(j)])
            claims.append(Claim(label, left, zero, cases=channels.cases))
    return Step(
        "One equation a derivative",
        r"Both sides are polynomials in $\xi$, so their coefficients agree: $\rho_{out} C "
        r"\rho_{in}^{-1} = C$, $\sum_j g_{ij} \rho_{out} B_j \rho_{in}^{-1} = B_i$, $\sum_{kl} "
        r"g_{ik} g_{jl} \rho_{out} S_{kl} \rho_{in}^{-1} = S_{ij}$.",
        tuple(claims),
    )


def _symmetry(s):
    turn = s.rotation(s.j)
    quarter = turn.subs(s.theta, sympy.pi / 2)
    right, printed = quarter.row(0).dot(quarter.row(1)), quarter.row(0).dot(quarter.row(0))
    skew, heat = -s.j, "$S_{12}$ of heat after a quarter turn, by "
    turned = (turn * skew * turn.T).applyfunc(sympy.simplify)
    return Step(
        "Two remarks",
        r"The factor is $g_{ik} g_{jl}$: with $g_{il} g_{ik}$, as the paper prints it, heat "
        r"diffusion ($S_{kl} = \delta_{kl}$) would be turned into an $S$ with $S_{12} = 1$. And "
        r"$S_{ij} = S_{ji}$ has to be imposed: an antisymmetric $S$ acts as 0, but can fulfil "
        r"the equation.",
        (
            Claim(f"{heat}$g_{{1k}} g_{{2l}}$", right, sympy.S.Zero),
            Claim(f"{heat}$g_{{1l}} g_{{1k}}$", printed, sympy.S.Zero, False),
            Claim(r"$\xi^T S \xi$, $S$ antisymmetric", (s.xi.T * skew * s.xi)[0], sympy.S.Zero),
            Claim(r"$g S g^T$, $S$ antisymmetric", turned, skew),
        ),
    )


def _infinitesimal(s, channels):
    a, b = matrix("a", 1, 1), matrix("b", 2, 2)
    near = sympy.eye(1) + s.theta * a, sympy.eye(2) - s.theta * b  # rho_out, rho_in^-1
    g, j, first, second = s.rotation(s.j), s.j, channels.first, channels.second
    slope = sum((j[0, k] * first[k] for k in s.axes), a * first[0] - first[0] * b)
    curvature = a * second[0, 1] - second[0, 1] * b
    for k in s.axes:
        curvature += j[0, k] * second[k, 1] + j[1, k] * second[0, k]
    return Step(
        "Lie algebra",
        r"For $g = \exp(\theta J)$ the equations hold for all $\theta$ if and only if their "
        r"derivatives at 0 vanish: $a C - C b = 0$, $\sum_j J_{ij} B_j + a B_i - B_i b = 0$, "
        r"$\sum_k (J_{ik} S_{kj} + J_{jk} S_{ik}) + a S_{ij} - S_{ij} b = 0$, with $a = "
        r"d\rho_{out}(J)$, $b = d\rho_{in}(J)$.",
        (
            Claim(
                r"$d/d\theta$ at 0 of $\sum_j g_{1j} \rho_{out} B_j \rho_{in}^{-1}$",
                s.slope(channels.moved([g.row(0)], *near)),
                slope,
                cases=channels.cases,
            ),
            Claim(
                r"$d/d\theta$ at 0 of $\sum_{kl} g_{1k} g_{2l} \rho_{out} S_{kl} \rho_{in}^{-1}$",
                s.slope(channels.moved([g.row(0), g.row(1)], *near)),
                curvature,
                cases=channels.cases,
            ),
        ),
    )


def _exponential():
    m, r, t = matrix("m", 2, 2), matrix("r", 2, 2), sympy.Symbol("t", real=True)
    # This is r^-1 times det r, which keeps the identities polynomial.
    adjugate, det, zero = r.adjugate(), r.det(), sympy.zeros(2, 2)
    claims = []
    for n in (2, 3):
        left = (r * m * adjugate) ** n - r * m**n * adjugate * det ** (n - 1)
        label = rf"$((r m r^{{-1}})^{n} - r m^{n} r^{{-1}}) (\det r)^{n}$"
        claims.append(Claim(label, left.expand(), zero, cases=f"n = {n} of 2 x 2 matrices"))
    series = sum((t**n * m**n / sympy.factorial(n) for n in range(4)), zero)
    slope = sympy.diff(series, t).subs(t, 0)
    powers = "powers n <= 3 of 2 x 2 matrices"
    claims.append(Claim(r"$d \exp(t M) / dt$ at 0", slope, m, cases=powers))
    turn = sympy.Matrix([[sympy.cos(t), -sympy.sin(t)], [sympy.sin(t), sympy.cos(t)]])
    j, flip = sympy.Matrix([[0, -1], [1, 0]]), sympy.diag(1, -1)
    claims += [
        Claim("$dR(t) / dt - J R(t)$", sympy.diff(turn, t) - j * turn, zero),
        Claim(r"$\exp(2 \pi J)$", turn.subs(t, 2 * sympy.pi), sympy.eye(2)),
        Claim(r"$F J F^{-1}$", flip * j * flip, j, False),
    ]
    return Step(
        "From M to exp(M)",
        r"Powers of $M$ are equivariant with it, so $\exp(t M)$ is for every $t$; and $M$ is its"
        r" derivative at $t = 0$, so it is equivariant if $\exp(t M)$ is for every $t$. For $t ="
        r" 1$ alone this needs a $C$ that is not too large, $C = 0$ for example, so that exp is "
        r"one to one near $\xi = 0$: $\exp(2 \pi J) = 1$ commutes with the reflection $F$ of two"
        r" channels, and $2 \pi J$ does not.",
        tuple(claims),
    )

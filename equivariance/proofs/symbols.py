"""The symbols in which the derivations are written."""

import sympy
from sympy import I


class Space:
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

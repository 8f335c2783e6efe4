"""The symbols of the derivations."""

import sympy
from sympy import I


def matrix(name, rows, columns, real=None):
    """A matrix of symbols."""
    return sympy.Matrix(
        rows, columns, lambda i, j: sympy.Symbol(f"{name}_{i + 1}{j + 1}", real=real)
    )


class Space:
    """Symbols for d dimensions."""

    def __init__(self, dim):
        self.dim, self.axes = dim, range(dim)
        self.x, self.xi, self.beta = self.vector("x"), self.vector("xi"), self.vector("beta")
        self.g = matrix("g", dim, dim, real=True)
        full = matrix("Sigma", dim, dim, real=True)
        self.sigma = sympy.Matrix(dim, dim, lambda i, j: full[min(i, j), max(i, j)])
        self.theta = sympy.Symbol("theta", real=True)
        self.j = sympy.zeros(dim, dim)  # generates rotations in the plane of the first two axes
        self.j[0, 1], self.j[1, 0] = -1, 1

    def vector(self, letter):
        return sympy.Matrix([sympy.Symbol(f"{letter}_{i + 1}", real=True) for i in self.axes])

    def exponent(self, xi, beta=None, sigma=None):
        """q(xi) = i beta . xi - xi^T Sigma xi / 2."""
        beta = self.beta if beta is None else beta
        sigma = self.sigma if sigma is None else sigma
        return I * beta.dot(xi) - (xi.T * sigma * xi)[0] / 2

    def rotation(self, j):
        """exp(theta J) by Rodrigues' formula; the generators here have J^3 = -J."""
        return sympy.eye(self.dim) + sympy.sin(self.theta) * j + (1 - sympy.cos(self.theta)) * j * j

    def slope(self, expression):
        """The derivative by theta at 0."""
        return sympy.diff(expression, self.theta).subs(self.theta, 0)

    def diffuse(self, f):
        """D f."""
        gradient = sympy.Matrix([sympy.diff(f, x) for x in self.x])
        hessian = sympy.hessian(f, list(self.x))
        return self.beta.dot(gradient) + (self.sigma * hessian).trace() / 2

    def change(self, j):
        """p(xi), the derivative of q(g^T xi) along J: i (J beta) . xi - xi^T (J S - S J) xi / 2."""
        return self.exponent(self.xi, j * self.beta, j * self.sigma - self.sigma * j)

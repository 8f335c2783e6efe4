"""exp of small matrices with a fixed number of operations, for any compiler and any damping.

TensorFlow's own matrix exponential chooses its number of squarings from the data, in a loop that
XLA cannot differentiate. Here the number is fixed: ``exp(M) = R(M / 2^s)^(2^s)`` with the Pade
approximant R of degree 5 over 6. |R| <= 1 on the left half-plane and R -> 0 at infinity, so (by von
Neumann's inequality) what a dissipative generator damps, this damps, however large it is.
"""

from math import factorial

import tensorflow as tf

NUMERATOR_DEGREE, DENOMINATOR_DEGREE = 5, 6
SQUARINGS = 8


def _coefficients(degree, sign):
    total = NUMERATOR_DEGREE + DENOMINATOR_DEGREE
    return [
        sign**j
        * factorial(total - j)
        * factorial(degree)
        / (factorial(total) * factorial(j) * factorial(degree - j))
        for j in range(degree + 1)
    ]


def matrix_exponential(matrix, squarings=SQUARINGS):
    """exp of square matrices, elementwise in the leading axes.

    The error relative to ``max(1, |exp(M)|)`` is some 2^squarings units of rounding for norms up to
    2^(squarings - 1); 3e-14 in double precision for norms up to 128 with the default. For larger
    norms it grows with the twelfth power of the norm for what is not damped; matrices whose
    numerical range is in the left half-plane never give a norm above 1.

    Args:
        matrix: [..., c, c], float or complex, of any static c.
        squarings: s, a whole number >= 0.

    Returns:
        [..., c, c] of the same dtype.

    Raises:
        ValueError: if the last two axes are not equal and known.

    Example:

    >>> import numpy as np
    >>> from tfpn.math.coupled_exponential import matrix_exponential
    >>> matrix_exponential(np.array([[0.0, -np.pi], [np.pi, 0.0]])).numpy().round(12) + 0.0
    array([[-1.,  0.],
           [ 0., -1.]])
    """
    matrix = tf.convert_to_tensor(matrix)
    if matrix.shape.rank is None or matrix.shape.rank < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"matrix has shape {matrix.shape}, expected square matrices [..., c, c].")
    if matrix.shape[-1] is None:
        raise ValueError(f"matrix has shape {matrix.shape}; its last axes must be known.")
    x = matrix * tf.constant(0.5**squarings, matrix.dtype)
    one = tf.eye(x.shape[-1], batch_shape=tf.shape(x)[:-2], dtype=x.dtype)
    powers = [one, x]
    while len(powers) <= DENOMINATOR_DEGREE:
        half = len(powers) // 2
        powers.append(tf.matmul(powers[half], powers[len(powers) - half]))

    def polynomial(degree, sign):
        terms = zip(_coefficients(degree, sign), powers, strict=False)
        return tf.add_n([tf.constant(c, x.dtype) * p for c, p in terms])

    result = _solve(polynomial(DENOMINATOR_DEGREE, -1.0), polynomial(NUMERATOR_DEGREE, 1.0))
    for _ in range(squarings):
        result = tf.matmul(result, result)
    return result


def _solve(matrix, right):
    """``matrix^-1 right``; XLA has no such operation for complex numbers."""
    if not matrix.dtype.is_complex:
        return tf.linalg.solve(matrix, right)
    real, imaginary = tf.math.real(matrix), tf.math.imag(matrix)
    upper = tf.concat([real, -imaginary], axis=-1)
    lower = tf.concat([imaginary, real], axis=-1)
    right = tf.concat([tf.math.real(right), tf.math.imag(right)], axis=-2)
    solution = tf.linalg.solve(tf.concat([upper, lower], axis=-2), right)
    return tf.complex(*tf.split(solution, 2, axis=-2))

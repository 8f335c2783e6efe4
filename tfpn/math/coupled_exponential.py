"""The exponential of small matrices to rounding, for any norm and any compiler.

``exp(M) = R(M / 2^s)^(2^s)``, with the diagonal Pade approximant R of degree 9. R is exact to
rounding for norms up to 2, and each matrix has the s that brings it there. TensorFlow's own matrix
exponential does the same in a loop of unknown length, which XLA cannot differentiate.

The result is the exponential of a matrix within rounding of M: the squarings double the errors of
R, to about eps |M| in the end. M's diagonal is also shifted by ``-4 eps |M|``, which has the same
order but exceeds those errors. |R| <= 1 on the left half-plane, so by von Neumann's inequality the
result does not amplify what a dissipative matrix does not amplify. If eps |M| is not small, M is
known too coarsely to determine exp(M). The result fades to 0 there.
"""

import math
from math import factorial

import numpy as np
import tensorflow as tf

DEGREE = 9
# R's norm limit, and the largest number of squarings: beyond it the shift makes the result 0.
LARGEST = 2.0
SQUARINGS = 64
# The shift of the diagonal in units of eps |M|. Without a shift, norms exceed 1 by up to half of a
# unit.
SHIFT = 4.0

COEFFICIENTS = [
    factorial(2 * DEGREE - j)
    * factorial(DEGREE)
    / (factorial(2 * DEGREE) * factorial(j) * factorial(DEGREE - j))
    for j in range(DEGREE + 1)
]


def matrix_exponential(matrix):
    """The exponential of square matrices, for each entry of the leading axes.

    Let eps be the unit of rounding and |M| the Frobenius norm. For norms of at least 1 the error is
    about ``10 eps |M|``, relative to ``max(1, |exp(M)|)``. Matrices with a numerical range in the
    left half-plane give norms of at most 1, up to a few eps, even if they are large. Beyond norms
    of 1 / eps they give 0. Gradients are as large as those of the exponential.

    Args:
        matrix: [..., c, c], float or complex, finite, with a static c.

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
    norm = _norm(tf.stop_gradient(matrix))
    squarings = tf.math.ceil(tf.math.log(norm / LARGEST) / math.log(2.0))
    squarings = tf.clip_by_value(squarings, 0.0, float(SQUARINGS))
    scale = tf.pow(tf.constant(0.5, norm.dtype), squarings)
    # This scales matrices that SQUARINGS do not bring down to the limit.
    scale = tf.minimum(scale, LARGEST / norm)
    one = tf.eye(matrix.shape[-1], dtype=matrix.dtype)
    eps = np.finfo(norm.dtype.as_numpy_dtype).eps
    shift = tf.cast(SHIFT * eps * norm, matrix.dtype)
    result = _pade((matrix - shift * one) * tf.cast(scale, matrix.dtype), one)
    largest = tf.reduce_max(squarings)

    def square(step, result):
        return step + 1.0, tf.where(step < squarings, tf.matmul(result, result), result)

    _, result = tf.while_loop(
        lambda step, _: step < largest,
        square,
        (tf.zeros([], norm.dtype), result),
        maximum_iterations=SQUARINGS,  # XLA's gradient needs it
    )
    return result


def _norm(matrix):
    """Frobenius norms [..., 1, 1], positive, without the overflow of large entries' squares."""
    size = tf.abs(matrix)
    tiny = np.finfo(size.dtype.as_numpy_dtype).tiny
    largest = tf.maximum(tf.reduce_max(size, axis=[-2, -1], keepdims=True), tiny)
    return largest * tf.sqrt(
        tf.maximum(tf.reduce_sum(tf.square(size / largest), axis=[-2, -1], keepdims=True), 1.0)
    )


def _pade(x, one):
    square = tf.matmul(x, x)
    powers = [one, square]
    while len(powers) <= DEGREE // 2:
        powers.append(tf.matmul(powers[-1], square))

    def combined(coefficients):
        terms = [tf.constant(c, x.dtype) * p for c, p in zip(coefficients, powers, strict=True)]
        return tf.add_n(terms[1:]) + terms[0]

    even, odd = combined(COEFFICIENTS[::2]), tf.matmul(x, combined(COEFFICIENTS[1::2]))
    return _solve(even - odd, even + odd)


def _solve(matrix, right):
    """``matrix^-1 right``, also for complex numbers, for which XLA has no such operation."""
    if not matrix.dtype.is_complex:
        return tf.linalg.solve(matrix, right)
    real, imaginary = tf.math.real(matrix), tf.math.imag(matrix)
    upper = tf.concat([real, -imaginary], axis=-1)
    lower = tf.concat([imaginary, real], axis=-1)
    right = tf.concat([tf.math.real(right), tf.math.imag(right)], axis=-2)
    solution = tf.linalg.solve(tf.concat([upper, lower], axis=-2), right)
    return tf.complex(*tf.split(solution, 2, axis=-2))

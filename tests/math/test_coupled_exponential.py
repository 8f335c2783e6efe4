"""exp of small matrices against SciPy and mpmath, and its bound for whatever is dissipative."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
import tensorflow as tf
from tolerance import rounding

from tfpn.math.coupled_exponential import matrix_exponential


def skew(norm, seed=0, size=5, count=20):
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(count, size, size)) + 1j * rng.normal(size=(count, size, size))
    m = m - m.conj().swapaxes(1, 2)
    return norm * m / np.linalg.norm(m, 2, axis=(1, 2), keepdims=True)


@pytest.mark.parametrize("norm", [0.0, 1e-3, 1.0, 10.0, 100.0])
def test_equals_scipy(norm):
    m = skew(1.0) * norm
    # A squaring rounds sums of 5 complex products of a unitary matrix, at each entry, so that the
    # norm is off by 5 times that; and it doubles what the squarings before it left. They begin at
    # a norm of 1/4 or more, so that their doublings are 4 times the norm at most.
    limit = rounding(2 * 5, condition=5 * max(1.0, 4.0 * norm))
    np.testing.assert_allclose(matrix_exponential(m), scipy.linalg.expm(m), rtol=0, atol=limit)


def test_equals_scipy_for_real_matrices_that_grow():
    m = np.random.default_rng(1).normal(size=(10, 4, 4))
    expected = scipy.linalg.expm(m)
    np.testing.assert_allclose(matrix_exponential(m), expected, rtol=1e-11, atol=1e-12)


def dissipative(kind, count=20):
    """Matrices of norm up to 1 with the numerical range in the left half-plane, to rounding."""
    rng = np.random.default_rng(2)
    q = rng.normal(size=(count, 3, 5)) + 1j * rng.normal(size=(count, 3, 5))
    semidefinite = q.conj().swapaxes(1, 2) @ q / 40
    basis = np.linalg.qr(skew(1.0))[0]
    if kind == "rotation":
        return skew(1.0)
    if kind == "null space":
        return -semidefinite
    if kind == "widely spread":
        spread = np.diag([0.0, 1.0, 1e-4, 1e-8, 1e-12])
        return -basis @ spread @ basis.conj().swapaxes(1, 2)
    if kind == "damped rotation":
        return 0.5 * (skew(1.0) - semidefinite)
    # Not normal, and undamped in one direction: its Hermitian part is semidefinite.
    m = basis @ np.triu(skew(1.0, seed=5)) @ basis.conj().swapaxes(1, 2)
    top = np.linalg.eigvalsh(0.5 * (m + m.conj().swapaxes(1, 2)))[:, -1]
    return 0.25 * (m - top[:, None, None] * np.eye(5))


KINDS = ["rotation", "null space", "widely spread", "damped rotation", "not normal"]


@pytest.mark.parametrize("size", [1.0, 10.0, 1e3, 1e5, 1e6, 1e9, 1e12, 1e15, 1e30, 1e300])
@pytest.mark.parametrize("kind", KINDS)
def test_never_amplifies_what_is_dissipative(kind, size):
    norms = np.linalg.norm(matrix_exponential(size * dissipative(kind)).numpy(), 2, axis=(1, 2))
    assert np.all(norms <= 1.0 + 1e-12)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e12])
def test_never_amplifies_rotations_that_are_damped_in_some_directions(size):
    rng = np.random.default_rng(2)
    q = rng.normal(size=(20, 3, 5))
    m = size * (skew(1.0) - q.swapaxes(1, 2) @ q)
    norms = np.linalg.norm(matrix_exponential(m).numpy(), 2, axis=(1, 2))
    assert np.all(norms <= 1.0 + 1e-12)


@pytest.mark.parametrize("size", [1e3, 1e5, 1e6, 1e9])
@pytest.mark.parametrize("kind", KINDS)
def test_keeps_the_digits_there_are(kind, size):
    """Against 50 digits; entries that are rounded to eps |M| determine exp(M) to as much."""
    m = size * dissipative(kind)[:2]
    for found, one in zip(matrix_exponential(m).numpy(), m, strict=True):
        with mpmath.workdps(50):
            expected = mpmath.expm(mpmath.matrix(one.tolist()), method="taylor")
            expected = np.array(expected.tolist(), dtype=complex)
        error = np.linalg.norm(found - expected)
        assert error < 10 * np.finfo(float).eps * np.linalg.norm(one)


def test_null_space_stays_beside_what_is_damped_at_once():
    basis = np.linalg.qr(skew(1.0))[0]
    keeps, damps = basis[:, :, :1], basis[:, :, 1:]
    m = -1e9 * damps @ damps.conj().swapaxes(1, 2)
    expected = keeps @ keeps.conj().swapaxes(1, 2)
    # The calculation shifts M by 4 eps |M|, and M itself is a sum of 4 complex products.
    limit = rounding(4 + 2 * 4, condition=np.linalg.norm(m[0]))
    np.testing.assert_allclose(matrix_exponential(m), expected, rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float64"])
def test_keeps_the_dtype(dtype):
    m = np.real(skew(3.0)) if dtype.startswith("float") else skew(3.0)
    found = matrix_exponential(m.astype(dtype)).numpy()
    assert found.dtype == dtype
    np.testing.assert_allclose(found, scipy.linalg.expm(m), rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e5, 1e9, 1e15, 1e30, 1e300])
def test_gradient_is_no_larger_than_that_of_the_exponential(size):
    """A dissipative M's ``int_0^1 exp((1-t) M) dM exp(t M) dt`` is no larger than dM."""
    for kind in KINDS:
        m = tf.constant(size * dissipative(kind))
        with tf.GradientTape() as tape:
            tape.watch(m)
            total = tf.math.real(tf.reduce_sum(matrix_exponential(m)))
        gradient = tape.gradient(total, m).numpy()
        # The derivative of the sum of 25 entries has the norm 5.
        assert np.all(np.linalg.norm(gradient, axis=(1, 2)) <= 5.0 * (1 + 1e-9))


def test_gradient_equals_finite_differences():
    m = tf.constant(np.random.default_rng(3).normal(size=(3, 3)))
    weights = np.random.default_rng(4).normal(size=(3, 3))
    theoretical, numerical = tf.test.compute_gradient(
        lambda m: tf.reduce_sum(weights * matrix_exponential(m)), [m], delta=1e-5
    )
    # Central differences: 1e-10 of truncation, 1e-11 of rounding.
    np.testing.assert_allclose(theoretical[0], numerical[0], rtol=1e-8, atol=1e-8)


def test_compiles_with_its_gradient():
    m = tf.constant(np.concatenate([skew(0.1), skew(3.0), skew(1e4)]))

    def total(m):
        with tf.GradientTape() as tape:
            tape.watch(m)
            out = tf.math.real(tf.reduce_sum(matrix_exponential(m)))
        return out, tape.gradient(out, m)

    for found, expected in zip(tf.function(total, jit_compile=True)(m), total(m), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_refuses_what_is_not_square(shape):
    with pytest.raises(ValueError, match="expected square matrices"):
        matrix_exponential(np.zeros(shape))

"""exp of small matrices against SciPy's, and its bound for whatever is dissipative."""

import numpy as np
import pytest
import scipy.linalg
import tensorflow as tf

from tfpn.math.coupled_exponential import matrix_exponential


def skew(norm, seed=0, size=5, count=20):
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(count, size, size)) + 1j * rng.normal(size=(count, size, size))
    m = m - m.conj().swapaxes(1, 2)
    return norm * m / np.linalg.norm(m, 2, axis=(1, 2), keepdims=True)


@pytest.mark.parametrize("norm", [0.0, 1e-3, 1.0, 10.0, 100.0])
def test_equals_scipy(norm):
    m = skew(1.0) * norm
    # 2^8 squared units of rounding: 256 * 2e-16 = 6e-14 of a unitary matrix, measured 1e-13.
    np.testing.assert_allclose(matrix_exponential(m), scipy.linalg.expm(m), rtol=0, atol=4e-13)


def test_equals_scipy_for_real_matrices_that_grow():
    m = np.random.default_rng(1).normal(size=(10, 4, 4))
    expected = scipy.linalg.expm(m)
    np.testing.assert_allclose(matrix_exponential(m), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e12])
def test_never_amplifies_what_is_dissipative(size):
    rng = np.random.default_rng(2)
    q = rng.normal(size=(20, 3, 5))
    m = size * (skew(1.0) - q.swapaxes(1, 2) @ q)
    norms = np.linalg.norm(matrix_exponential(m).numpy(), 2, axis=(1, 2))
    assert np.all(norms <= 1.0 + 1e-12)


def test_gradient_equals_finite_differences():
    m = tf.constant(np.random.default_rng(3).normal(size=(3, 3)))
    weights = np.random.default_rng(4).normal(size=(3, 3))
    theoretical, numerical = tf.test.compute_gradient(
        lambda m: tf.reduce_sum(weights * matrix_exponential(m)), [m], delta=1e-5
    )
    # Central differences: 1e-10 of truncation, 1e-11 of rounding.
    np.testing.assert_allclose(theoretical[0], numerical[0], rtol=1e-8, atol=1e-8)


def test_compiles_with_its_gradient():
    m = tf.constant(skew(3.0))

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

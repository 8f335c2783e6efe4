import numpy as np
import pytest
import tensorflow as tf

from tfpn.math.missing import missing_mask, observed_only, penalty

DTYPES = [np.float32, np.float64]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_penalty_and_mask(dtype, compiled):
    info = np.finfo(dtype)
    variance = np.array([0.0, -0.0, info.tiny, 1e-3, 1.0, 1e30, info.max, np.inf], dtype)
    function = tf.function(lambda v: (penalty(v), missing_mask(penalty(v))), jit_compile=compiled)
    infinite, missing = function(variance)
    assert infinite.dtype == missing.dtype == dtype
    np.testing.assert_array_equal(infinite, np.where(np.isinf(variance), np.inf, 0))
    np.testing.assert_array_equal(missing, np.isinf(variance))


def test_penalty_is_a_constant():
    variance = tf.constant([0.5, np.inf])
    with tf.GradientTape() as tape:
        tape.watch(variance)
        infinite = penalty(variance)
    assert tape.gradient(infinite, variance) is None


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stored", [np.nan, np.inf, -np.inf, 1e30])
def test_observed_only(stored, dtype, compiled):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 3, 4)).astype(dtype)
    for shape in ((2, 3, 4), (2, 3, 1)):
        missing = (rng.uniform(size=shape) < 0.4).astype(dtype)
        everywhere = np.broadcast_to(missing, values.shape) == 1
        tensor = tf.constant(np.where(everywhere, dtype(stored), values))
        function = tf.function(observed_only, jit_compile=compiled)
        weights = rng.normal(size=values.shape).astype(dtype)
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            result = function(tensor, tf.constant(missing))
            total = tf.reduce_sum(result * weights)
        np.testing.assert_array_equal(result, np.where(everywhere, 0, values))
        np.testing.assert_array_equal(
            tape.gradient(total, tensor), np.where(everywhere, 0, weights)
        )

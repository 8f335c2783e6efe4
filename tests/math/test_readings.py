"""Weights of the entries of a time series."""

import numpy as np
import pytest

from tfpn.math.readings import entry_weights

WIDTH = 0.02


def weights(times, listed=None):
    """Weights in float64 of entries in one channel; ``listed`` False is padding."""
    times = np.asarray(times, float)[None, :, None]
    variance = np.zeros(times.shape)
    if listed is not None:
        variance[0, ~np.asarray(listed)] = np.inf
    return entry_weights(times, variance, WIDTH).numpy()[0, :, 0]


def slow(times):
    """The formula of the docstring by a loop over ascending times."""

    def s(g):
        return min(g, 1.0) ** 4 * (3 - 2 * min(g, 1.0) ** 2)

    found, gaps = [], []
    for i, time in enumerate(times):
        gaps.append(min((time - times[i - 1]) / WIDTH, 1.0) if i else 1.0)
        covered = sum(
            gaps[k] * (1 - s(gaps[k])) * (1 - s((time - times[k]) / WIDTH)) for k in range(i)
        )
        m = s(4 * covered)
        found.append((1 - m) * s(gaps[i]) + m * gaps[i])
    return found


@pytest.mark.parametrize("count", [51, 101, 201, 401, 1001])
def test_a_dense_stretch_counts_as_many_times_as_it_is_widths_long(count):
    """The first entry, and 50 widths, of which the start of the chain may miss a quarter."""
    assert weights(np.linspace(0, 50 * WIDTH, count)).sum() == pytest.approx(51, abs=0.5)


def test_times_a_width_apart_all_count_and_times_that_coincide_count_once():
    np.testing.assert_allclose(weights(np.arange(7) * 1.001 * WIDTH), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(weights([0.1, 0.1, 0.1, 0.3, 0.1]), [1, 0, 0, 1, 0])
    # The second of two alone, a thousandth of the width after: 3 times its fourth power.
    assert weights([0.3, 0.3 + 1e-3 * WIDTH])[1] == pytest.approx(3e-12, rel=1e-5)


def test_weights_against_a_loop():
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 12 * WIDTH, 60))
    np.testing.assert_allclose(weights(times), slow(times), rtol=1e-9, atol=1e-12)


def test_any_order_repetition_and_padding_give_the_same():
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0, 12 * WIDTH, 30))
    order = rng.permutation(90)
    listed = np.repeat(np.arange(3) < 2, 30)[order]  # each time twice, and once as padding
    found = np.where(listed, weights(np.tile(times, 3)[order], listed), 0.0)
    sums = [found[np.tile(np.arange(30), 3)[order] == i].sum() for i in range(30)]
    np.testing.assert_allclose(sums, weights(times), rtol=1e-9, atol=1e-12)


def test_the_number_changes_in_small_steps_as_a_chain_is_stretched():
    """From one time to 20 of their own in 80 steps: one that is told apart at once would be 1."""
    numbers = [weights(np.arange(20) * step * WIDTH).sum() for step in np.linspace(0, 1.05, 80)]
    assert numbers[0] == 1.0 and numbers[-1] == pytest.approx(20.0)
    assert np.abs(np.diff(numbers)).max() < 0.6

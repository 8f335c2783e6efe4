"""Against hand-computed cases, scikit-learn, and simulated predictors of known quality."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
from sklearn.calibration import calibration_curve

from tfpn import evaluation

# Confidences 0.8, 0.8, 0.6, 0.5 (predicted 0, 1, 2, 0), right: yes, no, yes, no.
SMALL = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]])
LABELS = np.array([0, 2, 2, 1])


def test_small_case_by_hand():
    found = evaluation.classification_metrics(SMALL, LABELS, bins=2)
    assert found["accuracy"] == 0.5 and found["error"] == 0.5 and found["examples"] == 4
    assert found["nll"] == pytest.approx(-np.log([0.8, 0.1, 0.6, 0.3]).mean())
    brier = (
        (0.04 + 0.01 + 0.01) + (0.01 + 0.64 + 0.81) + (0.04 + 0.04 + 0.16) + (0.25 + 0.49 + 0.04)
    )
    assert found["brier"] == pytest.approx(brier / 4)
    # (0, 0.5] holds the last one, 0 right of 1; (0.5, 1] the others, 2 right of 3.
    assert found["ece"] == pytest.approx(0.25 * 0.5 + 0.75 * abs(2 / 3 - 2.2 / 3))
    # The median is 0.7: 0.5 and 0.6 with one right, 0.8 twice with one right.
    assert found["adaptive_ece"] == pytest.approx(0.5 * abs(0.5 - 0.55) + 0.5 * abs(0.5 - 0.8))
    assert all(type(value) in (float, int) for value in found.values())


def test_small_table_by_hand():
    found = evaluation.calibration_bins(SMALL, LABELS, bins=5)
    np.testing.assert_allclose(found.edges, [0, 0.2, 0.4, 0.6, 0.8, 1])
    np.testing.assert_array_equal(found.counts, [0, 0, 2, 2, 0])  # the upper border belongs to it
    np.testing.assert_allclose(found.confidence, [np.nan, np.nan, 0.55, 0.8, np.nan])
    np.testing.assert_allclose(found.accuracy, [np.nan, np.nan, 0.5, 0.5, np.nan])


def test_one_bin_is_the_gap_of_the_means_and_certainty_is_in_the_last_bin():
    assert evaluation.expected_calibration_error(SMALL, LABELS, 1) == pytest.approx(0.175)
    certain = np.eye(3)[[0, 1, 2, 0]]
    found = evaluation.calibration_bins(certain, LABELS)
    assert found.counts[-1] == 4 and found.counts.sum() == 4
    assert evaluation.expected_calibration_error(certain, LABELS) == 0.5
    assert evaluation.expected_calibration_error(certain, LABELS, adaptive=True) == 0.5
    # Clipped at the resolution of float64: -log(2.2e-16) = 36.04 for each of the two misses.
    assert evaluation.classification_metrics(certain, LABELS)["nll"] == pytest.approx(18.02, 1e-3)


def simulated(overconfidence, examples=20000, classes=5, seed=0):
    """Labels drawn from softmax(logits), predicted as softmax(overconfidence * logits)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=1.5, size=(examples, classes))
    truth = scipy.special.softmax(logits, axis=-1)
    labels = (rng.uniform(size=(examples, 1)) > truth.cumsum(-1)[:, :-1]).sum(-1)
    return scipy.special.softmax(overconfidence * logits, axis=-1), labels, truth


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("bins", [1, 7, 15])
def test_bins_are_those_of_scikit_learn(bins, adaptive):
    probabilities, labels, _ = simulated(1.5, examples=500)
    found = evaluation.calibration_bins(probabilities, labels, bins, adaptive)
    accuracy, confidence = calibration_curve(
        probabilities.argmax(-1) == labels,
        probabilities.max(-1),
        n_bins=bins,
        strategy="quantile" if adaptive else "uniform",
    )
    seen = found.counts > 0
    assert found.counts.sum() == 500
    np.testing.assert_allclose(found.accuracy[seen], accuracy, rtol=1e-12)
    np.testing.assert_allclose(found.confidence[seen], confidence, rtol=1e-12)
    if adaptive:
        assert found.counts.max() - found.counts.min() <= 2


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("overconfidence", [0.5, 1.0, 2.0])
def test_calibration_error_of_simulated_predictors(overconfidence, adaptive):
    """Calibrated: the stated bias. Otherwise: the gap of the known probability of being right.

    The standard error of a bin's sum of hits is sqrt(sum q (1 - q)), q the known probability.
    """
    probabilities, labels, truth = simulated(overconfidence)
    found = evaluation.expected_calibration_error(probabilities, labels, adaptive=adaptive)
    table = evaluation.calibration_bins(probabilities, labels, adaptive=adaptive)
    place = np.searchsorted(table.edges[1:-1], probabilities.max(-1))
    right = truth[np.arange(len(labels)), probabilities.argmax(-1)]
    gap = np.bincount(place, probabilities.max(-1) - right, len(table.counts))
    deviation = np.sqrt(np.bincount(place, right * (1 - right), len(table.counts)))
    folded = scipy.stats.foldnorm(np.abs(gap) / np.maximum(deviation, 1e-9), scale=deviation)
    seen = table.counts > 0
    expected = np.sum(folded.mean()[seen]) / len(labels)
    error = np.sqrt(np.sum(folded.var()[seen])) / len(labels)
    assert abs(found - expected) < 4 * error
    if overconfidence == 1.0:
        bias = np.sqrt(2 / np.pi) * np.sum(deviation) / len(labels)
        assert abs(found - bias) < 4 * error and found < 0.02
    else:
        assert found > 0.15 and found > 20 * error


@pytest.mark.parametrize("overconfidence", [1.0, 2.0])
def test_scores_of_simulated_predictors(overconfidence):
    """Mean scores against their expectations over the labels, within 4 standard errors."""
    probabilities, labels, truth = simulated(overconfidence)
    found = evaluation.classification_metrics(probabilities, labels)
    square = np.sum(probabilities**2, -1, keepdims=True) + 1 - 2 * probabilities
    hit = np.arange(5) == probabilities.argmax(-1)[:, None]
    for key, score in (("nll", -np.log(probabilities)), ("brier", square), ("accuracy", hit)):
        mean = np.sum(truth * score, -1)
        variance = np.sum(truth * np.square(score), -1) - mean**2
        error = np.sqrt(variance.sum()) / len(labels)
        assert abs(found[key] - mean.mean()) < 4 * error, key
    assert found["error"] == pytest.approx(1 - found["accuracy"])


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_gaussian_predictions_of_known_scale(scale):
    rng = np.random.default_rng(0)
    deviations = np.repeat(rng.uniform(0.1, 10.0, size=(100, 1)), 200, axis=1)
    residuals = scale * deviations * rng.normal(size=deviations.shape)
    found = evaluation.gaussian_metrics(residuals, deviations)
    count = found["residuals"]
    assert count == 20000
    assert found["spread"] == evaluation.residual_spread(residuals, deviations)
    assert abs(found["spread"] - scale) < 4 * scale / np.sqrt(2 * count)
    for level, key in ((0.5, "coverage_50"), (0.95, "coverage_95")):
        expected = 1 - 2 * scipy.stats.norm.sf(scipy.stats.norm.ppf(0.5 + level / 2) / scale)
        error = np.sqrt(expected * (1 - expected) / count)
        assert abs(found[key] - expected) < 4 * error
        assert found[key] == evaluation.interval_coverage(residuals, deviations, level)
    expected = np.mean(np.log(deviations)) + 0.5 * np.log(2 * np.pi) + 0.5 * scale**2
    assert abs(found["nll"] - expected) < 4 * 0.5 * scale**2 * np.sqrt(2 / count)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(residuals**2)))


def test_gaussian_small_case_by_hand():
    found = evaluation.gaussian_metrics([[3.0, -1.0]], [[1.0, 2.0]])
    assert found["rmse"] == pytest.approx(np.sqrt(5))
    assert found["spread"] == pytest.approx(np.sqrt((9 + 0.25) / 2))
    assert found["coverage_50"] == 0.5 and found["coverage_95"] == 0.5  # z = 3, -0.5
    nll = 0.5 * np.log(2 * np.pi) + (np.log(2) + 4.5 + 0.125) / 2
    assert found["nll"] == pytest.approx(nll)
    assert type(found["rmse"]) is float and type(found["residuals"]) is int


@pytest.mark.parametrize(
    ("probabilities", "labels", "said"),
    [
        ([0.2, 0.8], [1, 1], r"probabilities has shape \(2,\)"),
        ([[1.0]], [0], r"shape \(1, 1\).* both columns"),
        (np.zeros((0, 3)), [], r"shape \(0, 3\)"),
        ([[0.5, 0.5], [2.0, -1.0]], [0, 1], r"row 1 is \[2.0, -1.0\]"),
        ([[0.5, 0.5], [3.0, 1.0]], [0, 1], "row 1 .* softmax"),
        ([[np.nan, 0.5]], [0], "row 0 is"),
        ([[0.5, 0.5]], [0, 1], r"labels has shape \(2,\)"),
        ([[0.5, 0.5]], [0.0], "dtype float64"),
        ([[0.5, 0.5]], [2], "from 2 to 2, but there are 2 classes"),
        ([[0.5, 0.5]], [-1], "from -1 to -1"),
    ],
)
def test_unusable_probabilities_are_named(probabilities, labels, said):
    with pytest.raises(ValueError, match=said):
        evaluation.classification_metrics(probabilities, labels)


@pytest.mark.parametrize("bins", [0, -1, 1.5, True, "many"])
def test_unusable_bins_are_named(bins):
    with pytest.raises(ValueError, match=f"bins must be a positive integer, found {bins!r}"):
        evaluation.expected_calibration_error(SMALL, LABELS, bins)


@pytest.mark.parametrize("bins", [1_000_001, 10**9, 10**20])
def test_more_bins_than_memory_has_are_refused(bins):
    for function in (evaluation.classification_metrics, evaluation.calibration_bins):
        with pytest.raises(ValueError, match=f"bins must be at most 1,000,000, found {bins:,}"):
            function(SMALL, LABELS, bins)


@pytest.mark.parametrize(
    ("residuals", "deviations", "said"),
    [
        ([], 1.0, "give at least one"),
        (
            [1.0, 2.0],
            [1.0, 2.0, 3.0],
            r"standard_deviations has shape \(3,\) and residuals \(2,\)",
        ),
        (np.zeros((2, 2)), np.ones((2, 1)), r"write targets\[:, None\]"),
        ([1.0, np.nan], 1.0, "residuals must be finite, found nan and 0 more"),
        ([1.0, 2.0], [1.0, 0.0], "standard_deviations must be finite and positive, found 0.0"),
        ([1.0, 2.0, 3.0], [1.0, np.inf, np.inf], "found inf and 1 more such of 3"),
        ([1.0], -1.0, "found -1.0"),
    ],
)
def test_unusable_residuals_are_named(residuals, deviations, said):
    with pytest.raises(ValueError, match=said):
        evaluation.gaussian_metrics(residuals, deviations)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_unusable_level_is_named(level):
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        evaluation.interval_coverage([1.0], 1.0, level)

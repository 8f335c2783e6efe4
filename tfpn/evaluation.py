"""How good predictions are, and how far you can trust their uncertainty. No TensorFlow here.

The functions take plain arrays of two kinds: class probabilities with labels, and residuals (truth
minus predicted mean) with predicted standard deviations, for Gaussian predictions. `tfpn.figures`
draws them: `reliability_diagram` and `qq_plot`.
"""

import dataclasses

import numpy as np
import scipy.stats
import sklearn.metrics

from tfpn.types import Array, ArrayLike

BINS = 15
MOST_BINS = 1_000_000  # a table of so many takes about 40 MB


def classification_metrics(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = BINS
) -> dict[str, float]:
    """Measures the quality of class probabilities.

    Args:
        probabilities: [B, classes], rows that sum to 1.
        labels: integers 0 to classes - 1, [B].
        bins: number of bins of the calibration errors.

    Returns:
        A dict of numbers:

        - accuracy, error: fractions of examples with the largest probability on the right class,
          and on a wrong one.
        - nll: mean negative log likelihood of the right class, in nats. Probabilities count as at
          least 2.2e-16, so that a single one cannot make it infinite.
        - brier: mean over examples of ``sum_k (p_k - [k is right])^2``, from 0 to 2.
        - ece, adaptive_ece: `expected_calibration_error` with bins of equal width and with bins of
          about equally many examples.
        - auroc, average_precision: how well the probability of class 1 ranks the examples (area
          under the ROC curve, and mean precision over the steps of recall). Only for two classes
          that both occur.
        - examples: B.

    Raises:
        ValueError: for wrong shapes, rows that do not sum to 1, or labels out of range.

    Example:

    >>> found = classification_metrics([[0.8, 0.2], [0.4, 0.6]], [0, 0])
    >>> round(found["accuracy"], 3), round(found["nll"], 3), round(found["brier"], 3)
    (0.5, 0.57, 0.4)
    """
    probabilities, labels = _checked(probabilities, labels)
    classes = range(probabilities.shape[1])
    correct = int(np.sum(probabilities.argmax(-1) == labels))
    return {
        "accuracy": correct / len(labels),
        "error": (len(labels) - correct) / len(labels),
        "nll": float(sklearn.metrics.log_loss(labels, probabilities, labels=classes)),
        "brier": float(
            sklearn.metrics.brier_score_loss(
                labels, probabilities, labels=classes, scale_by_half=False
            )
        ),
        "ece": expected_calibration_error(probabilities, labels, bins),
        "adaptive_ece": expected_calibration_error(probabilities, labels, bins, adaptive=True),
        **(_ranking(probabilities[:, 1], labels) if len(classes) == 2 else {}),
        "examples": len(labels),
    }


def _ranking(scores, labels):
    """Measures how well scores rank the examples of class 1 before those of class 0."""
    if len(np.unique(labels)) < 2:
        return {}
    return {
        "auroc": float(sklearn.metrics.roc_auc_score(labels, scores)),
        "average_precision": float(sklearn.metrics.average_precision_score(labels, scores)),
    }


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = BINS, adaptive: bool = False
) -> float:
    """Expected calibration error of the predicted class.

    ``sum_b (count_b / B) |accuracy_b - confidence_b|`` over bins of the confidence. The confidence
    of an example is its largest probability. Accuracy and confidence are means over the bin (Guo et
    al., On Calibration of Modern Neural Networks, 2017). With few examples the error is biased
    upwards. A calibrated predictor scores about ``sqrt(2 / pi) sum_b sqrt(v_b count_b) / B``, with
    v_b the bin's mean of confidence (1 - confidence). For 1,000 examples at a confidence of 0.9
    this is 0.008.

    Args:
        probabilities: [B, classes], rows that sum to 1.
        labels: integers 0 to classes - 1, [B].
        bins: number of bins, up to a million.
        adaptive: False for bins of equal width, ``(b / bins, (b + 1) / bins]``. True for bins with
            about equally many examples, so that none is almost empty.

    Returns:
        A number from 0 to 1.

    Raises:
        ValueError: as for `classification_metrics`, or if ``bins`` is not an integer from 1 to a
            million.

    Example:

    The confidences are 0.9, 0.9 and 0.6. The first and the last prediction are right.

    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]]
    >>> round(expected_calibration_error(p, [0, 1, 1]), 4)  # (2 |0.5 - 0.9| + |1 - 0.6|) / 3
    0.4
    """
    found = calibration_bins(probabilities, labels, bins, adaptive)
    seen = found.counts > 0
    gaps = np.abs(found.accuracy - found.confidence)[seen]
    return float(np.sum(found.counts[seen] * gaps) / np.sum(found.counts))


@dataclasses.dataclass(frozen=True, eq=False)
class CalibrationBins:
    """Examples sorted into bins by their confidence.

    Attributes:
        edges: borders of the bins, [bins + 1]. A bin includes its upper border.
        counts: number of examples in each bin, [bins].
        confidence: mean confidence in each bin, NaN in an empty one, [bins].
        accuracy: fraction of correct predictions in each bin, NaN in an empty one, [bins].
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray


def calibration_bins(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = BINS, adaptive: bool = False
) -> CalibrationBins:
    """The table behind the calibration error and the reliability diagram.

    The non-empty bins are those of `sklearn.calibration.calibration_curve` for "the predicted class
    is right" against the confidence. This table also holds the number of examples in each.

    Args:
        probabilities, labels, bins, adaptive: as in `expected_calibration_error`. With ``adaptive``
            there are fewer bins if many examples have the same confidence.

    Returns:
        `CalibrationBins`.

    Example:

    >>> found = calibration_bins([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]], [0, 1, 1], bins=2)
    >>> found.counts, found.accuracy.round(2), found.confidence.round(2)
    (array([0, 3]), array([ nan, 0.67]), array([nan, 0.8]))
    """
    probabilities, labels = _checked(probabilities, labels)
    check_bins(bins)
    confidence = probabilities.max(-1)
    edges = np.linspace(0.0, 1.0, bins + 1)
    if adaptive:
        inner = np.unique(np.quantile(confidence, edges)[1:-1])
        edges = np.concatenate([[0.0], inner[(0.0 < inner) & (inner < 1.0)], [1.0]])
    place = np.searchsorted(edges[1:-1], confidence)
    counts = np.bincount(place, minlength=len(edges) - 1)

    def mean(quantity):
        total = np.bincount(place, weights=quantity, minlength=len(counts))
        return np.divide(total, counts, out=np.full(len(counts), np.nan), where=counts > 0)

    return CalibrationBins(
        edges, counts, mean(confidence), mean(probabilities.argmax(-1) == labels)
    )


def check_bins(bins: int) -> int:
    """Returns ``bins``; raises ValueError unless it is an integer from 1 to a million."""
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ValueError(f"bins must be a positive integer, found {bins!r}.")
    if bins > MOST_BINS:
        raise ValueError(f"bins must be at most {MOST_BINS:,}, found {bins:,}.")
    return bins


def gaussian_metrics(residuals: ArrayLike, standard_deviations: ArrayLike) -> dict[str, float]:
    """Measures the quality of Gaussian predictions.

    The measures are over all residuals together. If outputs have different units, call it for each.

    Args:
        residuals: truth minus predicted mean, any shape, in one unit.
        standard_deviations: the predicted ones, positive. They broadcast to the residuals' shape.

    Returns:
        A dict of numbers: rmse (root mean square residual, in the residuals' unit), nll (mean
        negative log density, in nats), spread (`residual_spread`), coverage_50 and coverage_95
        (fraction of residuals in the central 50 % and 95 % intervals), residuals (their number).

    Raises:
        ValueError: as for `standardized`.

    Example:

    >>> found = gaussian_metrics([1.0, -1.0, 3.0], 1.0)
    >>> round(found["rmse"], 3), round(found["coverage_95"], 3)
    (1.915, 0.667)
    """
    z = standardized(residuals, standard_deviations)
    log_density = scipy.stats.norm.logpdf(z) - np.log(
        np.broadcast_to(standard_deviations, np.shape(residuals)).ravel()
    )
    return {
        "rmse": float(np.sqrt(np.mean(np.square(residuals, dtype=np.float64)))),
        "nll": float(-np.mean(log_density)),
        "spread": _root_mean_square(z),
        "coverage_50": _coverage(z, 0.5),
        "coverage_95": _coverage(z, 0.95),
        "residuals": len(z),
    }


def regression_metrics(
    truth: ArrayLike, mean: ArrayLike, standard_deviations: ArrayLike | None = None
) -> dict[str, float]:
    """Measures the quality of predicted numbers, with or without standard deviations.

    The measures are over all numbers together, as in `gaussian_metrics`.

    Args:
        truth: any shape, NaN where nothing was measured.
        mean: predicted means, in the same shape.
        standard_deviations: predicted ones, in the same shape and positive; None for means alone.

    Returns:
        A dict of numbers: rmse and mae (root mean square and mean absolute error) and targets
        (their number). Standard deviations add nll (mean negative log density, in nats), crps
        (continuous ranked probability score, in the unit of the truth; the mae is that of means
        alone) and coverage_95 (fraction of the truth in the central 95 % interval).

    Raises:
        ValueError: if the shapes differ, if nothing was measured, or as for `standardized`.

    Example:

    >>> found = regression_metrics([[1.0, np.nan, 4.0]], [[0.0, 0.0, 4.0]], np.ones([1, 3]))
    >>> {key: round(value, 3) for key, value in found.items()}
    {'rmse': 0.707, 'mae': 0.5, 'nll': 1.169, 'crps': 0.418, 'coverage_95': 1.0, 'targets': 2}
    """
    truth, mean = np.asarray(truth, np.float64), np.asarray(mean, np.float64)
    if truth.shape != mean.shape:
        raise ValueError(
            f"truth has shape {truth.shape} and mean {mean.shape}; give both the same shape."
        )
    measured = ~np.isnan(truth)
    if not measured.any():
        raise ValueError("truth holds only NaN; give at least one measured number.")
    residuals = (truth - mean)[measured]
    found = {"mae": float(np.mean(np.abs(residuals)))}
    if standard_deviations is None:
        rmse = float(np.sqrt(np.mean(np.square(residuals))))
        return {"rmse": rmse, **found, "targets": len(residuals)}
    deviations = np.broadcast_to(np.asarray(standard_deviations, np.float64), truth.shape)[measured]
    gaussian = gaussian_metrics(residuals, deviations)
    z = standardized(residuals, deviations)
    normal = scipy.stats.norm
    score = z * (2.0 * normal.cdf(z) - 1.0) + 2.0 * normal.pdf(z) - 1.0 / np.sqrt(np.pi)
    return {
        "rmse": gaussian["rmse"],
        **found,
        "nll": gaussian["nll"],
        "crps": float(np.mean(deviations * score)),
        "coverage_95": gaussian["coverage_95"],
        "targets": len(residuals),
    }


def interval_coverage(
    residuals: ArrayLike, standard_deviations: ArrayLike, level: float = 0.95
) -> float:
    """Fraction of the truth that lies within the predicted central interval.

    Args:
        residuals, standard_deviations: as in `gaussian_metrics`.
        level: predicted probability of the interval, between 0 and 1.

    Returns:
        The fraction. For calibrated predictions it is ``level``.

    Raises:
        ValueError: as for `standardized`, or if ``level`` is not between 0 and 1.

    Example:

    >>> interval_coverage([0.5, -1.0, 1.9, 2.1], 1.0)  # |z| up to 1.96
    0.75
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, found {level!r}.")
    return _coverage(standardized(residuals, standard_deviations), level)


def residual_spread(residuals: ArrayLike, standard_deviations: ArrayLike) -> float:
    """Size of the residuals in units of their predicted standard deviations.

    This is the root mean square of residual / standard deviation. It is 1 for calibrated
    predictions and above 1 for overconfident ones.

    Args:
        residuals, standard_deviations: as in `gaussian_metrics`.

    Raises:
        ValueError: as for `standardized`.

    Example:

    >>> residual_spread([2.0, -2.0], 1.0)
    2.0
    """
    return _root_mean_square(standardized(residuals, standard_deviations))


def standardized(residuals: ArrayLike, standard_deviations: ArrayLike) -> Array:
    """residual / standard deviation as a flat array, standard normal for calibrated predictions.

    Args:
        residuals, standard_deviations: as in `gaussian_metrics`.

    Raises:
        ValueError: if there is no residual, if the shapes differ, if a number is not
            finite, or if a standard deviation is not positive.

    Example:

    >>> standardized([[1.0], [-3.0]], [[0.5], [1.0]])
    array([ 2., -3.])
    """
    residuals = np.asarray(residuals, np.float64)
    deviations = np.asarray(standard_deviations, np.float64)
    if deviations.shape not in ((), residuals.shape):
        raise ValueError(
            f"standard_deviations has shape {deviations.shape} and residuals {residuals.shape}; "
            "give both the same shape, or one standard deviation for all. Targets [B] minus a mean "
            "[B, 1] are [B, B]: write targets[:, None]."
        )
    deviations = np.broadcast_to(deviations, residuals.shape)
    if not residuals.size:
        raise ValueError(f"residuals has shape {residuals.shape}; give at least one.")
    for name, wrong in (
        ("residuals", ~np.isfinite(residuals)),
        ("standard_deviations", ~(np.isfinite(deviations) & (deviations > 0.0))),
    ):
        if wrong.any():
            found = (residuals if name == "residuals" else deviations)[wrong][0]
            wanted = "finite" + (" and positive" if name == "standard_deviations" else "")
            raise ValueError(
                f"{name} must be {wanted}, found {found} and {int(wrong.sum()) - 1} more such of "
                f"{wrong.size}; leave out what was not observed and what is known exactly."
            )
    return (residuals / deviations).ravel()


def _root_mean_square(z):
    return float(np.sqrt(np.mean(np.square(z))))


def _coverage(z, level):
    return float(np.mean(np.abs(z) <= scipy.stats.norm.ppf(0.5 + level / 2)))


def _checked(probabilities, labels):
    """Checks probabilities and labels; returns both as arrays, the probabilities in float64."""
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    if probabilities.ndim != 2 or len(probabilities) < 1 or probabilities.shape[1] < 2:
        raise ValueError(
            f"probabilities has shape {probabilities.shape}, expected [examples, classes] with at "
            "least one example and two classes; for two classes give both columns, [1 - p, p]."
        )
    off = np.abs(probabilities.sum(-1) - 1.0)
    if not (np.all(probabilities >= 0.0) and np.all(off < 1e-3)):
        row = int(np.argmax(~(np.all(probabilities >= 0.0, -1) & (off < 1e-3))))
        raise ValueError(
            f"probabilities: row {row} is {probabilities[row].tolist()}; give numbers of at least "
            "0 that sum to 1 (if these are logits, take their softmax first)."
        )
    if labels.shape != probabilities.shape[:1] or labels.dtype.kind not in "iu":
        raise ValueError(
            f"labels has shape {labels.shape} and dtype {labels.dtype}, expected one integer for "
            f"each of the {len(probabilities)} rows of probabilities."
        )
    if labels.min() < 0 or labels.max() >= probabilities.shape[1]:
        raise ValueError(
            f"labels are from {labels.min()} to {labels.max()}, but there are "
            f"{probabilities.shape[1]} classes; count them from 0."
        )
    return probabilities / probabilities.sum(-1, keepdims=True), labels

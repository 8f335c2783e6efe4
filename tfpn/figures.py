"""Pictures of a model: feature maps with their uncertainty, learning curves, calibration.

Every function returns a `matplotlib.figure.Figure` that is not registered with pyplot. You need not
close it, and it needs no display.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import scipy.stats
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tfpn import evaluation
from tfpn._field_panels import draw_fields
from tfpn._panels import draw_curves, draw_images, make_figure
from tfpn.contract import KEYS
from tfpn.files import write
from tfpn.types import ArrayLike, Logs, Model, Observations, PathLike

_QUANTILES = 2000  # most points of a Q-Q plot


def feature_maps(
    model: Model,
    x: Observations,
    *,
    channels: Sequence[int] | None = None,
    resolution: int = 64,
    origin: Literal["upper", "lower"] = "upper",
) -> Figure:
    """Draws the Gaussian-process feature maps of a few examples.

    Each example has a row: its samples, and for each block of the network the mean and the standard
    deviation of the block's output. In two dimensions these are images, with the observed points as
    green dots on the standard deviation. In one dimension they are a curve with a band of two
    standard deviations, and the observed points are green ticks.

    Args:
        model: a model with `feature_maps(x, query)`, such as `tfpn.models.PNCNN`.
        x: the observations dict of the examples to draw, B = number of rows.
        channels: indices of the channels to draw. In two dimensions give one or three; three are
            shown as red, green and blue, each scaled to its own range in the panel. In one
            dimension give any number. The default is the first three, or the first one if a block
            has fewer than three.
        resolution: number of grid points along each axis.
        origin: direction of the second coordinate in two dimensions: "upper" if it grows downwards,
            like the rows of an image, or "lower" if it grows upwards, like on a map.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: if the points have more than two dimensions; if an example has no observed
            point; if a block does not have a channel; if ``channels`` in two dimensions are not
            one or three; or if `resolution` or `origin` is out of range.

    Example:

    >>> import tfpn
    >>> rng = np.random.default_rng(0)
    >>> x = tfpn.observations(rng.uniform(size=(2, 20, 2)), rng.normal(size=(2, 20)))
    >>> model = tfpn.models.PNCNN(channels=3, num_blocks=1)
    >>> figure = feature_maps(model, x, resolution=8)
    >>> [axes.get_title() for axes in figure.axes[:3]]
    ['samples (channel 0)', 'block 1: mean', 'block 1: std. deviation']
    """
    x = {key: np.asarray(array) for key, array in x.items()}
    dimensions = x["points"].shape[-1]
    if dimensions > 2:
        raise ValueError(f"points have {dimensions} dimensions; pictures need one or two")
    if resolution < 2:
        raise ValueError(f"resolution: found {resolution}; give at least 2")
    if origin not in ("upper", "lower"):
        raise ValueError(f"origin: found {origin!r}; give 'upper' or 'lower'")
    axes_ticks = _grid_axes(x, resolution)
    query = np.stack(np.meshgrid(*axes_ticks, indexing="ij"), -1).reshape(-1, dimensions)
    rows = [_example(x, row) for row in range(len(x["points"]))]
    maps = [_evaluate(model, row, query) for row in rows]
    channels = _choose_channels(channels, maps[0], dimensions)
    if dimensions == 1:
        return draw_curves(rows, maps, axes_ticks[0], channels)
    return draw_images(rows, maps, axes_ticks, channels, origin)


def learning_curves(log: Logs) -> Figure:
    """Draws the loss and the measures of a classifier over the epochs, training and validation.

    Class weights count in the loss of the training part, but not in that of the validation part.

    Args:
        log: dict from column name to one number for each epoch, such as `tfpn.training.read_log`
            and `keras.callbacks.History.history` give it.

    Returns:
        A matplotlib Figure with a panel for the loss, and one for each of accuracy, AUROC and
        average precision that the log holds.

    Raises:
        ValueError: if the log has no column "loss".

    >>> figure = learning_curves({"loss": [2.0, 1.0], "val_loss": [2.1, 1.5]})
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['loss']
    """
    if "loss" not in log:
        raise ValueError(f"log: found columns {sorted(log)}; a column 'loss' is needed")
    shown = [key for key in ("loss", "accuracy", "auroc", "average_precision") if key in log]
    figure = make_figure(columns=len(shown), rows=1, panel=3.5)
    epochs = np.arange(1, len(log["loss"]) + 1)
    for axes, key in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        axes.plot(epochs, log[key], marker=".", label="training")
        if f"val_{key}" in log:
            axes.plot(epochs, log[f"val_{key}"], marker=".", label="validation")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlabel("epoch")
        axes.set_ylabel(key.replace("_", " ").replace("auroc", "AUROC"))
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def reliability_diagram(
    probabilities: ArrayLike,
    labels: ArrayLike,
    bins: int = evaluation.BINS,
    adaptive: bool = False,
    title: str | None = None,
) -> Figure:
    """Draws how often the predicted class is right against how sure the prediction is.

    The upper panel shows the fraction of right predictions in each bin of the confidence (the
    largest probability), with its 95 % interval (Wilson's). Red lines show the bin's mean
    confidence, which the fraction should equal. The fraction lies below for an overconfident
    predictor. The lower panel shows the number of examples in each bin.

    Args:
        probabilities, labels, bins, adaptive: as in `tfpn.evaluation.expected_calibration_error`.
        title: title of the figure. The default is the calibration error and the number of examples.

    Returns:
        A matplotlib Figure with two panels.

    Raises:
        ValueError: as `tfpn.evaluation.expected_calibration_error`.

    Example:

    >>> figure = reliability_diagram([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]], [0, 1, 1])
    >>> figure.get_suptitle()
    'expected calibration error 40.0 %, 3 examples'
    """
    found = evaluation.calibration_bins(probabilities, labels, bins, adaptive)
    if title is None:
        error = evaluation.expected_calibration_error(probabilities, labels, bins, adaptive)
        title = f"expected calibration error {error:.1%}, {found.counts.sum()} examples"
        title = title.replace("%", " %")
    figure = make_figure(columns=1, rows=1, panel=4.5)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    seen = found.counts > 0
    left, width = found.edges[:-1][seen], np.diff(found.edges)[seen]
    accuracy, confidence, counts = (
        field[seen] for field in (found.accuracy, found.confidence, found.counts)
    )
    bars = {"width": width, "align": "edge", "edgecolor": "white"}
    intervals = [
        scipy.stats.binomtest(round(a * n), n).proportion_ci(0.95, "wilson")
        for a, n in zip(accuracy, counts.tolist(), strict=True)
    ]
    upper.bar(left, accuracy, **bars, label="fraction right")
    upper.hlines(confidence, left, left + width, color="red", linewidth=2, label="mean confidence")
    upper.errorbar(
        left + width / 2,
        accuracy,
        np.abs(np.transpose(intervals) - accuracy),
        fmt="none",
        color="black",
        linewidth=1,
        label="95 % interval",
    )
    upper.plot([0, 1], [0, 1], "--", color="grey", label="diagonal")
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="fraction right")
    upper.legend(fontsize=7, loc="upper left")
    lower.bar_label(lower.bar(left, counts, **bars, color="grey"), fontsize=6, rotation=90)
    lower.set(xlabel="confidence", ylabel="examples")
    lower.margins(y=0.4)
    lower.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    figure.suptitle(title, fontsize=9)
    return figure


def qq_plot(
    residuals: ArrayLike,
    standard_deviations: ArrayLike,
    *,
    axes: Any = None,
    label: str | None = None,
) -> Figure:
    """Draws the quantiles of standardised residuals against those of the standard normal.

    Calibrated Gaussian predictions lie on the diagonal. A steeper line shows overconfidence: the
    residuals are larger than predicted.

    Args:
        residuals: truth minus predicted mean, any shape.
        standard_deviations: the predicted ones, positive. They broadcast to the residuals' shape.
            For a regression model mean and deviations come from ``model.predict_distribution(x)``.
        axes: matplotlib Axes to draw into, to put several sets into one picture. The default is a
            new figure.
        label: name of the set in the legend. The legend also gives the residuals' size in units of
            the predicted standard deviation, and the coverage of the 95 % interval.

    Returns:
        The matplotlib Figure. It shows at most 2,000 quantiles.

    Raises:
        ValueError: as `tfpn.evaluation.standardized`.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> figure = qq_plot(2 * rng.normal(size=(50, 20)), 1.0, label="layer 1")
    >>> figure.axes[0].get_legend_handles_labels()[1][1]
    'layer 1: spread 1.96, 95 % interval covers 68 %'
    """
    z = evaluation.standardized(residuals, standard_deviations)
    expected, found = scipy.stats.probplot(z, fit=False)
    if len(z) > _QUANTILES:
        # Even steps in the normal's quantiles keep the tails.
        even = np.linspace(expected[0], expected[-1], _QUANTILES)
        chosen = np.unique(np.searchsorted(expected, even))
        expected, found = expected[chosen], found[chosen]
    if axes is None:
        axes = make_figure(columns=1, rows=1, panel=4.5).subplots()
    if not axes.lines:
        axes.axline((0, 0), slope=1, linestyle="--", color="grey", label="calibrated")
        axes.set_xlabel("standard normal quantile")
        axes.set_ylabel("residual / predicted standard deviation")
        axes.grid(alpha=0.3)
    spread = evaluation.residual_spread(residuals, standard_deviations)
    coverage = evaluation.interval_coverage(residuals, standard_deviations)
    text = f"spread {spread:.2f}, 95 % interval covers {100 * coverage:.0f} %"
    axes.plot(expected, found, ".", markersize=3, label=f"{label}: {text}" if label else text)
    axes.legend(fontsize=7, loc="upper left")
    return axes.figure


def field_map(
    found: Any, readings: Mapping[str, ArrayLike] | None = None, *, aspect: Any = "auto"
) -> Figure:
    """Draws a field on a grid: maps of mean and standard deviation, or a series with its band.

    Args:
        found: an `xarray.Dataset` from `tfpn.grids.to_xarray` with one or two coordinates, and with
            or without examples. At most the first four examples are drawn.
        readings: readings to draw as dots: a dict from the names of coordinates and channels in
            ``found`` to columns [rows]. If there are examples, it also holds the column of their
            labels.
        aspect: aspect of maps, as in Matplotlib's ``set_aspect``, such as "equal" for a plane.

    Returns:
        A matplotlib Figure with a row for each channel and example.

    Raises:
        ValueError: if ``found`` has no coordinate or more than two.

    Example:

    >>> from tfpn.grids import to_xarray
    >>> from tfpn.tasks import Values
    >>> values = Values(np.arange(6.0).reshape(1, 6, 1), np.ones((1, 6, 1)))
    >>> found = to_xarray(values, {"x": [1.0, 2.0], "y": [7.0, 8.0, 9.0]}, channels=["rain"])
    >>> figure = field_map(found, {"x": [1.5], "y": [8.0], "rain": [2.0]})
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['rain', 'rain: standard deviation']
    """
    channels = [name for name in found.data_vars if f"{name}_std" in found.data_vars]
    dims = list(found[channels[0]].dims) if channels else []
    examples = found.attrs.get("example")
    axes = [name for name in dims if name != examples]
    if len(axes) not in (1, 2):
        raise ValueError(f"found has the coordinates {axes}; pictures need one or two.")
    return draw_fields(
        found, {} if readings is None else dict(readings), channels, axes, examples, aspect
    )


def save(figure: Figure, path: PathLike) -> None:
    """Writes a figure as a PNG file with 120 dots per inch."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    write(path, file.getbuffer())


def _example(x, row):
    """One example without its unobserved points, with a batch axis of 1."""
    seen = np.isfinite(x["variance"][row]).any(-1)
    if not seen.any():
        raise ValueError(f"x: example {row} has no observed point; there is nothing to draw")
    example = {key: array[row : row + 1] for key, array in x.items()}
    return {**example, **{key: example[key][:, seen] for key in KEYS}}


def _grid_axes(x, resolution):
    seen = np.isfinite(x["variance"]).any(-1)
    points = x["points"][seen]
    low, high = points.min(0), points.max(0)
    margin = 0.05 * (high - low) + 1e-6
    return [
        np.linspace(a, b, resolution).astype(points.dtype)
        for a, b in zip(low - margin, high + margin, strict=True)
    ]


def _evaluate(model, example, query):
    """Mean and standard deviation of each block at the query points: a list of pairs [M, c]."""
    maps = model.feature_maps(example, query[None])
    return [(np.asarray(m["values"])[0], np.sqrt(np.asarray(m["variance"])[0])) for m in maps]


def _choose_channels(channels, maps, dimensions):
    available = min(mean.shape[-1] for mean, _ in maps)
    if channels is None:
        channels = range(3) if available >= 3 else [0]
    channels = [int(channel) for channel in np.atleast_1d(channels)]
    if any(not 0 <= channel < available for channel in channels):
        raise ValueError(
            f"channels: found {channels}; the blocks have channels 0 to {available - 1}"
        )
    if dimensions == 2 and len(channels) not in (1, 3):
        raise ValueError(f"channels: found {len(channels)} of them; give one, or three for RGB")
    return channels

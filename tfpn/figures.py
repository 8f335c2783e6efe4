"""Pictures of a model: its feature maps with their uncertainty, and its learning curves.

Every function returns a `matplotlib.figure.Figure` that is not registered with pyplot, so nothing
has to be closed and no display is needed.
"""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_PANEL = 1.9  # inches a panel
_QUERY_BATCH = 2048  # query points evaluated at once, to bound the memory


def feature_maps(model, x, *, channels=None, resolution=64, origin="upper"):
    """Draws the Gaussian-process feature maps of a few examples.

    One row an example: its samples, then for each block of the network the mean and the standard
    deviation of the block's output. In two dimensions these are images with the observed points as
    green dots on the standard deviation; in one dimension a curve with a band of two standard
    deviations and the observed points as green ticks.

    Args:
        model: a model with `feature_maps(x, query)`, such as `tfpn.models.PNCNN`.
        x: the observations dict of the examples to draw, B = number of rows.
        channels: the indices of the channels to draw, one or three in two dimensions (three are
            shown as red, green and blue, each scaled to its own range in the panel), any number in
            one dimension. The default is the first three, or the first where a block has fewer.
        resolution: grid points along each axis.
        origin: in two dimensions, "upper" for a second coordinate that grows downwards, as the
            rows of an image do, or "lower" for one that grows upwards, as on a map.

    Returns:
        A matplotlib Figure.

    Raises:
        ValueError: points of more than two dimensions, an example without an observed point, a
            channel that a block does not have, another number of channels than one or three in two
            dimensions, or an unusable `resolution` or `origin`.

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
        return _draw_curves(rows, maps, axes_ticks[0], channels)
    return _draw_images(rows, maps, axes_ticks, channels, origin)


def learning_curves(log):
    """Draws loss and accuracy over the epochs, training and validation.

    Args:
        log: dict from column name to one number an epoch, as `tfpn.training.read_log` and
            `keras.callbacks.History.history` give it.

    Returns:
        A matplotlib Figure with a panel for the loss and one for the accuracy.

    Raises:
        ValueError: the log has no column "loss".

    >>> figure = learning_curves({"loss": [2.0, 1.0], "val_loss": [2.1, 1.5]})
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['loss']
    """
    if "loss" not in log:
        raise ValueError(f"log: found columns {sorted(log)}; a column 'loss' is needed")
    shown = [key for key in ("loss", "accuracy") if key in log]
    figure = _figure(columns=len(shown), rows=1, panel=3.5)
    epochs = np.arange(1, len(log["loss"]) + 1)
    for axes, key in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        axes.plot(epochs, log[key], marker=".", label="training")
        if f"val_{key}" in log:
            axes.plot(epochs, log[f"val_{key}"], marker=".", label="validation")
        axes.set_xlabel("epoch")
        axes.set_ylabel(key)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def save(figure, path):
    """Writes a figure as a PNG file, at 120 dots an inch."""
    figure.savefig(path, format="png", dpi=120)


def _figure(columns, rows, panel=_PANEL):
    figure = Figure(figsize=(panel * columns, panel * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _example(x, row):
    """One example without its unobserved points, still with a batch axis of one."""
    seen = np.isfinite(x["variance"][row]).any(-1)
    if not seen.any():
        raise ValueError(f"x: example {row} has no observed point; there is nothing to draw")
    return {key: array[row : row + 1, seen] for key, array in x.items()}


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
    """Mean and standard deviation of each block at the query points, a list of [M, c] pairs."""
    parts = []
    for start in range(0, len(query), _QUERY_BATCH):
        maps = model.feature_maps(example, query[None, start : start + _QUERY_BATCH])
        parts.append([(np.asarray(m["values"])[0], np.asarray(m["variance"])[0]) for m in maps])
    blocks = []
    for pieces in zip(*parts, strict=True):
        mean, variance = (np.concatenate(field) for field in zip(*pieces, strict=True))
        blocks.append((mean, np.sqrt(variance)))
    return blocks


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


def _describe(channels):
    names = ", ".join(map(str, channels))
    if len(channels) == 1:
        return f"channel {names}"
    return f"channels {names} as red, green, blue, each scaled to its range in the panel"


def _draw_images(rows, maps, axes_ticks, channels, origin):
    columns = 1 + 2 * len(maps[0])
    figure = _figure(columns, len(rows))
    panels = figure.subplots(len(rows), columns, squeeze=False)
    extent = [axes_ticks[0][0], axes_ticks[0][-1], axes_ticks[1][0], axes_ticks[1][-1]]
    shape = (len(axes_ticks[0]), len(axes_ticks[1]))
    for line, example, blocks in zip(panels, rows, maps, strict=True):
        points, values = example["points"][0], example["values"][0]
        shown = line[0].scatter(*points.T, c=values[:, 0], s=12, cmap="viridis")
        figure.colorbar(shown, ax=line[0], shrink=0.7)
        for block, pair in enumerate(blocks):
            for offset, field in enumerate(pair):
                axes = line[1 + 2 * block + offset]
                _image(figure, axes, field.reshape(*shape, -1)[..., channels], extent)
                if offset == 1:
                    axes.plot(*points.T, ".", color="lime", markersize=2)
        for axes in line:
            axes.set(xlim=extent[:2], xticks=[], yticks=[], aspect="equal")
            axes.set_ylim(extent[2:] if origin == "lower" else extent[:1:-1])
    panels[0][0].set_title("samples (channel 0)", fontsize=8)
    for block in range(len(maps[0])):
        panels[0][1 + 2 * block].set_title(f"block {block + 1}: mean", fontsize=8)
        panels[0][2 + 2 * block].set_title(f"block {block + 1}: std. deviation", fontsize=8)
    figure.suptitle(f"{_describe(channels)}; green dots: observed points", fontsize=9)
    return figure


def _image(figure, axes, field, extent):
    """Shows [nx, ny, 1 or 3], first axis to the right; the limits of the axes turn the second."""
    image = field.transpose(1, 0, 2)
    if image.shape[-1] == 1:
        shown = axes.imshow(image[..., 0], origin="lower", extent=extent, cmap="viridis")
        figure.colorbar(shown, ax=axes, shrink=0.7)
        return
    low, high = image.min((0, 1)), image.max((0, 1))
    span = np.where(high > low, high - low, 1)
    axes.imshow((image - low) / span, origin="lower", extent=extent)


def _draw_curves(rows, maps, t, channels):
    columns = 1 + len(maps[0])
    figure = _figure(columns, len(rows), panel=2.6)
    panels = figure.subplots(len(rows), columns, squeeze=False, sharex=True)
    for line, example, blocks in zip(panels, rows, maps, strict=True):
        times, values, variance = (example[k][0] for k in ("points", "values", "variance"))
        for channel in range(values.shape[-1]):
            seen = np.isfinite(variance[:, channel])
            error = 2 * np.sqrt(variance[seen, channel])
            line[0].errorbar(times[seen, 0], values[seen, channel], error, fmt=".", markersize=4)
        for axes, (mean, std) in zip(line[1:], blocks, strict=True):
            for channel in channels:
                m, s = mean[:, channel], std[:, channel]
                axes.plot(t, m, linewidth=1, label=f"channel {channel}")
                axes.fill_between(t, m - 2 * s, m + 2 * s, alpha=0.25)
            axes.plot(
                times[:, 0],
                np.zeros(len(times)),
                "|",
                color="green",
                transform=axes.get_xaxis_transform(),
            )
        for axes in line:
            axes.tick_params(labelsize=6)
    panels[0][0].set_title("samples", fontsize=8)
    for block, axes in enumerate(panels[0][1:]):
        axes.set_title(f"block {block + 1}", fontsize=8)
    panels[0][-1].legend(fontsize=6)
    figure.suptitle(
        "mean and band of two standard deviations; green ticks: observed points", fontsize=9
    )
    return figure

"""Panels of feature maps: images, curves, colour bars and legends."""

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

_PANEL = 1.9  # inches, width and height of a panel
_LEGEND = 8  # most channels in a legend; a colour bar shows more


def make_figure(columns, rows, panel=_PANEL):
    figure = Figure(figsize=(panel * columns, panel * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _describe(channels):
    names = ", ".join(map(str, channels))
    if len(channels) == 1:
        return f"channel {names}"
    return f"channels {names} as red, green, blue, each scaled to its range in the panel"


def draw_images(rows, maps, axes_ticks, channels, origin):
    columns = 1 + 2 * len(maps[0])
    figure = make_figure(columns, len(rows))
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
    """Shows [nx, ny, 1 or 3], first axis to the right; the axes' limits orient the second one."""
    image = field.transpose(1, 0, 2)
    if image.shape[-1] == 1:
        shown = axes.imshow(image[..., 0], origin="lower", extent=extent, cmap="viridis")
        figure.colorbar(shown, ax=axes, shrink=0.7)
        return
    low, high = image.min((0, 1)), image.max((0, 1))
    span = np.where(high > low, high - low, 1)
    axes.imshow((image - low) / span, origin="lower", extent=extent)


def draw_curves(rows, maps, t, channels):
    columns = 1 + len(maps[0])
    figure = make_figure(columns, len(rows), panel=2.6)
    panels = figure.subplots(len(rows), columns, squeeze=False, sharex=True)
    seen_channels = range(rows[0]["values"].shape[-1])
    colors = {"samples": _colors(seen_channels), "blocks": _colors(channels)}
    for line, example, blocks in zip(panels, rows, maps, strict=True):
        times, values, variance = (example[k][0] for k in ("points", "values", "variance"))
        for channel, color in zip(seen_channels, colors["samples"], strict=True):
            seen = np.isfinite(variance[:, channel])
            error = 2 * np.sqrt(variance[seen, channel])
            line[0].errorbar(
                times[seen, 0],
                values[seen, channel],
                error,
                fmt=".",
                markersize=4,
                color=color,
                label=f"channel {channel}",
            )
        for axes, (mean, std) in zip(line[1:], blocks, strict=True):
            for channel, color in zip(channels, colors["blocks"], strict=True):
                m, s = mean[:, channel], std[:, channel]
                axes.plot(t, m, linewidth=1, color=color, label=f"channel {channel}")
                axes.fill_between(t, m - 2 * s, m + 2 * s, alpha=0.25, color=color, linewidth=0)
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
    _key(figure, panels, seen_channels, channels)
    figure.suptitle(
        "mean and band of two standard deviations; green ticks: observed points", fontsize=9
    )
    return figure


def _colors(channels):
    """One colour for each channel: Matplotlib's ten for a legend, else steps of a colour map."""
    if len(channels) <= _LEGEND:
        return [f"C{index}" for index in range(len(channels))]
    return list(colormaps["viridis"](np.linspace(0.0, 1.0, len(channels))))


def _key(figure, panels, seen_channels, channels):
    """Names the channels by a legend, or by a colour bar if there are many."""
    for column, shown in ((0, seen_channels), (-1, channels)):
        if len(shown) > _LEGEND:
            colors = ScalarMappable(BoundaryNorm(np.arange(len(shown) + 1) - 0.5, 256), "viridis")
            bar = figure.colorbar(colors, ax=panels[:, column], shrink=0.8)
            ticks = np.unique(np.linspace(0, len(shown) - 1, 5).astype(int))
            bar.set_ticks(ticks, labels=[str(shown[tick]) for tick in ticks])
            bar.ax.tick_params(labelsize=6)
            bar.set_label("channel", fontsize=6)
        elif len(shown) > 1 or column:  # a single channel of samples needs no name
            panels[0][column].legend(fontsize=6)

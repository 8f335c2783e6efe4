"""Panels of fields: maps with their standard deviations, and series with bands."""

import numpy as np

from tfpn._panels import make_figure

_EXAMPLES = 4
_BAND = 1.96  # half of a 95 % band, in standard deviations


def draw_fields(found, readings, channels, axes, examples, aspect):
    """A figure with a row for each channel and example."""
    labels = [None] if examples is None else list(found[examples].values[:_EXAMPLES])
    rows = [(channel, label) for channel in channels for label in labels]
    panel = (3.4, 3.0) if len(axes) == 2 else (7.0, 2.6)
    columns = len(axes)
    figure = make_figure(columns, len(rows), panel=panel[1])
    figure.set_size_inches(panel[0] * columns, panel[1] * len(rows) + 0.5)
    for line, (channel, label) in zip(
        figure.subplots(len(rows), columns, squeeze=False), rows, strict=True
    ):
        picked = {} if examples is None else {examples: label}
        mean, std = (found[name].sel(picked) for name in (channel, f"{channel}_std"))
        dots = _dots(readings, channel, axes, examples, label)
        title = channel if label is None else f"{channel}, {examples} {label}"
        if len(axes) == 2:
            _maps(figure, line, mean, std, dots, title, aspect)
        else:
            _series(line[0], mean, std, dots, title)
    return figure


def _dots(readings, channel, axes, examples, label):
    """Coordinates and values of an example's readings, or None if there is none."""
    if not all(name in readings for name in (*axes, channel)):
        return None
    where = [np.asarray(readings[name], float) for name in (*axes, channel)]
    kept = np.isfinite(where[-1])
    if examples is not None and examples in readings:
        kept &= np.asarray([str(name) == str(label) for name in readings[examples]])
    return [column[kept] for column in where]


def _maps(figure, line, mean, std, dots, title, aspect):
    x, y = mean.dims
    for axes, part, text in zip(line, (mean, std), ("", ": standard deviation"), strict=True):
        shown = axes.pcolormesh(
            part[x],
            part[y],
            part.values.T,
            cmap="viridis" if not text else "magma",
            rasterized=True,
        )
        figure.colorbar(shown, ax=axes, shrink=0.8)
        if dots is not None:
            look = {"color": "white"} if text else {"c": dots[2], "norm": shown.norm}
            axes.scatter(*dots[:2], s=8, linewidths=0.3, edgecolors="black", **look)
        axes.set(title=f"{title}{text}", xlabel=_with_unit(mean[x]), aspect=aspect)
        axes.title.set_fontsize(9)
    line[0].set_ylabel(_with_unit(mean[y]))


def _series(axes, mean, std, dots, title):
    (x,) = mean.dims
    axes.plot(mean[x], mean.values, linewidth=1, color="C0", label="mean")
    low, high = mean.values - _BAND * std.values, mean.values + _BAND * std.values
    axes.fill_between(mean[x], low, high, alpha=0.25, color="C0", linewidth=0, label="95 % band")
    if dots is not None:
        axes.plot(dots[0], dots[1], ".", markersize=4, color="black", label="readings")
    axes.set(title=title, xlabel=_with_unit(mean[x]))
    axes.title.set_fontsize(9)
    axes.legend(fontsize=7)


def _with_unit(coordinate):
    unit = coordinate.attrs.get("units")
    return coordinate.name if unit is None else f"{coordinate.name}, {unit}"

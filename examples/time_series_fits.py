"""Draws what a model of time series makes of records between their readings."""

import numpy as np
from matplotlib.figure import Figure

MOST_SHOWN = 6  # largest number of variables in the picture


def draw(model, x, names, variables, scale, box):
    """The Gaussian process of each variable for a few records, in the variables' units."""
    shown = slice(MOST_SHOWN)
    title = "fit and band of two standard deviations, without the noise of a reading"
    if len(variables) > MOST_SHOWN:
        title += f" ({MOST_SHOWN} of {len(variables)} variables)"
    variables, (mean, std) = variables[shown], (array[shown] for array in scale)
    query = np.linspace(*box, 200, dtype="float32")
    fit = model.input_process(x, query[None, :, None])
    middle = fit.mean().numpy()[:, shown] * std[:, None] + mean[:, None]
    band = 2 * fit.stddev().numpy()[:, shown] * std[:, None]
    figure = Figure(figsize=(4 * len(names), 2 * len(variables)), layout="constrained")
    axes = figure.subplots(len(variables), len(names), squeeze=False, sharex=True, sharey="row")
    for (row, column), panel in np.ndenumerate(axes):
        low, high = (middle + sign * band for sign in (-1, 1))
        panel.fill_between(query, low[column, row], high[column, row], alpha=0.3)
        panel.plot(query, middle[column, row])
        seen = np.isfinite(x["variance"][column, :, row])
        readings = x["values"][column, seen, row] * std[row] + mean[row]
        panel.plot(x["points"][column, seen, 0], readings, "k.")
        panel.set_title(names[column] if row == 0 else "")
        panel.set_ylabel(variables[row] if column == 0 else "")
    for panel in axes[-1]:
        panel.set_xlabel("time")
        panel.locator_params(axis="x", nbins=5)  # otherwise long numbers overlap
    figure.suptitle(title)
    return figure

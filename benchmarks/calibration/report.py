"""The table and the Q-Q figure of both calibration benchmarks."""

import textwrap

import numpy as np

LEVELS = (
    *(0.001, 0.005, 0.01),
    *np.round(np.arange(0.025, 0.976, 0.025), 3),
    *(0.99, 0.995, 0.999),
)


def table(rows):
    """Markdown: a line for each variant and number of points; residual std and coverage."""
    layers = sorted({row["layer"] for row in rows})
    heads = ["points", "", *(f"layer {layer}" for layer in layers)]
    heads += [f"rms error {layer}" for layer in layers]
    lines = [heads, ["---"] * len(heads)]
    groups = {}
    for row in rows:
        groups.setdefault((row["points"], row["variant"]), {})[row["layer"]] = row
    for (points, variant), by_layer in groups.items():
        cells = [_cell(by_layer[layer]) for layer in layers]
        errors = [f"{float(by_layer[layer]['rms_error']):.3f}" for layer in layers]
        lines.append([points, variant, *cells, *errors])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(row):
    if not row["spread"]:
        return ""
    std, error, coverage = (float(row[key]) for key in ("spread", "standard_error", "coverage"))
    return f"{std:.2f} ± {error:.2f}, {100 * coverage:.0f} %"


def draw(rows, path, limit=7):
    """Q-Q figure: quantiles of the residuals over the normal's, a panel for each variant.

    Args:
        rows: of the CSV, one a layer.
        path: of the PNG.
        limit: largest quantile of the residuals that is shown.
    """
    import scipy.stats
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["spread"]]
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    across = min(len(variants), 6)
    down = -(-len(variants) // across)
    figure = Figure(figsize=(2.4 * across, 2.6 * down), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    normal = scipy.stats.norm.ppf(LEVELS)
    for axis, variant in zip(panels, variants, strict=False):
        for row in (row for row in rows if row["variant"] == variant):
            quantiles = [float(row[f"q{level:g}"]) for level in LEVELS]
            axis.plot(normal, quantiles, ".-", markersize=3, label=f"layer {row['layer']}")
        axis.plot([-3.5, 3.5], [-3.5, 3.5], "k", linewidth=0.8)
        title = textwrap.fill(variant, 28, break_on_hyphens=False)
        axis.set(title=title, xlim=(-3.5, 3.5), ylim=(-limit, limit), xlabel="normal quantile")
        axis.title.set_fontsize("small")
        axis.grid(alpha=0.3)
    for axis in panels[len(variants) :]:
        axis.set_axis_off()
    panels[0].set_ylabel("quantile of residual\n/ predicted std")
    panels[0].legend(fontsize="small")
    figure.savefig(path, dpi=120)

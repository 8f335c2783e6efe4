"""Draws the pictures of docs/ideas.md, and those that the code of other guides draws.

    python docs/pictures.py                  # all
    python docs/pictures.py numbers          # of the guide numbers.md

A guide that trains briefly says so: ``EPOCHS = 1  # 20 for the figures of this page``. The pictures
are of the second number.
"""

import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

import tfpn

FOLDER = Path(__file__).parent / "pictures"
BLUE, ORANGE, GREEN = "tab:blue", "tab:orange", "tab:green"


def signal(t):
    return np.sin(2.2 * t) + 0.4 * np.sin(5.1 * t)


def readings():
    """Samples of the signal with a gap, and noise that differs from one to another."""
    rng = np.random.default_rng(3)
    times = np.sort(np.concatenate([rng.uniform(0, 2, 9), rng.uniform(4, 6, 7)]))[:, None]
    deviations = np.where(rng.uniform(size=times.shape) < 0.3, 0.4, 0.05)
    values = signal(times) + deviations * rng.normal(size=times.shape)
    return tfpn.observations([times], [values], [deviations**2])


def flow(x, query, drift, diffusion):
    """Mean and standard deviation of exp(drift . grad + 1/2 grad . diffusion grad) f."""
    mean, variance, _ = tfpn.math.convolve(
        x["points"],
        x["values"],
        x["variance"],
        query[None, :, None],
        weights=np.ones((1, 1, 1)),
        drift=np.array([[drift]]),
        diffusion=np.array([[[diffusion]]]),
        signal_std=np.float64(1.0),
        length_scale=np.float64(0.5),
        noise="shared",
    )
    return np.asarray(mean)[0, :, 0], np.sqrt(np.maximum(variance, 0))[0, :, 0]


def panels(columns, width=3.2, height=2.5):
    figure = Figure(figsize=(width * columns, height), layout="constrained", dpi=90)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def draw_process(axes, query, mean, deviation, color):
    axes.fill_between(query, mean - 2 * deviation, mean + 2 * deviation, color=color, alpha=0.25)
    axes.plot(query, mean, color=color)
    axes.grid(alpha=0.3)


def draw_readings(axes, x):
    axes.errorbar(
        *(x["points"].ravel(), x["values"].ravel(), 2 * np.sqrt(x["variance"].ravel())),
        **{"fmt": "o", "color": "black", "markersize": 3, "elinewidth": 0.8},
    )


def posterior(x, query):
    figure, (axes,) = panels(1, width=7)
    draw_process(axes, query, *flow(x, query, 0.0, 0.0), BLUE)
    axes.plot(query, signal(query), color="gray", linestyle="--", linewidth=1)
    draw_readings(axes, x)
    return figure


def flows(x, query):
    figure, row = panels(3)
    before = flow(x, query, 0.0, 0.0)
    titles = ("drift 1: moves", "diffusion 0.3: smooths", "both")
    for axes, title, (drift, diffusion) in zip(
        row, titles, [(1.0, 0.0), (0.0, 0.3), (1.0, 0.3)], strict=True
    ):
        axes.plot(query, before[0], color=BLUE, linestyle="--", linewidth=1)
        draw_process(axes, query, *flow(x, query, drift, diffusion), ORANGE)
        axes.set_title(title, fontsize=10)
        axes.set_ylim(-2.6, 2.6)
    return figure


def rectified():
    figure, (left, right) = panels(2, width=3.6)
    t, mean, deviation = np.linspace(-3, 3, 300), 0.3, 1.0
    left.fill_between(t, norm.pdf(t, mean, deviation), color=BLUE, alpha=0.3, label="before")
    above = t >= 0
    density = norm.pdf(t[above], mean, deviation)
    left.fill_between(t[above], density, color=ORANGE, alpha=0.5, label="after")
    left.bar(0, norm.cdf(0, mean, deviation), width=0.08, color=ORANGE)
    after, variance = (float(m) for m in tfpn.math.rectified_moments(mean, deviation**2))
    left.errorbar(after, 0.55, xerr=np.sqrt(variance), fmt="o", color="black", capsize=3)
    left.set_title("a Gaussian, rectified", fontsize=10)
    left.legend(fontsize=8)
    means = np.linspace(-3, 3, 121)
    after, variance = tfpn.math.rectified_moments(means, np.ones_like(means))
    draw_process(right, means, np.asarray(after), np.sqrt(variance) / 2, ORANGE)
    right.plot(means, np.maximum(means, 0), color="gray", linestyle="--", linewidth=1)
    right.set_title("mean and standard deviation after", fontsize=10)
    right.set_xlabel("mean before (standard deviation 1)", fontsize=9)
    return figure


def layers(x, query):
    keras.utils.set_random_seed(1)
    model = tfpn.models.PNCNN(
        2, spatial_dim=1, channels=16, num_blocks=3, num_basis=5, uncertainty="low_rank"
    )
    model.adapt(x)
    figure, row = panels(4, width=2.6)
    draw_process(row[0], query, *flow(x, query, 0.0, 0.0), BLUE)
    draw_readings(row[0], x)
    row[0].set_title("samples", fontsize=10)
    maps = model.feature_maps(x, query[None, :, None])
    for number, (axes, block) in enumerate(zip(row[1:], maps, strict=True), start=1):
        mean, variance = (np.asarray(block[key])[0, :, 0] for key in ("values", "variance"))
        draw_process(axes, query, mean, np.sqrt(variance), GREEN)
        axes.plot(x["points"].ravel(), np.full(x["points"].size, mean.min() - 1), "|", color="k")
        axes.set_title(f"after block {number}, one channel", fontsize=10)
    return figure


# The pictures that the code of a guide writes and its page shows.
GUIDES = {
    "gaps-and-forecasts": ("forecast.png", "gap.png"),
    "numbers": ("relief.png",),
    "time-series": ("vowels.png",),
}


def run_guide(name):
    """Runs the code of a guide at its full length, and keeps its pictures."""
    import notebooks

    text = notebooks.page_text(notebooks.guides()[name])
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    code = re.sub(r"^EPOCHS = \d+  # (\d+).*$", r"EPOCHS = \1", code, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.chdir(folder):
            exec(compile(code, name, "exec"), {})
        for picture in GUIDES[name]:
            shutil.copy(Path(folder) / picture, FOLDER / picture)


def ideas():
    x, query = readings(), np.linspace(-0.5, 6.5, 300)
    pictures = {
        "posterior": posterior(x, query),
        "flows": flows(x, query),
        "rectified": rectified(),
        "layers": layers(x, query),
    }
    for name, figure in pictures.items():
        figure.savefig(FOLDER / f"{name}.png")


def main(names):
    for name in names or ["ideas", *GUIDES]:
        ideas() if name == "ideas" else run_guide(name)


if __name__ == "__main__":
    main(sys.argv[1:])

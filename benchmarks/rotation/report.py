"""The table and the curves of the rotation benchmark."""

import collections

from benchmarks.rotation.networks import MODELS


def curves(rows):
    """Angles [A] and errors [seeds, A] by (model, training)."""
    import numpy as np

    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        by_seed = found[row["model"], row["training"]][row["seed"]]
        by_seed[float(row["angle"])] = float(row["error"])
    return {
        key: (
            np.array(sorted(next(iter(seeds.values())))),
            np.array([[line[angle] for angle in sorted(line)] for line in seeds.values()]),
        )
        for key, seeds in found.items()
    }


def table(rows):
    """A line for each model and training as Markdown: mean and standard deviation over seeds."""
    import numpy as np

    def text(values):
        spread = f" ± {100 * values.std(ddof=1):.1f}" if len(values) > 1 else ""
        return f"{100 * values.mean():.1f}{spread}"

    lines = [
        "| | trained | parameters | upright | mean over angles | worst angle | change of logits |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (model, training), (_, errors) in curves(rows).items():
        chosen = [row for row in rows if (row["model"], row["training"]) == (model, training)]
        worst = errors.mean(axis=0).argmax()
        change = max(float(row["logit_change"]) for row in chosen)
        largest = max(float(row["largest_logit"]) for row in chosen)
        cells = (model, training, chosen[0]["parameters"])
        cells += (text(errors[:, 0]), text(np.mean(errors, axis=1)), text(errors[:, worst]))
        cells += (f"{change:.1e} of {largest:.0f}",)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows, path):
    """Test error over the angle: the mean over seeds, and their range as a band."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    colours = {name: f"C{index}" for index, name in enumerate(MODELS)}
    for (model, training), (degrees, errors) in curves(rows).items():
        percent = 100 * errors
        style = "-" if training == "upright" else "--"
        axis.plot(
            degrees,
            percent.mean(axis=0),
            style,
            color=colours[model],
            label=f"{model}, trained {training}",
        )
        low, high = percent.min(axis=0), percent.max(axis=0)
        axis.fill_between(degrees, low, high, color=colours[model], alpha=0.2, linewidth=0)
    axis.set(xlabel="angle in degrees", ylabel="test error in %", xticks=range(0, 361, 45))
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    plt.close(figure)

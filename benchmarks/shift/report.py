"""Table and figure of the shift benchmark's results."""

import collections

import numpy as np

MEASURES = ("accuracy", "nll", "ece")
SHIFTED = ("-50%", "-80%", "noise 0.3", "noise 1", "dead third")  # of models trained on "whole"


def cells(rows):
    """Means over seeds: {(set, trained, test): {model: (accuracy, NLL, ECE)}}, in order."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        key = (row["set"], row["trained"], row["test"])
        found[key][row["model"]].append([float(row[measure]) for measure in MEASURES])
    return {
        key: {model: tuple(np.mean(values, axis=0)) for model, values in models.items()}
        for key, models in found.items()
    }


def table(found):
    """Accuracy / NLL / ECE of every cell as Markdown, the lowest NLL in bold."""
    models = list(dict.fromkeys(model for cell in found.values() for model in cell))
    lines = [
        f"| set | trained | test | {' | '.join(models)} |",
        "| --- " * (3 + len(models)) + "|",
    ]
    for (name, trained, test), cell in found.items():
        best = min(cell, key=lambda model: cell[model][1])
        texts = []
        for model in models:
            text = ""
            if model in cell:
                accuracy, nll, ece = cell[model]
                text = f"{100 * accuracy:.1f} / {nll:.3f} / {100 * ece:.1f}"
            texts.append(f"**{text}**" if model == best else text)
        lines.append(f"| {name} | {trained} | {test} | {' | '.join(texts)} |")
    return "\n".join(lines)


def summary(found):
    """Of each model: how often it is best, how calibrated, how near to the best accuracy."""
    models = list(dict.fromkeys(model for cell in found.values() for model in cell))
    lines = [
        "| model | cells | lowest NLL | mean NLL | mean ECE under shift | accuracy within 1 % of "
        "the best | largest gap |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for model in models:
        of = {key: cell for key, cell in found.items() if model in cell}
        least = [min(values[1] for values in cell.values()) for cell in of.values()]
        own = [cell[model][1] for cell in of.values()]
        lowest = np.mean(np.array(own) <= least)
        gaps = [max(c[0] for c in cell.values()) - cell[model][0] for cell in of.values()]
        shifted = [
            cell[model][2] for (_, trained, test), cell in of.items()
            if trained == "whole" and test in SHIFTED
        ]  # fmt: skip
        calibration = f"{100 * np.mean(shifted):.1f} %" if shifted else ""
        lines.append(
            f"| {model} | {len(of)} | {100 * lowest:.0f} % | "
            f"{np.mean(own):.3f} | {calibration} | "
            f"{100 * np.mean(np.array(gaps) <= 0.01):.0f} % | {100 * max(gaps):.1f} % |"
        )
    return "\n".join(lines)


def seconds(rows):
    """Median processor seconds of a fit on everything, by model and set, as Markdown."""
    found = collections.defaultdict(list)
    for row in rows:
        if row["trained"] == "whole":
            found[row["model"], row["set"]].append(float(row["fit_seconds"]))
    models, sets = (list(dict.fromkeys(key[axis] for key in found)) for axis in (0, 1))
    lines = [f"| seconds | {' | '.join(sets)} |", "| --- " * (1 + len(sets)) + "|"]
    for model in models:
        texts = [
            f"{np.median(found[model, name]):.0f}" if (model, name) in found else ""
            for name in sets
        ]
        lines.append(f"| {model} | {' | '.join(texts)} |")
    return "\n".join(lines)


def write(rows, folder):
    """Writes ``table.md`` and ``shift.png``, and prints the summary."""
    if not rows:
        return
    found = cells(rows)
    order = list(dict.fromkeys(row["set"] for row in rows))
    found = dict(sorted(found.items(), key=lambda item: order.index(item[0][0])))
    text = "\n\n".join((summary(found), seconds(rows), table(found)))
    head = "Means over seeds; accuracy in % / negative log likelihood / calibration error in %."
    (folder / "table.md").write_text(f"{head}\n\n{text}\n")
    print(f"{summary(found)}\n\n{seconds(rows)}")
    draw(found, folder / "shift.png")


def draw(found, path):
    """The negative log likelihood of models trained on everything, a panel for each set."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    sets = list(dict.fromkeys(name for name, trained, _ in found if trained == "whole"))
    models = list(dict.fromkeys(model for cell in found.values() for model in cell))
    bases = list(dict.fromkeys(model.partition("+thinned")[0] for model in models))
    colours = {base: pyplot.cm.tab10(number % 10) for number, base in enumerate(bases)}
    figure, axes = pyplot.subplots(1, len(sets), figsize=(4 * len(sets), 4), squeeze=False)
    for name, axis in zip(sets, axes[0], strict=True):
        tests = [test for other, trained, test in found if (other, trained) == (name, "whole")]
        for model in models:
            values = [found[name, "whole", test].get(model, (0, np.nan))[1] for test in tests]
            thinned = model.endswith("+thinned")
            axis.plot(
                tests, values, "o-" if thinned else ".--", label=model, alpha=0.8,
                color=colours[model.partition("+thinned")[0]],
            )  # fmt: skip
        axis.set(title=name, yscale="log")
        axis.tick_params(axis="x", rotation=60)
    axes[0, 0].set_ylabel("negative log likelihood (nats)")
    axes[0, -1].legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)

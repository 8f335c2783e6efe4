"""The trials of a search as a table and as a picture."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfpn.files import write
from tfpn.tuning.space import RANGE, rounded
from tfpn.tuning.tuners import OUTCOME, read_outcome
from tfpn.types import Figure, PathLike

COLUMNS = ("trial", "status", "score", "reason", "seconds", "epochs")


def read_trials(tuner: Any, names: Iterable[str]) -> list[dict[str, Any]]:
    """The trials of a search as dicts, in the order in which they began.

    Args:
        tuner: from `make_tuner`.
        names: the hyperparameters to show.

    Returns:
        A list of dicts with the keys `COLUMNS` and ``names``. The epochs are those of the trial
        itself; a later round of Hyperband goes on from an earlier trial.
    """
    rows = []
    for trial_id in tuner.oracle.start_order:
        trial = tuner.oracle.trials[trial_id]
        outcome = read_outcome(Path(tuner.get_trial_dir(trial_id)) / OUTCOME)
        values = {name: rounded(trial.hyperparameters.values.get(name, "")) for name in names}
        rows.append(
            {
                "trial": trial_id,
                "status": trial.status,
                "score": "" if trial.score is None else trial.score,
                **{key: outcome.get(key, "") for key in COLUMNS[3:]},
                **values,
            }
        )
    return rows


def write_table(rows: Sequence[Mapping[str, Any]], names: Iterable[str], path: PathLike) -> None:
    """Writes the trials as CSV."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, [*COLUMNS, *names])
    writer.writeheader()
    writer.writerows(rows)
    write(path, file.getvalue())


def draw(
    rows: Sequence[Mapping[str, Any]], space: Mapping[str, Any], objective: str, direction: str
) -> Figure:
    """Draws the scores in the order of the trials, and against each hyperparameter.

    Args:
        rows: from `read_trials`.
        space: the search space, which sets the scales of the axes.
        objective, direction: the score's name, and "min" or "max".

    Returns:
        A matplotlib Figure.

    >>> rows = [{"score": 0.5, "status": "COMPLETED", "model.channels": 8, "trial": "0"}]
    >>> figure = draw(rows, {"model.channels": [8, 16]}, "val_nll", "min")
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['trial', 'model.channels']
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = [name for name, values in space.items() if len(values) > 1]
    done = [(index, row) for index, row in enumerate(rows) if row["status"] == "COMPLETED"]
    failed = [index for index, row in enumerate(rows) if row["status"] == "FAILED"]
    columns = min(4, 1 + len(names))
    lines = -(-(1 + len(names)) // columns)
    figure = Figure(figsize=(3 * columns, 2.6 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    order = np.array([index for index, _ in done])
    scores = np.array([row["score"] for _, row in done], dtype=float)
    best = (np.minimum if direction == "min" else np.maximum).accumulate(scores)
    panels[0].plot(order, scores, ".", label="trial")
    panels[0].step(order, best, where="post", label="best so far")
    if failed:
        bottom = panels[0].get_xaxis_transform()
        panels[0].plot(failed, np.full(len(failed), 0.03), "rx", transform=bottom, label="failed")
    panels[0].set(xlabel="trial", ylabel=objective)
    panels[0].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    panels[0].legend(fontsize=7)
    for axes, name in zip(panels[1:], names, strict=False):
        values = [row[name] for _, row in done]
        if isinstance(space[name], list):
            # Choices stand side by side, whatever their values are.
            values = [space[name].index(value) for value in values]
            axes.set_xticks(range(len(space[name])), [str(choice) for choice in space[name]])
        elif space[name].get(RANGE[3], "linear") == "log":
            axes.set_xscale("log")
        shown = axes.scatter(values, scores, c=order, s=12, cmap="viridis")
        axes.set(xlabel=name, ylabel=objective)
    if names and len(done) > 1:
        figure.colorbar(shown, ax=panels[:], label="trial", shrink=0.7)
    for axes in panels[1 + len(names) :]:
        axes.remove()
    return figure

"""Runs the command inside the test process."""

import contextlib
import io
import json
import types

from tfpn.cli import main

EPOCHS = 3
KEEP = 40
# Small enough for seconds a run, long enough epochs to be killed in the middle of one.
SMALL = [
    "digits",
    *("--epochs", str(EPOCHS), "--channels", "12", "--batch-size", "50"),
    *("--learning-rate", "2e-2", "--set", f"data.keep={KEEP}"),
    # The recipe's augmentation stays on, so that the tests of resuming cover it.
    *("--set", "data.views=1"),
    *("--set", "model.num_blocks=1", "--set", "model.num_basis=5"),
    # Less to trace: what the command does is the same for every way to carry uncertainty.
    *("--set", "model.uncertainty=none", "--set", "model.marginal_likelihood_weight=0"),
]


def command(*arguments):
    """Runs the command in this process; gives status, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            status = stop.code
    return types.SimpleNamespace(status=status, out=out.getvalue(), err=err.getvalue())


def refused(outcome, *said):
    """Checks that a request was refused in one line which says all of `said`."""
    assert outcome.status == 2 and outcome.out == "", outcome.err
    assert "Traceback" not in outcome.err
    message = outcome.err.splitlines()[-1]
    assert message.startswith("tfpn ") and ": error: " in message
    for text in said:
        assert text in message, message


def write_recipe(tmp_path, table, *lines, model=(), training=()):
    """Writes a recipe for a table; returns its path."""
    path = tmp_path / "recipe.toml"
    parts = [
        'name = "own"\n[data]\nname = "table"',
        f"file = {json.dumps(table)}",
        *lines,
        '[model]\nname = "PNCNN"\nchannels = 2\nnum_basis = 2',
        *model,
        "[training]\nbatch_size = 4",
        *training,
    ]
    path.write_text("\n".join(parts))
    return path

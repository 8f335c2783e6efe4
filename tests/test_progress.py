"""Progress on standard error: when it is shown, how, and what it says."""

import io
import itertools
import sys

import pytest

from tfpn import progress
from tfpn.progress import Progress, quiet_if


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, screen, *, seconds=10.0, total=4, units=4, **options):
    """What `units` steps of so many seconds each write."""
    clock = itertools.count(0.0, seconds)
    now = [next(clock)]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress("work", total, "steps", **options) as bar:
        for _ in range(units):
            now[0] = next(clock)
            bar.advance()
    return screen.getvalue()


def test_a_terminal_has_one_line_that_is_rewritten(monkeypatch):
    text = shown(monkeypatch, Terminal())
    assert text.count("\n") == 1 and text.endswith("\n")
    lines = [line.rstrip() for line in text.split("\r")[1:]]
    assert lines == [
        "work: 1/4 steps, 25%",
        "work: 2/4 steps, 50%, 0:20 left",
        "work: 3/4 steps, 75%, 0:10 left",
        "work: 4 steps in 0:40",
    ]
    # A shorter line wipes out the longer one before it.
    assert len(text.split("\r")[-1]) > len("work: 3/4 steps, 75%, 0:10 left")


@pytest.mark.parametrize("screen, verbose", [(io.StringIO, "auto"), (Terminal, 2)])
def test_a_log_file_has_a_line_now_and_then(monkeypatch, screen, verbose):
    text = shown(monkeypatch, screen(), verbose=verbose, units=8, total=8)
    assert "\r" not in text
    assert text.splitlines() == [  # every 30 seconds
        "work: 1/8 steps, 12%",
        "work: 4/8 steps, 50%, 0:40 left",
        "work: 7/8 steps, 87%, 0:10 left",
        "work: 8 steps in 1:20",
    ]


@pytest.mark.parametrize("total", [None, 0])
def test_without_a_total_it_counts(monkeypatch, total):
    text = shown(monkeypatch, io.StringIO(), total=total, seconds=1000.0)
    assert text.splitlines()[0] == "work: 1 steps" and text.endswith("work: 4 steps in 1:06:40\n")


@pytest.mark.parametrize("options", [{"seconds": 0.5}, {"verbose": 0}], ids=["short", "quiet"])
def test_nothing(monkeypatch, options):
    assert shown(monkeypatch, Terminal(), **options) == ""


def test_one_within_another_shows_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress("outer"):
        assert shown(monkeypatch, io.StringIO()) == ""
    with quiet_if(0):
        assert shown(monkeypatch, io.StringIO()) == ""
    with quiet_if("auto"):
        assert shown(monkeypatch, io.StringIO()) != ""


def test_an_error_ends_the_line(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with pytest.raises(KeyError), Progress("work", 2) as bar:
        bar.advance()
        raise KeyError
    assert screen.getvalue().endswith("\n") and " in " not in screen.getvalue()


def test_a_closed_standard_error_is_no_error(monkeypatch):
    screen = io.StringIO()
    screen.close()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with Progress("work", 2) as bar:
        bar.advance()
    assert bar.done == 1


def test_bad_verbose():
    with pytest.raises(ValueError, match=r"verbose must be one of \('auto', 0, 1, 2\), found 3"):
        Progress("work", 1, verbose=3)


def test_the_first_units_do_not_count_as_they_take_longer(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress("work", 80, verbose=0) as bar:
        for now[0] in (17.0, 17.1, 17.2):
            bar.advance()
        assert bar.line() == "work: 3/80 steps, 3%, 0:08 left"

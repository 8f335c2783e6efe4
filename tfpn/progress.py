"""Shows the progress of long computations on standard error.

A terminal or a notebook gets one line, which is rewritten. A log file gets a new line now and then.
A computation of less than a few seconds shows nothing.
"""

import contextlib
import contextvars
import sys
import time
from typing import Any, get_args

from tfpn.types import Verbose

# Seconds before the first line, and from one line to the next: rewritten, and in a log file.
DELAY = 3.0
REWRITTEN, LOGGED = 0.2, 30.0

# The innermost `Progress`.
_active: contextvars.ContextVar[Any] = contextvars.ContextVar("tfpn_progress", default=None)


class Progress:
    """Context of a long computation: shows how much is done and how long the rest will take.

    A `Progress` within another shows nothing, so one with ``verbose=0`` keeps everything inside
    quiet.

    Args:
        what: name of the computation, such as "adapt".
        total: number of units, or None if it is not known.
        unit: name of the units, in the plural.
        verbose: 0 shows nothing, 2 writes lines for a log file. 1 and "auto" choose by where
            standard error goes.

    Raises:
        ValueError: for another ``verbose``.

    Example:

    >>> from tfpn.progress import Progress
    >>> with Progress("count", 3, "numbers") as progress:
    ...     for number in range(3):
    ...         progress.advance()
    >>> progress.line()
    'count: 3/3 numbers, 100%, 0:00 left'
    """

    def __init__(
        self, what: str, total: int | None = None, unit: str = "steps", verbose: Verbose = "auto"
    ) -> None:
        if verbose not in get_args(Verbose):
            raise ValueError(f"verbose must be one of {get_args(Verbose)}, found {verbose!r}.")
        self.what, self.total, self.unit, self.done = what, total, unit, 0
        self._first: Any = None  # when the first units were done, and how many
        self._verbose, self._quiet, self._width = verbose, True, 0

    def __enter__(self) -> "Progress":
        self._quiet = self._verbose == 0 or _active.get() is not None
        self._token = _active.set(self)
        self._rewrites = self._verbose != 2 and _is_watched()
        self._start = time.monotonic()
        self._next = self._start + DELAY
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        _active.reset(self._token)
        seconds = time.monotonic() - self._start
        if kind is None and not self._quiet and seconds >= DELAY:
            self._write(f"{self.what}: {self.done} {self.unit} in {_clock(seconds)}", last=True)
        elif kind is not None and self._rewrites and self._width:  # the error gets its own line
            self._write(self.line(), last=True)

    def advance(self, units: int = 1) -> None:
        """Counts some more units as done."""
        self.update(self.done + units)

    def update(self, done: int) -> None:
        """Sets the number of units that are done."""
        self.done = done
        now = time.monotonic()
        self._first = self._first or (now, done)
        # After the last unit `__exit__` writes its line.
        if not self._quiet and now >= self._next and done != self.total:
            self._next = now + (REWRITTEN if self._rewrites else LOGGED)
            self._write(self.line())

    def line(self) -> str:
        """The line to show."""
        if not self.total:
            return f"{self.what}: {self.done} {self.unit}"
        shown = f"{self.what}: {self.done}/{self.total} {self.unit}"
        shown += f", {100 * self.done // self.total}%"
        # The first units take longer than the others, as TensorFlow prepares its functions then.
        begin, before = self._first or (self._start, 0)
        if self.done <= before:
            return shown
        each = (time.monotonic() - begin) / (self.done - before)
        return f"{shown}, {_clock(each * (self.total - self.done))} left"

    def _write(self, text, last=False):
        if not self._rewrites:
            text += "\n"
        else:
            text, self._width = "\r" + text.ljust(self._width), len(text)
            text += "\n" if last else ""
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads it any more
            self._quiet = True


def quiet_if(verbose: Verbose) -> contextlib.AbstractContextManager[Any]:
    """Context within which nothing is shown, if ``verbose`` is 0."""
    return Progress("", verbose=0) if verbose == 0 else contextlib.nullcontext()


def _is_watched():
    """Whether a line may be rewritten."""
    if "ipykernel" in sys.modules:
        return True
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # None, or closed
        return False


def _clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

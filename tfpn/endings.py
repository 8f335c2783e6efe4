"""How a command ends if it cannot go on: with one line and an exit status, never a traceback."""

import contextlib
import os
import signal
import sys
import threading

from tfpn.files import WriteError

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Ending:
    """Context of a command: it sets ``status`` if something from outside ends the command.

    - SIGINT and SIGTERM give 128 plus the signal's number.
    - If the reader of standard output has gone, as with ``| head``, the status is 141, as for
      SIGPIPE.
    - A file, folder or output that cannot be read or written gives 2, or ``failure``.

    All other exceptions pass, such as argparse's SystemExit.

    Until you call `imported`, a signal ends the process at once. In the middle of an import, NumPy
    or TensorFlow would turn an exception into another one and leave half a module behind.

    Args:
        name: name of the command, with which the line begins. You may set it later.
        failure: the status if a file cannot be written.

    Set ``advice`` to the text that follows "interrupted" if the command can be continued.

    >>> with Ending("example") as ending:
    ...     ending.status = 0
    >>> ending.status
    0
    """

    def __init__(self, name, failure=2):
        self.name, self.failure = name, failure
        self.status, self.advice = None, ""
        self._received = None
        self._before = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in _WORDS:
                # A signal that the shell ignores for background jobs stays ignored.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._end_at_once)
        return self

    def imported(self):
        """Makes signals raise an exception from here on, so that the command can clean up."""
        for number in self._before:
            signal.signal(number, self._raise)

    def __exit__(self, kind, error, traceback):
        try:
            return self._handle(error)
        finally:
            for number, handler in self._before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, error):
        number = self._received
        if error is None or isinstance(error, SystemExit):
            try:
                sys.stdout.flush()
            except OSError as failed:
                error = failed
        if not number and (error is None or isinstance(error, SystemExit)):
            return False
        if error is None and not self.status:  # the command was done before the signal
            return False
        if isinstance(error, KeyboardInterrupt):
            number = number or signal.SIGINT
        # A library may turn a signal's exception into another one.
        if number is not None:
            self.status = 128 + number
            _say(self._signal_line(number))
        elif isinstance(error, BrokenPipeError) and error.filename is None:
            _drop_output()
            self.status = 141  # a shell's status for SIGPIPE
            if self.advice:  # Otherwise nothing is lost: the reader has had enough.
                _say(f"{self.name}: the reader of standard output has closed it{self.advice}")
        elif isinstance(error, OSError):
            if error.filename is None and error.errno is not None:
                _drop_output()
            self.status = self.failure
            _say(f"{self.name}: error: {_reason(error)}")
        else:
            return False
        return True

    def _signal_line(self, number):
        return f"{self.name}: {_WORDS[number]}{self.advice}"

    def _end_at_once(self, number, frame):
        with contextlib.suppress(OSError):
            os.write(2, f"{self._signal_line(number)}\n".encode())
        os._exit(128 + number)

    def _raise(self, number, frame):
        self._received = signal.Signals(number)
        raise KeyboardInterrupt


def _reason(error):
    if isinstance(error, WriteError):
        return error
    if error.filename is None:
        if error.errno is None:
            return str(error).splitlines()[0] if str(error) else type(error).__name__
        return f"cannot write standard output: {error.strerror}"
    return f"{error.filename}: {error.strerror}"


def _say(line):
    with contextlib.suppress(OSError):  # Nobody may read standard error either.
        print(line, file=sys.stderr, flush=True)


def _drop_output():
    """Discards the rest of standard output's buffer: writing it would fail again at exit."""
    with contextlib.suppress(OSError, AttributeError):  # standard output may not be a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

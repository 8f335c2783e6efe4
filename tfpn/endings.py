"""How a command ends when it cannot go on: by one line and an exit status, never a traceback."""

import contextlib
import os
import signal
import sys
import threading

from tfpn.files import WriteError

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Ending:
    """Context of a command, which sets ``status`` when something from outside ends it.

    SIGINT and SIGTERM give 128 and the signal's number; a reader of standard output that has gone,
    as that of ``| head``, gives 141 as SIGPIPE would; a file, folder or output that cannot be read
    or written gives 2, or ``failure``. All other exceptions pass, argparse's SystemExit among them.

    Until `imported` is called, a signal ends the process at once: an exception in the middle of an
    import comes out of NumPy or TensorFlow as another one, and leaves half a module behind.

    Args:
        name: of the command, with which the line begins; it may be set later.
        failure: the status of a file that cannot be written.

    ``advice`` is what to say after "interrupted", of a command that can be continued.

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
                # A signal that is ignored, as in the background of a shell, stays so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._end_at_once)
        return self

    def imported(self):
        """Signals raise an exception from here on, so that what is begun can be cleared up."""
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
        if error is None and not self.status:  # done before the signal took effect
            return False
        if isinstance(error, KeyboardInterrupt):
            number = number or signal.SIGINT
        # A signal's exception may come out of a library as another one.
        if number is not None:
            self.status = 128 + number
            _say(self._signal_line(number))
        elif isinstance(error, BrokenPipeError) and error.filename is None:
            _drop_output()
            self.status = 141  # as a shell says of SIGPIPE
            if self.advice:  # Otherwise nothing is lost, and the reader has had enough.
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
    """Lets what standard output still holds go nowhere, or writing it fails again at exit."""
    with contextlib.suppress(OSError, AttributeError):  # a standard output that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

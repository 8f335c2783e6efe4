"""Keeps lines of TensorFlow that need no action out of the command's standard error.

TensorFlow writes some of them before it has read TF_CPP_MIN_LOG_LEVEL. So what is written to the
file descriptor goes through a process of its own, which drops the known lines and passes on all
others. It outlives a crash of the command: the last words of a crash arrive.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import BinaryIO

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# What may be dropped, somewhere in a line.
KNOWN = re.compile(
    rb"All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    rb"|oneDNN custom operations are on"
    rb"|Could not find cuda drivers on your machine, GPU will not be used"
    # There is no driver (303) or no device (100). A driver that fails has other numbers.
    rb"|failed call to cuInit: .*(\(303\)|CUDA_ERROR_NO_DEVICE|no CUDA-capable device)"
    rb"|This TensorFlow binary is optimized to use available CPU instructions"
    rb"|To enable the following instructions: .*, in other operations, rebuild TensorFlow"
    rb"|Unable to register cu(DNN|FFT|BLAS) factory"
    # The graph optimiser leaves the graph as it is.
    rb"|layout failed: INVALID_ARGUMENT"
    rb"|oneDNN supports DT_BOOL only on platforms with AVX-512"
)


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Context in which TensorFlow is imported and used.

    A log level in the environment wins: then all is left as it is. So it is where TensorFlow was
    imported before.
    """
    if LEVEL in os.environ or "tensorflow" in sys.modules:
        yield
        return
    os.environ[LEVEL] = "2"
    try:
        screen = os.dup(2)
    except OSError:  # Standard error is closed.
        yield
        return
    before = sys.stderr
    try:
        # In a session of its own, which no Ctrl-C reaches.
        sieve = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=screen,
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        os.close(screen)
        yield
        return
    assert sieve.stdin is not None
    os.dup2(sieve.stdin.fileno(), 2)
    sieve.stdin.close()
    with contextlib.suppress(AttributeError, OSError):
        if before.fileno() == 2:
            # Python's own lines need no sieve, and a terminal stays one.
            encoding, errors = before.encoding, before.errors
            sys.stderr = open(screen, "w", 1, encoding, errors, closefd=False)
    try:
        yield
    finally:
        if sys.stderr is not before:
            sys.stderr.flush()
            sys.stderr = before
        os.dup2(screen, 2)
        os.close(screen)
        # Worker processes may hold the other end for longer.
        with contextlib.suppress(subprocess.TimeoutExpired):
            sieve.wait(timeout=2)


def copy_unknown(given: BinaryIO, taken: BinaryIO) -> None:
    """Copies the lines that are not known from one binary file to another."""
    for line in given:
        if not KNOWN.search(line):
            taken.write(line)
            taken.flush()


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        copy_unknown(sys.stdin.buffer, sys.stderr.buffer)

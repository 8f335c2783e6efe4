"""What of TensorFlow's start the command's standard error holds."""

import io
import os
import subprocess
import sys

import pytest

from tfpn.cli.quiet_start import LEVEL, copy_unknown

STARTED = b"""\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1.9 7193 port.cc:153] oneDNN custom operations are on. You may see slightly different
I0000 00:00:1.9 7193 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not \
be used.
E0000 00:00:1.9 7193 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call \
to cuInit: UNKNOWN ERROR (303)
E0000 00:00:1.9 7193 meta_optimizer.cc:967] layout failed: INVALID_ARGUMENT: Invalid graph
"""
REAL = b"""\
E0000 00:00:1.9 7193 cuda_platform.cc:52] failed call to cuInit: CUDA_ERROR_UNKNOWN (999)
F0000 00:00:1.9 7193 tensor.cc:733] Check failed: 1 == NumElements() (1 vs. 2)
OOM when allocating tensor
last words without an end"""


def run(code, **environment):
    kept = {key: value for key, value in os.environ.items() if key != LEVEL}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, env={**kept, **environment}
    )


def test_known_lines_are_dropped_and_others_kept():
    taken = io.BytesIO()
    copy_unknown(io.BytesIO(STARTED + REAL), taken)
    assert taken.getvalue() == REAL


WRITES = f"""
import os, sys
from tfpn.cli.quiet_start import quiet_start
with quiet_start():
    print("level", os.environ["{LEVEL}"])
    os.write(2, {STARTED + REAL!r})
    print("of Python", file=sys.stderr)
"""


@pytest.mark.parametrize("end", ["", "    os.abort()"], ids=["done", "crashed"])
def test_the_last_words_of_a_crash_arrive(end):
    done = run(WRITES + end)
    assert (done.returncode != 0) == bool(end)
    assert REAL in done.stderr and b"of Python\n" in done.stderr
    assert b"oneDNN" not in done.stderr and b"(303)" not in done.stderr


def test_a_level_in_the_environment_wins():
    done = run(WRITES, **{LEVEL: "1"})
    assert done.stdout.split() == [b"level", b"1"]
    assert STARTED + REAL in done.stderr


def test_afterwards_all_is_as_before():
    after = "\nos.write(2, b'oneDNN custom operations are on\\n'); print('end', file=sys.stderr)"
    assert run(WRITES + after).stderr.endswith(b"oneDNN custom operations are on\nend\n")

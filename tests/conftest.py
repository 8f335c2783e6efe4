"""Puts this folder on the path, for the modules that tests in several folders share."""

import gc
import os
import signal

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# What XLA compiles here runs a few times, so that optimising it takes longer than it saves.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)
# Matrices are small here, and threads that wait for each other take four times the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
# A shell lets what it starts in the background ignore interrupts, and its children too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Tracing makes millions of objects that stay: looking for garbage takes a tenth of the time.
gc.set_threshold(100_000, 50, 50)


def pytest_collection_modifyitems(items):
    """Tests that train in other processes are the longest: first, so that no worker ends late."""
    items.sort(key=lambda item: item.path.parent.name not in ("training", "tuning"))


def pytest_sessionfinish():
    """What is left goes with the process: pytest and Python look for garbage in it five times."""
    gc.freeze()


def _run_eagerly():
    """Runs `predict` and all compiled functions without tracing, which takes longer than few runs.

    For tests of numbers; that graphs compute the same is tested apart.
    """
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


eagerly = pytest.fixture(_run_eagerly, name="eagerly")
all_eagerly = pytest.fixture(_run_eagerly, name="all_eagerly", scope="module")

"""Puts this folder on the path, for the modules that tests in several folders share."""

import contextlib
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


# Folders whose tests compare with what other processes compute, as users run them.
OPTIMISED = {"cli", "training", "tuning"}


@pytest.fixture(autouse=True, scope="module")
def _unoptimised_graphs(request):
    """Graphs run a few times here, so that optimising them takes longer than it saves."""
    import tensorflow as tf

    optimised = request.path.parent.name in OPTIMISED
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not optimised})


# Folders whose tests train and predict for a few steps, which tracing takes longer than.
EAGER = {"tests", "models", "examples"}


@pytest.fixture(autouse=True, scope="module")
def _eager_folders(request):
    """No tracing in the tests of these folders, but for those that are marked `graphs`."""
    with _running_eagerly(request.path.parent.name in EAGER):
        yield


@pytest.fixture(autouse=True)
def _graphs_where_marked(request, _eager_folders):
    if request.node.get_closest_marker("graphs") is None:
        yield
        return
    with _running_eagerly(False):
        yield


@contextlib.contextmanager
def _running_eagerly(eager):
    import tensorflow as tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(eager)
    yield
    tf.config.run_functions_eagerly(before)


def _run_eagerly():
    """Runs `predict` and all compiled functions without tracing, which takes longer than few runs.

    For tests of numbers in other folders; that graphs compute the same is tested apart.
    """
    with _running_eagerly(True):
        yield


eagerly = pytest.fixture(_run_eagerly, name="eagerly")
all_eagerly = pytest.fixture(_run_eagerly, name="all_eagerly", scope="module")


@pytest.fixture
def always_cut(monkeypatch):
    """Cuts also examples so small that exact conditioning has fewer operations."""
    from tfpn.math.neighbourhoods import blocks

    monkeypatch.setattr(blocks, "exact_is_cheaper", lambda number, *_: number < 0)

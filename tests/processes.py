"""Processes for tests that kill some, or that set up devices before TensorFlow starts.

They are forked from one that has imported what takes long and done nothing else, so that a test
does not wait for the imports of each. Arguments have to be picklable.
"""

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tfpn.cli", "tfpn.training", "tfpn.models", "tfpn.tuning"])
SECONDS = 900  # after which a process is killed, and its test fails; a busy machine needs many


def start(function, *arguments):
    """Starts a function in a process of its own, which ends with this one at the latest."""
    process = PROCESSES.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def kill(process):
    """Kills a process as SIGKILL does, if it still runs."""
    process.kill()
    process.join()


def finish(process):
    """Waits for a process that is to end well."""
    process.join(SECONDS)
    assert process.exitcode == 0

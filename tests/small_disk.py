"""A disk that is full: no file may grow beyond a size, as the system sees to it."""

import contextlib
import resource


@contextlib.contextmanager
def largest_file(size):
    """Writing more than ``size`` bytes to a file fails with an OSError, as on a full disk.

    Unlike a small file system this needs no privilege. Python ignores the signal beside it.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

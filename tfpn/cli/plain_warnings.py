"""Shows the warnings of the library as a line of the command, without its source."""

import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def plain_warnings(name: str) -> Iterator[None]:
    """Context in which a `UserWarning` reads like an error of the command ``name``.

    Warnings of other kinds are for developers and keep their place in the source.
    """
    before = warnings.formatwarning

    def line(message, category, *where, **more):
        if not issubclass(category, UserWarning):
            return before(message, category, *where, **more)
        return f"{name}: warning: {message}\n"

    warnings.formatwarning = line
    try:
        yield
    finally:
        warnings.formatwarning = before

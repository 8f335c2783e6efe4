"""The errors of a run, and their messages in one sentence."""

import re
from typing import Any


class RunError(Exception):
    """A run cannot start or go on. The message says what was found and what to do."""


class TrainingDiverged(RunError):
    """The loss became NaN or infinite."""


def layer_message(error: Any) -> str | None:
    """Extracts a layer's own message from TensorFlow's report.

    Args:
        error: a `tf.errors.InvalidArgumentError`.

    Returns:
        The message, or None if the error does not come from a layer's own checks.
    """
    signs = ("Use noise='channel'", "not finite", "NaN")
    for line in error.message.replace("\\'", "'").splitlines():
        if any(sign in line for sign in signs):
            # TensorFlow frames the message in a graph, in eager mode, and for a number.
            frame = (
                r"^.*(assertion failed: \[|Summarized data: b[\"'])|([\]\"']\S*| : Tensor had .*)$"
            )
            return re.sub(frame, "", line.strip())
    return None


def first_line(error: BaseException) -> str:
    """The first line of an error's message, cut to 200 characters, or else its type."""
    lines = str(error).splitlines()
    return lines[0][:200].rstrip(".: ") if lines else type(error).__name__

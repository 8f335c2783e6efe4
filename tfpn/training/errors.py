"""What can go wrong in a run, and how to say it in one sentence."""

import re
from typing import Any


class RunError(Exception):
    """A run that cannot start or go on; the message says what was found and what to do."""


class TrainingDiverged(RunError):
    """The loss became NaN or infinite."""


def layer_message(error: Any) -> str | None:
    """The sentence in which a layer says what is wrong, out of TensorFlow's report.

    Args:
        error: a `tf.errors.InvalidArgumentError`.

    Returns:
        The sentence, or None if the error is not one of the layers' own checks.
    """
    signs = ("Use noise='channel'", "not finite", "NaN")
    for line in error.message.replace("\\'", "'").splitlines():
        if any(sign in line for sign in signs):
            # The frame that TensorFlow puts around it in a graph, in eager mode, and for a number.
            frame = (
                r"^.*(assertion failed: \[|Summarized data: b[\"'])|([\]\"']\S*| : Tensor had .*)$"
            )
            return re.sub(frame, "", line.strip())
    return None


def first_line(error: BaseException) -> str:
    """The first line of an error's message, cut to 200 characters, or its type."""
    lines = str(error).splitlines()
    return lines[0][:200].rstrip(".: ") if lines else type(error).__name__

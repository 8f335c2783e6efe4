"""The command ``tfpn``: train, tune, evaluate, predict, figures."""

import sys

from tfpn.cli.arguments import parser

__all__ = ["main"]


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: the command line without the program's name; `sys.argv` by default.

    Returns:
        The exit status: 0 done, 1 the training diverged, 2 the request cannot be carried out,
        130 interrupted.
    """
    options = parser().parse_args(arguments)
    # Imported after parsing: TensorFlow takes seconds, and --help does not need it.
    from tfpn.cli import commands

    try:
        return commands.run(options)
    except KeyboardInterrupt:
        print(
            "tfpn: interrupted; a training run or search continues with --resume", file=sys.stderr
        )
        return 130

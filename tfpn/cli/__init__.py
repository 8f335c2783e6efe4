"""The command ``tfpn``: train, tune, evaluate, predict, figures."""

import sys

from tfpn.endings import Ending

__all__ = ["main"]


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: the command line without the program's name; `sys.argv` by default.

    Returns:
        The exit status: 0 done; 1 the training diverged; 2 the request cannot be carried out or a
        file cannot be written; 130 interrupted; 143 terminated; 141 the reader of standard output
        has closed it.
    """
    with Ending("tfpn") as ending:
        from tfpn.cli.arguments import parser

        given = sys.argv[1:] if arguments is None else arguments
        if not given:
            parser().print_help(sys.stderr)
            ending.status = 2
            return 2
        options = parser().parse_args(given)
        ending.name = f"tfpn {options.command}"
        if options.command in ("train", "tune"):
            ending.advice = "; --resume continues it"
        # The import comes after parsing: TensorFlow takes seconds, and --help does not need it.
        from tfpn.cli import commands
        from tfpn.cli.plain_warnings import plain_warnings
        from tfpn.cli.quiet_start import quiet_start

        with quiet_start(), plain_warnings(ending.name):
            commands.load()
            ending.imported()
            ending.status = commands.run(options)
    return ending.status

"""What the command says on its own: its help without arguments, and warnings as one line."""

import warnings

from cli_support import command

from tfpn.cli.plain_warnings import plain_warnings


def test_without_arguments_the_command_shows_its_help():
    outcome = command()
    assert outcome.status == 2 and outcome.out == ""
    assert "train the model of a recipe" in outcome.err and "tfpn train --help" in outcome.err


def test_warnings_for_users_are_one_line_and_others_keep_their_place(capsys):
    before = warnings.formatwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda text, kind, file, line, *rest: print(
            warnings.formatwarning(text, kind, file, line), end=""
        )
        with plain_warnings("tfpn train"):
            warnings.warn("values: too large", stacklevel=1)
            warnings.warn("old", DeprecationWarning, stacklevel=1)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "tfpn train: warning: values: too large"
    assert __file__ in said[1] and "DeprecationWarning: old" in said[1]
    assert warnings.formatwarning is before

"""The error of a command."""


class CommandError(Exception):
    """A request cannot be carried out. The message says what was found and what to do."""

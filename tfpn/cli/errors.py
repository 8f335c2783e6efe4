"""The error of a request."""


class CommandError(Exception):
    """A request that cannot be carried out; the message says what was found and what to do."""

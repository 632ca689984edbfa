"""Errors of a command that come from its arguments.

Printed as one message, without a traceback.
"""


class CommandError(Exception):
    """The command cannot be done; the message has the reason and the remedy."""


def missing_extra(what: str, extra: str, err: ImportError) -> CommandError:
    """The error for an optional package that is not installed."""
    return CommandError(
        f"{what} needs the package {err.name}, which is not installed.\n"
        f"Install it with: pip install 'teucer[{extra}]'"
    )

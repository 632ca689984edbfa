"""Errors of a command that come from its arguments.

Printed as one message, without a traceback.
"""

import contextlib
import traceback
from collections.abc import Iterator

from teucer._base.tracebacks import treat_uncaught


class CommandError(Exception):
    """The command cannot be done; the message has the reason and the remedy."""


def missing_extra(what: str, extra: str, err: ImportError) -> CommandError:
    """The error for an optional package that is not installed."""
    return CommandError(
        f"{what} needs the package {err.name}, which is not installed.\n"
        f"Install it with: pip install 'teucer[{extra}]'"
    )


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Print errors of the user's program with the program's frames alone; the command then ends
    with status 1."""
    try:
        yield
    except (CommandError, OSError):
        raise
    except Exception as err:
        treat_uncaught(err)
        traceback.print_exception(err)
        raise SystemExit(1) from None

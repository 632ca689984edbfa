"""The exception that XLA raises when compiling or running a program fails, and the calls that are
being made.

C++ takes down calls sooner than Python walks through frames.
"""

from __future__ import annotations

from jaxlib import _jax

JaxRuntimeError: type[RuntimeError] = _jax.JaxRuntimeError
Traceback = _jax.Traceback
# Within it tracebacks begin after the function that entered it.
Scope = _jax.TracebackScope


def reword(err: BaseException, said: str) -> None:
    """Replace the message of an error of the runtime by `said`."""
    err.args = (said,)
    if hasattr(err, "_error_message"):  # the class of jaxlib prints this
        err._error_message = said

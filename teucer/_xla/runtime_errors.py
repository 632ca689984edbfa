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
    """Have an error of the runtime say something else."""
    err.args = (said,)
    if hasattr(err, "_error_message"):  # what jaxlib's class prints
        err._error_message = said

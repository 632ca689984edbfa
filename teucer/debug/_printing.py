"""Prints of values while a program runs."""

from __future__ import annotations

import builtins
import logging
import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core import reference_types as references
from teucer._dialects.references.cells import Ref
from teucer._trees import pytrees
from teucer.lax._callbacks import debug_callback as callback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Value


def _print_line(text: str) -> None:
    """Print in one piece: devices may print at the same time."""
    builtins.print(f"{text}\n", end="")


class _Checker(string.Formatter):
    """Checks that a format and its arguments fit, before any value is known."""

    def check_unused_args(self, used: Any, args: Any, kwargs: Any) -> None:
        places = [a for i, a in enumerate(args) if i not in used]
        names = [k for k in kwargs if k not in used]
        advice = (
            '\n  You may be passing an f-string (i.e, `jax.debug.print(f"{x}")`) which should be '
            'updated to a format string with arguments, `jax.debug.print("{x}", x=x)`: an '
            "f-string shows the traced value, not the number."
        )
        if places:
            raise ValueError(f"Unused positional arguments to `jax.debug.print`: {places}{advice}")
        if names:
            raise ValueError(f"Unused keyword arguments to `jax.debug.print`: {names}.{advice}")

    def format_field(self, value: Value, spec: str) -> str:
        return ""

    def convert_field(self, value: Value, conversion: object) -> Any:
        return value


def _show(
    out: Callable[[str], None],
    options: dict[str, bool],
    fmt: str | None,
    args: Sequence[Value],
    kwargs: dict[str, object],
) -> Any:
    """Have `out` called with the text; without a format, a function that takes it and its
    arguments."""
    if fmt is None:
        if args or kwargs:
            raise TypeError(
                f"debug_print received unexpected arguments in the two-call form: {args}, "
                f"{kwargs}.\n  Give it options only, and the format and its arguments to what it "
                "returns."
            )

        def later(fmt: str, *args: object, **kwargs: object) -> None:
            _show(out, options, fmt, args, kwargs)

        return later
    if not isinstance(fmt, str):
        raise TypeError(
            f"jax.debug.print: the format is a string, got {fmt!r:.100} of type {type(fmt)}.\n"
            "  jax.debug.print('{}', x) prints x."
        )
    if not options["skip_format_check"]:
        try:
            _Checker().format(fmt, *args, **kwargs)
        except (IndexError, KeyError) as err:
            what = f"the name {err}" if isinstance(err, KeyError) else "more arguments"
            raise type(err)(
                f"jax.debug.print: the format asks for {what}; it is given {len(args)} by position"
                f"{f' and {sorted(kwargs)} by name' if kwargs else ''}.\n    format: {fmt!r}\n"
                "  For braces themselves write {{ and }}."
            ) from None
    printing: dict[str, Any] = {
        k: v for k, v in np.get_printoptions().items() if k != "override_repr"
    }

    def show(*args: object, **kwargs: object) -> None:
        with np.printoptions(**printing):  # a thread of the runtime may have others
            out(fmt.format(*args, **kwargs))

    if references.may_alias(pytrees.tree_leaves((args, kwargs))):
        args, kwargs = pytrees.tree_map(
            lambda x: x[...] if isinstance(x, Ref) or references.is_part(x) else x,
            (args, kwargs),
            is_leaf=references.is_part,
        )
    callback(ordered=options["ordered"], partitioned=options["partitioned"])(show, *args, **kwargs)
    return None


def print(
    fmt: str | None = None,
    *args: object,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: object,
) -> Any:
    """Print values while the program runs: `fmt.format(*args, **kwargs)` of the numbers.

    ordered: prints keep the order of the program. partitioned: every device prints its part of the
    arrays.
    skip_format_check: leave errors in the format until values are known.
    Without a format, a function that takes it and its arguments, whatever their names:
    `print(ordered=True)("{ordered}", ordered=x)`.
    Raises ValueError if the format and the arguments do not fit.

    >>> import teucer as jax
    >>> f = jax.jit(lambda x: jax.debug.print("x = {x}", x=x))
    >>> f(3); jax.effects_barrier()
    x = 3
    """
    options = {
        "ordered": ordered,
        "partitioned": partitioned,
        "skip_format_check": skip_format_check,
    }
    return _show(_print_line, options, fmt, args, kwargs)


def log(
    fmt: str | None = None,
    *args: object,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: object,
) -> Any:
    """As `print`, to the logger 'teucer' at level INFO."""
    options = {
        "ordered": ordered,
        "partitioned": partitioned,
        "skip_format_check": skip_format_check,
    }
    return _show(logging.getLogger("teucer").info, options, fmt, args, kwargs)

"""Library functions that are compiled when called eagerly and plain Python while a program is
traced."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from teucer._base import tracebacks
from teucer._core import trace
from teucer._core.stand_ins import plain_classes, stood_in
from teucer._core.typing import Binary, Unary
from teucer._transform.library import library
from teucer._transform.templates import Templates

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
InMemory = Callable[..., Any]


class LibraryFunction(Protocol[P, R]):
    """The object that `fast` makes of a function: `__wrapped__` is the function itself, `compiled`
    the C++ dispatcher."""

    __name__: str
    __wrapped__: Callable[..., Any]
    compiled: Any

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


def converting(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function that looks at its operands get arrays for objects of users' classes with
    `__jax_array__`."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        for x in (*args, *kwargs.values()):
            if type(x) not in plain_classes:
                given, named = stood_in(args, kwargs)
                return function(*given, **named)
        return function(*args, **kwargs)

    return wrapper


class LibraryUnary(Unary, Protocol):
    """As `LibraryFunction`, of one operand."""

    __wrapped__: Callable[..., Any]
    compiled: Any


class LibraryBinary(Binary, Protocol):
    """As `LibraryFunction`, of two operands."""

    __wrapped__: Callable[..., Any]
    compiled: Any


@overload
def fast(function: Callable[P, R], /) -> LibraryFunction[P, R]: ...
@overload
def fast(
    *, static: Sequence[str] = (), in_memory: InMemory | None = None
) -> Callable[[Callable[P, R]], LibraryFunction[P, R]]: ...
def fast(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static: Sequence[str] = (),
    in_memory: InMemory | None = None,
) -> Any:
    """As `library`, but while a program is traced the call does not go through C++, which takes 5
    us (benchmarks/trace.py).

    in_memory: an eager call tries it first; it returns None if it has no result.
    """
    if function is None:
        return functools.partial(_fast, static=static, in_memory=in_memory)
    return _fast(function, static)


def at_once(
    *, static: Sequence[str], in_memory: InMemory | None = None
) -> Callable[[Callable[P, R]], LibraryFunction[P, R]]:
    """As `fast`, for a public function that looks at its arguments: called eagerly it is one call
    of C++, checks included.

    Arguments that C++ does not take (lists of axes, arrays where `static` has numbers), and calls
    that fail, run as plain Python. So errors show the user's arguments, not traced ones.
    """
    return functools.partial(_fast, static=static, plain=True, in_memory=in_memory)


def _fast(
    function: Callable[..., Any],
    static: Sequence[str],
    *,
    plain: bool = False,
    in_memory: InMemory | None = None,
) -> Any:
    compiled = library(static=static)(function)
    current, templates, plainly = trace._current, Templates(function), converting(function)

    def wrapper(*args: object, **kwargs: object) -> Any:
        here = current.trace
        if here is trace.EVAL:
            try:
                if in_memory is not None:
                    found = in_memory(*args, **kwargs)
                    if found is not None:
                        return found
                try:
                    return compiled(*args, **kwargs)
                except Exception:
                    if not plain:
                        raise
                return plainly(*args, **kwargs)
            except Exception as err:
                tracebacks.hide_frames(err)  # the inner boundary does not know of this frame
                raise
        for x in (*args, *kwargs.values()):
            if type(x) not in plain_classes:
                args, kwargs = stood_in(args, kwargs)
                break
        return templates.call(here, args, kwargs)

    functools.update_wrapper(wrapper, function)
    wrapper.compiled = compiled  # type: ignore[attr-defined]
    return wrapper

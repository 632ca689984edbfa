"""Names of parts of programs.

Scopes, names of transformations, places; what the compiler is told of operations.

The scopes in force are a tuple of strings, the outermost first; those that a transformation adds
are `Transform`s. A jaxpr has its own: its equations do not say the scopes around the call of it.
Who evaluates it joins the two (`joined`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from typing import TYPE_CHECKING, Any, final

from teucer._base.functions import is_own

if TYPE_CHECKING:
    from teucer._core.typing import Source, Value


@final
class Transform(str):
    """The name of a transformation: it is written around the scope that follows, `jvp(layer)`."""

    __slots__ = ()


JVP, TRANSPOSE, VMAP = map(Transform, ("jvp", "transpose", "vmap"))


NO_SCOPES: tuple[str, ...] = ()


class _Names(threading.local):
    scope: tuple[str, ...] = NO_SCOPES
    place: Any = (
        None  # while a jaxpr is traced again: the record of the user's line that made the equation
    )


_names = _Names()


class scope(ContextDecorator):
    """Add a name to the scopes in a `with` block or a function; may be entered again while
    entered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.saved: list[tuple[str, ...]] = []

    def _recreate_cm(
        self,
    ) -> scope:  # A fresh one for each call: decorated functions run in several threads.
        return scope(self.name)

    def __enter__(self) -> str:
        self.saved.append(_names.scope)
        _names.scope = extended(_names.scope, self.name)
        return self.name

    def __exit__(self, *exc: object) -> None:
        _names.scope = self.saved.pop()


class Used:
    """Whether anything was ever told: nothing looks for it before."""

    ever = False


@final
class Tagged(tuple[str, ...]):
    """Name scopes with `tags`: pairs of strings that tell the compiler something about an
    operation."""

    tags: tuple[tuple[str, str], ...]

    def __new__(cls, scopes: tuple[str, ...], tags: tuple[tuple[str, str], ...]) -> Tagged:
        made = super().__new__(cls, scopes)
        made.tags = tags
        return made


@contextmanager
def tagged(tags: Mapping[str, str]) -> Iterator[None]:
    """A `with` block in which `tags` are added to the compiler metadata of all operations."""
    outer = _names.scope
    if tags:
        _names.scope = joined(outer, Tagged((), tuple(tags.items())))
    try:
        yield
    finally:
        _names.scope = outer


def tagging() -> bool:
    """Whether operations may have tags."""
    return Used.ever


def tags_of(source: Source) -> tuple[tuple[str, str], ...] | None:
    """The tags of an equation with this source; None where it says nothing of them."""
    return source[1].tags if source is not None and type(source[1]) is Tagged else None


def extended(outer: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Scopes with one more within."""
    inner = (*outer, name)
    return Tagged(inner, outer.tags) if type(outer) is Tagged else inner


def joined(outer: tuple[str, ...], inner: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes of an equation that is evaluated within `outer`: those and its own, with the tags
    of both."""
    if type(outer) is Tagged or type(inner) is Tagged:
        around, own = (s.tags if type(s) is Tagged else () for s in (outer, inner))
        return Tagged((*outer, *inner), tuple({**dict(around), **dict(own)}.items()))
    return (outer + inner if inner else outer) if outer else inner


def apart(outer: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes with which a jaxpr recorded within `outer` begins: no names, but the compiler
    metadata."""
    return Tagged((), outer.tags) if type(outer) is Tagged else ()


def without(scopes: tuple[str, ...], depth: int) -> tuple[str, ...]:
    """Scopes without the outermost ones."""
    return Tagged(scopes[depth:], scopes.tags) if type(scopes) is Tagged else scopes[depth:]


@final
class within:
    """Add the name of a transformation in a `with` block."""

    __slots__ = ("name", "saved")

    def __init__(self, name: Transform) -> None:
        self.name = name

    def __enter__(self) -> None:
        outer = self.saved = _names.scope
        _names.scope = extended(outer, self.name)

    def __exit__(self, *exc: object) -> None:
        _names.scope = self.saved


def called(fun: Callable[..., object], *args: Value, **kwargs: object) -> Any:
    """The result of a function. While a function of the user runs, operations get its lines, not
    those of the equation that is being evaluated."""
    saved = _names.place
    if saved is None or is_own(fun):
        return fun(*args, **kwargs)
    _names.place = None
    try:
        return fun(*args, **kwargs)
    finally:
        _names.place = saved


def stack_text(scopes: Iterable[str]) -> str:
    """Scopes as text: a transformation is written around the scope that follows.

    >>> stack_text(("model", TRANSPOSE, JVP, "layer", "norm", VMAP))
    'model/transpose(jvp(layer))/norm/vmap()'
    """
    parts, around = [], []
    for name in scopes:
        if type(name) is Transform:
            around.append(name)
            continue
        parts.append(_wrapped(around, name))
        around = []
    if around:
        parts.append(_wrapped(around, ""))
    return "/".join(parts)


def _wrapped(around: list[Transform], name: str) -> str:
    return "".join(f"{t}(" for t in around) + name + ")" * len(around)

"""Functions wrapped in transformations of their arguments and results, for libraries that trace
functions of flat values.

A transformation may hand out a value beside the results (the tree of the results, say): it stores
it while the function runs, and the caller reads it afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._base import config, memo
from teucer._core.debug_info import DebugInfo

if TYPE_CHECKING:
    from teucer._core.typing import Params, Value


class StoreException(Exception):
    """A program read a value before it was stored, or stored it a second time."""


@final
class Store:
    """A place for one value, which is stored once.

    again: a value equal to the stored one may be stored again.
    """

    __slots__ = ("again", "full", "value")

    def __init__(self, again: bool = False) -> None:
        self.again, self.full, self.value = again, False, None

    def store(self, value: Any) -> None:
        """Keep the value.

        Raises StoreException if there is one already.
        """
        if self.full and not (self.again and value == self.value):
            raise StoreException("Store occupied")
        self.full, self.value = True, value

    def read(self) -> Any:
        """The value.

        Raises StoreException if there is none yet.
        """
        if not self.full:
            raise StoreException("Store empty")
        return self.value


@final
class WrappedFun:
    """A function with transformations around it, the outermost first; `call_wrapped` calls it.

    f: the function itself. f_transformed: that with its transformations. transforms:
    (transformation, its arguments) each.
    stores: for each transformation the store of its auxiliary output, None for one without.
    params: (name, value) pairs of the function. in_type: the types of its arguments if they are
    fixed.
    """

    __slots__ = (
        "__weakref__",
        "debug_info",
        "f",
        "f_transformed",
        "in_type",
        "params",
        "stores",
        "transforms",
    )

    def __init__(
        self,
        f: Callable[..., Any],
        f_transformed: Callable[..., Any],
        transforms: tuple[Any, ...],
        stores: tuple[Store | None, ...],
        params: tuple[tuple[str, Any], ...],
        in_type: Any,
        debug_info: Any,
    ) -> None:
        self.f, self.f_transformed, self.transforms, self.stores = (
            f,
            f_transformed,
            transforms,
            stores,
        )
        self.params, self.in_type, self.debug_info = params, in_type, debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed function>")

    def wrap(
        self,
        gen: Callable[..., object],
        gen_static_args: tuple[object, ...],
        out_store: Store | None,
    ) -> WrappedFun:
        """This function inside gen(f, [out_store,] *gen_static_args, *args, **kwargs)."""
        first = (self.f_transformed,) if out_store is None else (self.f_transformed, out_store)
        return WrappedFun(
            self.f,
            functools.partial(gen, *first, *gen_static_args),
            ((gen, gen_static_args), *self.transforms),
            (out_store, *self.stores),
            self.params,
            None,
            self.debug_info,
        )

    def call_wrapped(self, *args: object, **kwargs: object) -> Any:
        """Call the function inside its transformations."""
        return self.f_transformed(*args, **kwargs)

    def populate_stores(self, stores: Sequence[Store | None]) -> None:
        """Store the auxiliary outputs that the transformations of an equal function gave."""
        for own, other in zip(self.stores, stores, strict=True):
            if own is not None and other is not None:
                own.store(other.read())

    def replace_debug_info(self, dbg: object) -> WrappedFun:
        """The same with another debug info."""
        return WrappedFun(
            self.f, self.f_transformed, self.transforms, self.stores, self.params, self.in_type, dbg
        )

    def with_unknown_names(self) -> WrappedFun:
        """The same, whose arguments have no names in messages."""
        return self.replace_debug_info(
            DebugInfo(self.f, (), getattr(self.debug_info, "transform", "jit"))
        )

    def _key(self) -> tuple[Any, ...]:
        return self.transforms, self.params, self.in_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self.f == other.f and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.f, self._key()))

    def __repr__(self) -> str:
        lines = [
            f"{i}   : {getattr(gen, '__name__', gen)}   {static}"
            for i, (gen, static) in enumerate(self.transforms)
        ]
        return "\n".join(["Wrapped function:", *lines, f"Core: {self.__name__}", ""])


def wrap_init(
    f: Callable[..., object], params: Params | None = None, *, debug_info: object = None
) -> WrappedFun:
    """A function without transformations yet.

    params: parameters of it. debug_info: information for messages, from `jax.api_util.debug_info`.

    >>> wrap_init(abs).call_wrapped(-2)
    2
    """
    fixed = tuple(sorted((params or {}).items()))
    return WrappedFun(
        f, functools.partial(f, **dict(fixed)), (), (), fixed, None, debug_info or DebugInfo(f)
    )


def _decorator(wrapped: Callable[..., object]) -> Callable[..., Any]:
    """`wrapped(gen, ...)` as a decorator of gen."""

    @functools.wraps(wrapped)
    def of(gen: Callable[..., object]) -> Callable[..., Any]:
        return functools.partial(wrapped, gen)

    return of


@_decorator
def transformation2(
    gen: Callable[..., object], fun: WrappedFun, *gen_static_args: Value
) -> WrappedFun:
    """A decorator: makes of gen(f, *static, *args, **kwargs) a function that wraps a WrappedFun,
    given static.

    >>> @transformation2
    ... def scaled(f, factor, x):
    ...     return f(factor * x)
    >>> scaled(wrap_init(abs), -3).call_wrapped(2)
    6
    """
    return fun.wrap(gen, gen_static_args, None)


@_decorator
def transformation_with_aux2(
    gen: Callable[..., object],
    fun: WrappedFun,
    *gen_static_args: Value,
    use_eq_store: bool = False,
    unk_names: bool = False,
) -> tuple[WrappedFun, Callable[[], Any]]:
    """As `transformation2` for gen(f, store, *static, ...), which calls store.store(value); returns
    the reader of it too.

    use_eq_store: an equal value may be stored again. unk_names: names of arguments mean nothing in
    messages.

    >>> @transformation_with_aux2
    ... def counted(f, store, *args):
    ...     store.store(len(args))
    ...     return f(*args)
    >>> g, count = counted(wrap_init(max))
    >>> g.call_wrapped(3, 5), count()
    (5, 2)
    """
    store = Store(use_eq_store)
    wrapped = fun.wrap(gen, gen_static_args, store)
    return (wrapped.with_unknown_names() if unk_names else wrapped), store.read


@_decorator
def transformation(
    gen: Callable[..., Generator[Any, Any, None]], fun: WrappedFun, *gen_static_args: Value
) -> WrappedFun:
    """As `transformation2` for a generator: it yields (args, kwargs), is sent the result, and
    yields the new result.

    >>> @transformation
    ... def scaled(factor, x):
    ...     result = yield (factor * x,), {}
    ...     yield [result]
    >>> scaled(wrap_init(abs), -3).call_wrapped(2)
    [6]
    """
    return fun.wrap(_run, (gen, *gen_static_args), None)


@_decorator
def transformation_with_aux(
    gen: Callable[..., Generator[Any, Any, None]],
    fun: WrappedFun,
    *gen_static_args: Value,
    use_eq_store: bool = False,
) -> tuple[WrappedFun, Callable[[], Any]]:
    """As `transformation` for a generator that yields (result, value to hand out) at last; returns
    the reader of it too."""
    store = Store(use_eq_store)
    return fun.wrap(_run_storing, (gen, *gen_static_args), store), store.read


def _run(
    f: Callable[..., object],
    gen: Callable[..., Generator[Any, Any, None]],
    *args: Any,
    **kwargs: object,
) -> Any:
    steps = gen(*args, **kwargs)
    inner_args, inner_kwargs = next(steps)
    return steps.send(f(*inner_args, **inner_kwargs))


def _run_storing(
    f: Callable[..., Any], store: Store, gen: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    result, value = _run(f, gen, *args, **kwargs)
    store.store(value)
    return result


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """Whether the first of two readers has a value, and the value of the reader that has one.

    Raises StoreException unless exactly one has.
    """
    found = []
    for first, read in ((True, aux1), (False, aux2)):
        try:
            found.append((first, read()))
        except StoreException:
            continue
    if len(found) != 1:
        raise StoreException("both stores occupied" if found else "neither store occupied")
    return found[0]


def cache(call: Callable[..., object], *, explain: object = None) -> Callable[..., Any]:
    """Cache call(fun, *args), where fun is a WrappedFun, as long as its function lives.

    What the transformations hand out is kept too. explain: accepted for programs written for JAX.

    >>> calls = []
    >>> @cache
    ... def run(fun, x):
    ...     calls.append(x)
    ...     return fun.call_wrapped(x)
    >>> run(wrap_init(abs), -1), run(wrap_init(abs), -1), calls
    (1, 1, [-1])
    """
    kept = memo.Memo()

    @functools.wraps(call)
    def cached(fun: WrappedFun, *args: object) -> Any:
        of_function = kept.of(fun.f)
        key = (fun._key(), args, config.trace_context())
        found = of_function.get(key)
        if found is None:
            found = memo.remember(of_function, key, (call(fun, *args), fun.stores))
        else:
            fun.populate_stores(found[1])
        return found[0]

    return cached

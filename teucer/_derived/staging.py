"""Programs and shapes of functions (`make_jaxpr`, `eval_shape`), and modes of tracing
(`disable_jit`, `named_scope`, ...)."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._arrays.structs import as_struct, described
from teucer._base import config, tracebacks
from teucer._core import axes, calls, names
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.trace import EVAL, Trace, Tracer, current_trace, using
from teucer._trees import pytrees
from teucer._xla.dispatcher import PjitFunction

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Value


def make_jaxpr(
    fun: Callable[..., object],
    static_argnums: int | Sequence[int] = (),
    axis_env: Iterable[tuple[object, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives the jaxpr of `fun` on arguments of given types.

    Its arguments are arrays, ShapeDtypeStructs, or anything with shape and dtype. With return_shape
    it gives (jaxpr, shapes and dtypes of the results).
    axis_env: (name, size) pairs of axes for collectives.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.make_jaxpr(jnp.sin)(1.)
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    calls.check_callable(fun, "make_jaxpr")
    numbers = calls.as_indices(static_argnums, "static_argnums", "make_jaxpr")

    @tracebacks.boundary_of(fun)
    def jaxpr_maker(*args: object, **kwargs: object) -> Any:
        jaxpr, consts, tree, _ = _stage(
            fun, args, kwargs, "make_jaxpr", numbers, dict(axis_env or ())
        )
        closed = ClosedJaxpr(jaxpr, consts)
        if not return_shape:
            return closed
        return closed, pytrees.tree_unflatten(tree, [as_struct(a) for a in closed.out_avals])

    jaxpr_maker.__name__ = f"make_jaxpr({calls.fun_name(fun)})"
    jaxpr_maker.__qualname__ = f"make_jaxpr({getattr(fun, '__qualname__', calls.fun_name(fun))})"
    jaxpr_maker.__module__ = make_jaxpr.__module__
    return jaxpr_maker


def _stage(
    fun: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    what: str,
    static: tuple[int, ...] = (),
    axis_env: dict[object, int] | None = None,
) -> calls.StagedCall:
    call = described(calls.flatten_call(args, kwargs, static))
    with axes.extended(axis_env or {}):
        return calls.stage_user(fun, call, calls.check_leaves(call, fun, what), what)


@tracebacks.api_boundary
def eval_shape(fun: Callable[..., object], *args: object, **kwargs: object) -> Any:
    """Shapes and dtypes of a function's results, as ShapeDtypeStructs, without computing them.

    args, kwargs: arrays, or anything with shape and dtype. Of a jitted function, static arguments
    as they are; the structs have the shardings of results that it was given.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.eval_shape(jnp.sin, jax.ShapeDtypeStruct((2,), jnp.float32))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    calls.check_callable(fun, "eval_shape")
    if isinstance(fun, PjitFunction) and hasattr(
        fun, "eval_shape"
    ):  # functions of the library have no members
        return fun.eval_shape(*args, **kwargs)
    staged = _stage(fun, args, kwargs, "eval_shape")
    return pytrees.tree_unflatten(staged.out_tree, [as_struct(a) for a in staged.jaxpr.out_avals])


@contextlib.contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """In the `with` block, jitted functions run as plain Python, so that one can print and debug
    their values.

    >>> import teucer as jax
    >>> with jax.disable_jit():
    ...     jax.jit(lambda x: print(x))(1.)
    1.0
    """
    with config.disable_jit(disable):
        yield


@contextlib.contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """In the `with` block, operations on known values run at once, even while a function is traced;
    others are traced.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @jax.jit
    ... def f(x):
    ...     with jax.ensure_compile_time_eval():
    ...         n = int(jnp.sum(jnp.arange(3)))
    ...     return x * n
    >>> f(2.)
    Array(6., dtype=float32, weak_type=True)
    """
    trace = current_trace()
    with using(trace if trace is EVAL else KnownTrace(trace)):
        yield


@final
class KnownTrace(Trace):
    """Runs operations on known values at once; others go to the trace behind it."""

    __slots__ = ()

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        assert self.parent is not None
        trace = self.parent if any(isinstance(x, Tracer) for x in args) else EVAL
        with using(trace):
            return trace.process(primitive, args, params)

    def lift(self, x: Value, aval: Aval) -> Any:
        return x

    def staging(self) -> bool:
        return False


def named_scope(name: str) -> Any:
    """In the `with` block, operations carry `name` in profiles and dumps.

    Raises TypeError if name is not a str.
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope name argument must be a string, got {name!r}")
    return names.scope(name)


def named_call(fun: Callable[..., object], *, name: str | None = None) -> Callable[..., Any]:
    """`fun`, whose operations carry its name in profiles and dumps."""
    label = calls.fun_name(fun) if name is None else name

    @functools.wraps(fun)
    def wrapped(*args: Value, **kwargs: object) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return wrapped

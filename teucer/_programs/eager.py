"""Primitives run eagerly: each is a program of its own, called through a C++ dispatcher."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._base import config, errors, memo
from teucer._core.debug_info import DebugInfo
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr
from teucer._core.leaks import leak_message
from teucer._core.primitive import Primitive
from teucer._core.provided import provided
from teucer._core.stage import stage_flat
from teucer._core.trace import Tracer, typeof
from teucer._devices.placement import IncompatibleDevices, placement_of
from teucer._programs.compile import program_for
from teucer._programs.job import Job
from teucer._programs.run import execute, fast_path, shard_arg_fallback
from teucer._trees.pytrees import tree_structure
from teucer._xla.dispatcher import dispatcher

if TYPE_CHECKING:
    from teucer._core.typing import Params, Value


_dispatchers: dict[Any, Callable[..., tuple[Any, ...]]] = {}


def runner(primitive: Primitive, params: Params) -> Callable[..., tuple[Any, ...]]:
    """Runs a primitive at once: a C++ dispatcher for each primitive and parameter set."""
    key = (primitive, *params.items()) if params else primitive
    try:
        found = _dispatchers.get(key)
    except TypeError as err:
        raise TypeError(f"{primitive}: parameters must be hashable: {params}") from err
    if found is None:
        # The runner of a jaxpr is freed with the jaxpr, since programs define functions again and
        # again.
        kept = next((v.cache for v in params.values() if type(v) is ClosedJaxpr), _dispatchers)
        found = kept.get(key) or memo.remember(kept, key, dispatcher_of(primitive, params))
    return found


provided.fill(runner=runner)


def dispatcher_of(primitive: Primitive, params: Params) -> Callable[..., tuple[Any, ...]]:
    """A new C++ dispatcher for a primitive and its parameters; whoever keeps it keeps its
    programs."""
    name = primitive.name
    programs: dict[Any, Jaxpr] = {}

    def apply(*args: Value) -> tuple[Any, ...]:
        return primitive.call(*args, **params)

    def cache_miss(*args: Value) -> tuple[Any, Any]:
        check_no_tracers(args)
        avals = tuple([typeof(x) for x in args])
        for aval in avals:
            if aval.is_high:
                from teucer._dialects.high.lowering import evaluate_high  # for types of libraries

                return evaluate_high(primitive, args, params), None
        signature = (avals, config.trace_context())
        jaxpr = programs.get(signature)
        if jaxpr is None:
            jaxpr, _ = stage_flat(apply, avals, DebugInfo(str(name)))
            memo.remember(programs, signature, jaxpr)
        if config.debug_key_reuse.value:
            note_keys(jaxpr, args, str(name))
        try:
            placement = placement_of(args)
            program = program_for(Job(jaxpr, str(name), placement, (False,) * len(args)))
        except IncompatibleDevices as err:
            raise err.naming(args, [f"{i} of {name}" for i in range(len(args))]) from None
        fast = fast_path(program, _tuple_tree(len(program.out_avals)), args)
        return tuple(execute(program, args)), fast

    def run_uncached(*args: Value) -> tuple[Any, ...]:
        """C++ calls this under disable_jit: a primitive runs as a program even then."""
        outs: tuple[Any, ...] = cache_miss(*args)[0]
        return outs

    made = dispatcher(str(name), run_uncached, cache_miss, shard_arg_fallback=shard_arg_fallback)
    made.staged = programs  # for readers of what is compiled
    return made  # type: ignore[no-any-return]


def note_keys(jaxpr: Jaxpr, args: Sequence[Value], what: str) -> None:
    """If `random` is loaded, have it look whether a call uses a random key twice."""
    if hasattr(provided, "note_keys"):
        provided.note_keys(jaxpr, args, what)


@functools.cache
def _tuple_tree(n: int) -> Any:
    return tree_structure((0,) * n)


def check_no_tracers(args: Sequence[Value]) -> None:
    """Raise UnexpectedTracerError if a traced value has come where there is nothing to trace."""
    for x in args:
        if isinstance(x, Tracer):
            raise errors.UnexpectedTracerError(leak_message(x))


def forget() -> None:
    """Forget the programs of all primitives."""
    _dispatchers.clear()

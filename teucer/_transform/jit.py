"""`jit`: functions traced once a signature, compiled, and called through the C++ dispatcher."""

from __future__ import annotations

import copyreg
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from teucer._base import config, memo
from teucer._core import array_ops, axes
from teucer._core.calls import FlatCall, check_leaves, flatten_call, leaf_names, stage_user
from teucer._core.high import fits
from teucer._core.provided import provided
from teucer._core.trace import EVAL, Tracer, current_trace
from teucer._devices.placement import IncompatibleDevices
from teucer._dynamic import dynamic, padding
from teucer._executables import compilations, misses, prefetch
from teucer._executables import compile as executables
from teucer._programs.compile import program_for
from teucer._programs.eager import check_no_tracers, note_keys
from teucer._transform.dispatching import dispatching, method
from teucer._transform.jit_calls import Inline, execute_staged, hoist_consts, jit_p, merge_equal
from teucer._transform.jit_options import JitOptions, donated_leaves, options_of
from teucer._transform.staged import (
    Staged,
    check_in_shardings,
    check_traced,
    job_of,
    naming_arguments,
    prefixed,
    refuse_given_twice,
    refuse_structs,
    run_apart,
    unhashable,
)
from teucer._trees import pytrees
from teucer._xla.dispatcher import PjitFunction

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._xla.dispatcher import FastPath


# By function, then by signature: alike jits of one function share their traces.
_staged = memo.Memo()


def jit(
    fun: Callable[..., object] | None = None,
    /,
    *,
    in_shardings: object = None,
    out_shardings: object = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: object = None,
    backend: str | None = None,
    inline: bool | Inline = False,
    compiler_options: Mapping[str, object] | None = None,
    outline: bool | None = None,
    dynamic_dims: object = None,
    dynamic_results: bool | int | None = None,
    memory: int | float | str | None = None,
) -> Any:
    """A function that is traced once for each signature of its arguments, compiled by XLA, and run
    as one program.

    fun: a function of pytrees of arrays that returns one, without side effects; or None, for a
    decorator with options.
    in_shardings, out_shardings: how arguments and results are laid over devices, and in memory:
        Shardings, PartitionSpecs or Formats, or tree prefixes of them; None where the arguments, or
        the compiler, decide (docs/sharding.md).
    static_argnums, static_argnames: arguments that are hashable Python values, which the program
        depends on; another value means another program. Arguments given by position may be passed
        by name, and the reverse.
    donate_argnums, donate_argnames: arguments whose buffers the program may reuse; they are deleted
    by the call.
    keep_unused: pass arguments that the results do not depend on to the program all the same.
    device, backend: where to run; by default where committed arguments are.
    inline: when called while another function is traced, write the equations there instead of a
        call; `jax.Inline` has more choices.
    compiler_options: XLA's debug options by name; also optimization_level and memory_fitting_level
        ("O0" to "O3", or XLA's number), exec_time_optimization_effort and memory_fitting_effort
        (numbers). Of programs, not of functions within them.
    outline: emit equations that the program repeats, such as layers, once, as functions that XLA
        does not inline; by default where that pays (the option teucer_outline; docs/outlining.md).
        True: wherever something repeats, and when called while another function is traced, this
        function is one of them. False: nowhere.
    dynamic_dims: axes of arguments that may have any size up to a bound, for all of which the
    function is compiled once. It maps an argument, by position or name, to {axis: size}; a size
    alone means axis 0. A size is the bound, or (least, greatest), or "power of two": one
    compilation for each power of two. It holds for all arrays of an argument. Axes that have one
    range and, in a call, one size are one dimension inside the function.
    dynamic_results: whether boolean masks, nonzero, unique and their kin may give arrays whose size
        depends on values; an int also bounds sizes that nothing else bounds, such as the size of
        `repeat`. By default the option teucer_dynamic_results.
    memory: how much memory the program may need at once on one device, with its arguments and
        results: bytes, or text such as "14 GiB"; or the share of what it would need, as a float.
        Gradients in it then save less for their backward passes and compute it again
        (docs/guide/memory_budget.md).
    Raises TypeError for arguments that are not arrays, ValueError for static arguments that are not
    hashable, and errors of the function when it needs the value of a traced argument.

    >>> import teucer as jax
    >>> jax.jit(lambda x: x * 2)(3.)
    Array(6., dtype=float32, weak_type=True)
    >>> total = jax.jit(lambda x: x.sum(), dynamic_dims={"x": 1024})  # docs/dynamic_shapes.md
    >>> [float(total(jax.numpy.ones(n))) for n in (3, 1000)]
    [3.0, 1000.0]
    """
    as_options = functools.partial(
        options_of,
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        compiler_options=compiler_options,
        outline=outline,
        dynamic_dims=dynamic_dims,
        dynamic_results=dynamic_results,
    )
    decorator = functools.partial(_jit, as_options, memory)
    return decorator if fun is None else decorator(fun)


def _jit(
    as_options: Callable[..., JitOptions], memory: object, fun: Callable[..., object], /
) -> Any:
    options = as_options(fun)
    if memory is not None:
        fun = provided.within_memory(fun, memory, options)
    return make_jit(fun, options)


def make_jit(fun: Callable[..., object], options: JitOptions) -> Any:
    """The dispatcher for a function with the given options, with the methods of a jitted
    function."""

    held: list[object] = []  # the function's record, as long as this can be called

    def cache_miss(*args: object, **kwargs: object) -> tuple[Any, Any]:
        held[:] = (_staged.of(fun),)
        return call_jitted(fun, options, args, kwargs)

    return dispatching(fun, options, cache_miss, key=options if options.are_few() else None)


def _reduce(jitted: PjitFunction) -> Any:
    """For pickle: a jitted function by its name if it is found there, else as the jit of a
    function."""
    fun, options = jitted._jit
    found: Any = sys.modules.get(fun.__module__)
    for name in fun.__qualname__.split("."):
        found = getattr(found, name, None)
    return fun.__qualname__ if found is jitted else (make_jit, (fun, options))


copyreg.pickle(PjitFunction, _reduce)


@method
def clear_cache(jitted: PjitFunction, fun: Callable[..., object], options: JitOptions) -> None:
    """Forget traces and compiled programs."""
    jitted._clear_cache()
    for staged in _staged.of(fun).values():
        for program in staged.jaxpr.cache.get("programs", {}).values():
            for executable in program.executables:
                executables.forget(executable)
    _staged.drop(fun)
    misses.forget(fun)


def call_jitted(
    fun: Callable[..., object],
    options: JitOptions,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> tuple[Any, Any]:
    """Call a jitted function that C++ has no program for: its results, and a fast path for the next
    time."""
    call = flatten_call(args, kwargs, options.static_argnums, options.static_argnames)
    outs: Any = None
    fast: FastPath | None = None
    sizes = None
    if (
        options.dynamic_dims or options.dynamic_results or config.dynamic_results.value
    ) and not current_trace().staging():
        staged, sizes = _stage_dynamic(fun, call, options)
    else:
        staged = stage_call(fun, call, options)
    # Written out here: each call of a function costs depth in deeply nested jits.
    if sizes is not None and padding.is_dynamic(staged.jaxpr.jaxpr):
        outs = provided.call_sized(fun, call, staged, sizes, options)
    elif current_trace() is not EVAL:
        if options.compiler_options or staged.dialects:
            check_traced(fun, call, staged, options.compiler_options)
        leaves: Iterable[Any] = (*staged.consts, *call.leaves)
        told = options.in_shardings is not None or options.out_shardings is not None
        if told:
            ins, wanted = prefixed(staged, call, options.in_shardings, options.out_shardings)
            leaves = map(array_ops.lay_out, leaves, ins)
        outs = jit_p.call(
            *leaves,
            jaxpr=staged.jaxpr,
            name=staged.debug_info.name,
            donated_invars=staged.donated,
            keep_unused=options.keep_unused,
            inline=options.inline,
            options=options.compiler_options,
            outline=options.outline,
        )
        outs = map(array_ops.lay_out, outs, wanted) if told else outs
    else:
        leaves = (*staged.consts, *call.leaves)
        check_no_tracers(leaves)
        if staged.dialects:
            refuse_given_twice(fun, call, staged)
            outs, fast = run_apart(staged, call, job_of(staged, call, options))
        if outs is None:
            if config.debug_key_reuse.value:
                note_keys(staged.jaxpr.jaxpr, leaves, "jit-compiled function")
            refuse_structs(staged, call.leaves)
            job = job_of(staged, call, options)
            try:
                program = program_for(job)
            except IncompatibleDevices as err:  # with the arguments that the function itself names
                raise naming_arguments(err, staged, leaves) from None
            outs, fast = execute_staged(program, staged, leaves)
    return pytrees.tree_unflatten(staged.out_tree, outs), fast


def _stage_dynamic(
    fun: Callable[..., object], call: FlatCall, options: JitOptions
) -> tuple[Staged, tuple[tuple[str, int], ...]]:
    """Trace a function whose arguments or results may have dynamic sizes; the sizes of variables in
    this call."""
    avals = check_leaves(call, fun, "jit")
    allowed = (
        config.dynamic_results.value if options.dynamic_results is None else options.dynamic_results
    )
    symbolic = dynamic.symbolic_call(fun, call, avals, options.dynamic_dims)
    bound = None if isinstance(allowed, bool) else allowed
    with (
        dynamic.using_scope(symbolic.scope if allowed else None, bound),
        symbolic.explained(fun, call),
    ):
        return stage_call(fun, call, options, symbolic.avals), symbolic.sizes


def stage_call(
    fun: Callable[..., object],
    call: FlatCall,
    options: JitOptions,
    avals: tuple[ShapedArray, ...] | None = None,
) -> Staged:
    """Trace a function for the signature of a call, or for the given types, or find it traced."""
    symbolic = avals is not None
    avals = check_leaves(call, fun, "jit") if avals is None else avals
    if options.in_shardings is not None:
        check_in_shardings(fun, call, options.in_shardings, avals)
    donate = (options.donate_argnums, options.donate_argnames)
    try:
        statics = (call.statics, tuple(type(v) for group in call.statics for _, v in group))
        key = (
            call.tree,
            avals,
            statics,
            donate,
            config.trace_context(),
            axes.axis_key(),
            dynamic.scope_key(),
        )
        hash(key)
    except TypeError as err:
        raise unhashable(fun, call, err) from err
    by_signature = _staged.of(fun)
    found: Staged | None = by_signature.get(key)
    again, signature = 0, key
    while found is not None and found.dialects and not fits(found.jaxpr.in_avals, found.consts):
        again += 1  # values that it closes over have changed
        key = (*signature, again)  # type: ignore[assignment]
        found = by_signature.get(key)
    if found is None:
        eager = current_trace() is EVAL
        misses.note(fun, key, by_signature, leaf_names, eager)
        ahead = prefetch.begin(fun, avals) if eager and not symbolic else None
        # Written out here: each call of a function costs depth in deeply nested jits.
        jaxpr, consts, out_tree, info = stage_user(fun, call, avals, "jit")
        compilations.log_traced(info.name, info.seconds)
        if consts:
            jaxpr, consts = merge_equal(jaxpr, consts)
            compilations.warn_of_constants(jaxpr, consts)
        found = Staged(
            hoist_consts(jaxpr),
            tuple(consts),
            out_tree,
            info,
            (False,) * len(consts) + donated_leaves(call, options),
            ahead,
            jaxpr.dialects,
        )
        # A size that is found inside belongs to one call. So traces with such sizes are not kept
        # for other calls.
        if not any(isinstance(c, Tracer) for c in found.consts) and not dynamic.finds_sizes(
            found.jaxpr
        ):
            memo.remember(by_signature, key, found)
    return found

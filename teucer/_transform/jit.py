"""`jit`: functions traced once a signature, compiled, and called through the C++ dispatcher."""

from __future__ import annotations

import copyreg
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._arrays.formats import at_boundary, check_argument
from teucer._arrays.prefixes import Prefix, check_fit, everywhere, place_of, prefixes
from teucer._base import config, memo, tracebacks
from teucer._core import array_ops, axes
from teucer._core.calls import (
    FlatCall,
    as_indices,
    as_names,
    check_callable,
    check_leaves,
    flatten_call,
    fun_name,
    leaf_arguments,
    leaf_names,
    stage_user,
    static_by_name,
)
from teucer._core.high_types import fits
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.references import types as references
from teucer._core.references.cells import forget_given
from teucer._core.trace import EVAL, Tracer, current_trace
from teucer._core.types import high_types
from teucer._devices.placement import IncompatibleDevices, Placement, placement_of, spread
from teucer._devices.shardings import single_device_sharding
from teucer._dynamic import dynamic, padding
from teucer._executables import compilations, misses, preload
from teucer._programs.compile import program_for
from teucer._programs.eager import check_no_tracers, note_keys
from teucer._programs.job import Job
from teucer._programs.references.programs import (
    OnValues,
    arrays,
    needs_low,
    on_values,
    refuse_aliases,
    run_fast,
    run_high,
    takes_references,
)
from teucer._programs.run import fast_path, shard_arg_fallback
from teucer._transform.jit_calls import Inline, execute, hoist_consts, jit_p, sized_call_p
from teucer._trees import pytrees
from teucer._xla.dispatcher import PjitFunction, dispatcher

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray

__all__ = [
    "JitOptions",
    "Staged",
    "call_jitted",
    "dispatching",
    "jit",
    "job_of",
    "make_jit",
    "method",
    "placement_for",
    "prefixed",
    "stage_call",
]


class JitOptions(NamedTuple):
    """The arguments of `jit`, as positions and names."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool | Inline = False
    device: Any = None
    compiler_options: tuple[tuple[str, Any], ...] = ()
    outline: bool | None = None
    in_shardings: Prefix | None = None
    out_shardings: Prefix | None = None
    in_layouts: Prefix | None = None
    out_layouts: Prefix | None = None
    dynamic_dims: dynamic.Ranges = ()
    # Whether results may have sizes that depend on values; an int bounds those that nothing else
    # bounds.
    dynamic_results: bool | int | None = None


class Staged(NamedTuple):
    """A function traced for a signature: a jaxpr whose constants are its first inputs, their
    values, and the results' tree.

    forecast: what an earlier process recorded of its program.
    """

    jaxpr: ClosedJaxpr
    consts: tuple[Any, ...]
    out_tree: Any
    debug_info: Any
    donated: tuple[bool, ...]
    forecast: preload.Forecast | None


# By function, then by signature: alike jits of one function share their traces.
_staged = memo.Memo()
_dispatch_keys: dict[Any, object] = {}
# What library functions have of jitted ones (`_derived.library_stages`).
LIBRARY_MEMBERS = ("lower", "trace", "eval_shape", "clear_cache")


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
) -> Any:
    """A function that is traced once for each signature of its arguments, compiled by XLA, and run
    as one program.

    fun: a function of pytrees of arrays that returns one, without side effects; or None, for a
    decorator with options.
    in_shardings, out_shardings: how arguments and results are laid over devices, and in memory:
        Shardings, PartitionSpecs or Formats, or tree prefixes of them; None where the arguments, or
        the compiler, decide (docs/sharding.md).
    static_argnums, static_argnames: arguments that are hashable Python values, which the program
        depends on; another value means another program. What is given by position may be passed by
        name, and the reverse.
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
    function is compiled once:
        {argument, by position or name: {axis: size}}, where a size is the bound, or (least,
        greatest), or "power of two" for the next power of two, one compilation each; a size alone
        speaks of axis 0. It holds for all arrays of an argument. Axes that have one range and, in a
        call, one size are one dimension inside the function.
    dynamic_results: whether boolean masks, nonzero, unique and their kin may give arrays whose size
        depends on values; an int also bounds sizes that nothing else bounds, such as that of
        `repeat`. By default the option teucer_dynamic_results.
    Raises TypeError for arguments that are not arrays, ValueError for static arguments that are not
    hashable, and what the function itself raises when it asks for the value of a traced argument.

    >>> import teucer as jax
    >>> jax.jit(lambda x: x * 2)(3.)
    Array(6., dtype=float32, weak_type=True)
    >>> total = jax.jit(lambda x: x.sum(), dynamic_dims={"x": 1024})  # docs/dynamic_shapes.md
    >>> [float(total(jax.numpy.ones(n))) for n in (3, 1000)]
    [3.0, 1000.0]
    """
    jitted = functools.partial(
        _jit,
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
    return jitted if fun is None else jitted(fun)


def _jit(
    fun: Callable[..., object],
    /,
    *,
    in_shardings: object,
    out_shardings: object,
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Iterable[str] | None,
    donate_argnums: int | Sequence[int] | None,
    donate_argnames: str | Iterable[str] | None,
    keep_unused: object,
    device: object,
    backend: object,
    inline: object,
    compiler_options: Mapping[str, object] | None,
    outline: bool | None,
    dynamic_dims: Any,
    dynamic_results: int | None,
) -> Any:
    check_callable(fun, "jit")
    nums, names = _parameters(fun, static_argnums, static_argnames, "static")
    donated_nums, donated_names = _parameters(fun, donate_argnums, donate_argnames, "donate")
    if set(nums) & set(donated_nums) | set(names) & set(donated_names):
        kind = "argnums" if static_argnames is None or donate_argnames is None else "argnames"
        raise ValueError(
            f"static_{kind} and donate_{kind} cannot intersect: an argument that is a Python "
            f"value has no buffer.\n    static: {nums}, {names}\n"
            f"    donated: {donated_nums}, {donated_names}"
        )
    (ins, in_layouts), (outs, out_layouts) = (
        prefixes("in_shardings", in_shardings),
        prefixes("out_shardings", out_shardings),
    )
    place = place_of(device, backend)
    if place is not None:
        if ins is not None or outs is not None:
            given = "out_shardings" if ins is None else "in_shardings"
            raise ValueError(
                f"If backend or device is specified on jit, then {given} should not be specified."
            )
        outs = everywhere("out_shardings", single_device_sharding(place))
    return make_jit(
        fun,
        JitOptions(
            nums,
            names,
            donated_nums,
            donated_names,
            bool(keep_unused),
            _inlining(inline),
            place,
            tuple(sorted((compiler_options or {}).items())),
            None if outline is None else bool(outline),
            ins,
            outs,
            in_layouts,
            out_layouts,
            dynamic.ranges_of(fun, dynamic_dims) if dynamic_dims is not None else (),
            dynamic_results,
        ),
    )


def _inlining(inline: object) -> bool | Inline:
    """Where calls are inlined: while tracing (True), where the program decides (False), or
    later."""
    if isinstance(inline, str):
        raise ValueError(
            f"jit: Invalid inline option: {inline!r}. It is a bool or a member of jax.Inline."
        )
    if not isinstance(inline, Inline):
        return bool(inline)
    return {Inline.JAX_EARLY: True, Inline.AUTO: False}.get(inline, inline)


def _parameters(
    fun: Callable[..., object],
    argnums: int | Sequence[int] | None,
    argnames: str | Iterable[str] | None,
    kind: str,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The parameters that `static_argnums` and `static_argnames` name, or those that `donate_...`
    do, both ways."""
    return static_by_name(
        fun,
        None if argnums is None else as_indices(argnums, f"{kind}_argnums", "jit"),
        None if argnames is None else as_names(argnames, f"{kind}_argnames", "jit"),
        kind,
    )


def make_jit(fun: Callable[..., object], options: JitOptions) -> Any:
    """The dispatcher for a function with the given options, with the methods of a jitted
    function."""

    @tracebacks.api_boundary
    def cache_miss(*args: object, **kwargs: object) -> tuple[Any, Any]:
        return call_jitted(fun, options, args, kwargs)

    try:
        key = _dispatch_keys.setdefault(options, object())
    except TypeError:
        key = None
    return dispatching(fun, options, cache_miss, key)


def dispatching(
    fun: Callable[..., object],
    options: JitOptions,
    cache_miss: Callable[..., object],
    key: object = None,
    *,
    plain: Callable[..., object] | None = None,
) -> Any:
    """A C++ dispatcher with the methods of a jitted function; those of one key and function share
    what they have compiled.

    plain: what is called while `jax_disable_jit` is set, by default the function.
    """
    wrapped = dispatcher(
        fun_name(fun),
        plain or fun,
        cache_miss,
        static_argnums=options.static_argnums,
        static_argnames=options.static_argnames,
        key=key,
        shard_arg_fallback=shard_arg_fallback,
    )
    functools.update_wrapper(wrapped, fun, updated=())
    if isinstance(fun, functools.partial):
        wrapped.__name__ = wrapped.__qualname__ = fun_name(fun)
    own = getattr(fun, "__dict__", {}).items()
    vars(wrapped).update({name: value for name, value in own if name not in LIBRARY_MEMBERS})
    wrapped.__wrapped__, wrapped._jit = fun, (fun, options)
    return wrapped


def method(f: Callable[..., object]) -> Callable[..., Any]:
    """Give jitted functions a method: a function of (jitted, function, options, *args). `stages`
    adds lower and trace."""

    @functools.wraps(f)
    def of_jitted(jitted: PjitFunction, *args: object, **kwargs: object) -> Any:
        return f(jitted, *jitted._jit, *args, **kwargs)

    setattr(PjitFunction, f.__name__, of_jitted)
    return f


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
    """Forget what was traced and compiled."""
    jitted._clear_cache()
    _staged.drop(fun)
    misses.forget(fun)


def call_jitted(
    fun: Callable[..., object],
    options: JitOptions,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> tuple[Any, Any]:
    """Call a jitted function that C++ has no program for: results, and what C++ needs to run it
    itself next time."""
    call = flatten_call(args, kwargs, options.static_argnums, options.static_argnames)
    staged = None
    outs: Sequence[Any]
    if (
        options.dynamic_dims or options.dynamic_results or config.dynamic_results.value
    ) and not current_trace().staging():
        staged, sizes = _stage_dynamic(fun, call, options)
        if padding.is_dynamic(staged.jaxpr.jaxpr):
            return pytrees.tree_unflatten(
                staged.out_tree, _call_sized(fun, call, staged, sizes, options)
            ), None
    staged = stage_call(fun, call, options) if staged is None else staged
    leaves = (*staged.consts, *call.leaves)
    if current_trace() is not EVAL:
        if options.compiler_options and current_trace().staging():
            raise ValueError(
                "`compiler_options` can only be passed to top-level `jax.jit`. Got "
                f"compiler_options={dict(options.compiler_options)} specified on a nested jit "
                f"with name: {staged.debug_info.name}.\n  A program is compiled as a whole: give "
                "them to the jit that compiles it."
            )
        ins, wanted = prefixed(staged, call, options.in_shardings, options.out_shardings)
        if references.made:
            refuse_given_twice(fun, call, staged)
        outs = jit_p.call(
            *map(array_ops.lay_out, leaves, ins),
            jaxpr=staged.jaxpr,
            name=staged.debug_info.name,
            donated_invars=staged.donated,
            keep_unused=options.keep_unused,
            inline=options.inline,
            options=options.compiler_options,
            outline=options.outline,
        )
        return pytrees.tree_unflatten(staged.out_tree, map(array_ops.lay_out, outs, wanted)), None
    check_no_tracers(leaves)
    if needs_low(staged.jaxpr.jaxpr):
        refuse_given_twice(fun, call, staged)
        return pytrees.tree_unflatten(
            staged.out_tree, run_high(job_of(staged, call, options), leaves)
        ), None
    if takes_references(leaves):
        forget_given()
        refuse_given_twice(fun, call, staged)
        outs, fast = run_fast(job_of(staged, call, options), leaves, staged.consts, staged.out_tree)
        return pytrees.tree_unflatten(staged.out_tree, outs), fast
    if config.debug_key_reuse.value:
        note_keys(staged.jaxpr.jaxpr, leaves, "jit-compiled function")
    program = program_for(job_of(staged, call, options))
    fast = fast_path(program, staged.out_tree, leaves, len(staged.consts))
    outs = execute(program, staged.jaxpr, leaves, 0 if fast else len(staged.consts))
    return pytrees.tree_unflatten(staged.out_tree, outs), fast


def _call_sized(
    fun: Callable[..., object],
    call: FlatCall,
    staged: Staged,
    sizes: tuple[tuple[str, int], ...],
    options: JitOptions,
) -> Sequence[Any]:
    """The results of a function whose arguments or results have dynamic sizes. References are
    discharged before it is padded."""
    found = OnValues(staged.jaxpr, (*staged.consts, *call.leaves), [])
    if references.made:
        refuse_given_twice(fun, call, staged)
        found = on_values(*found[:2])
    return found.write(
        sized_call_p.call(
            *found.args,
            jaxpr=found.jaxpr,
            name=staged.debug_info.name,
            sizes=sizes,
            donated_invars=staged.donated,
            keep_unused=options.keep_unused,
            inline=False,
            options=options.compiler_options,
            outline=options.outline,
        )
    )


def refuse_given_twice(fun: Callable[..., object], call: FlatCall, staged: Staged) -> None:
    """Raise ValueError if one reference is several arguments, or an argument and closed over."""
    info = staged.debug_info
    refuse_aliases(
        staged.jaxpr.in_avals[len(staged.consts) :],
        call.leaves,
        staged.consts,
        f"{info.name} at {info.where}",
        "jit",
        lambda: info.arg_names,
    )


def prefixed(
    staged: Staged, call: FlatCall, for_ins: Prefix | None, for_outs: Prefix | None
) -> tuple[list[Any], list[Any]]:
    """What `jit` was given for the arguments, constants first, and for the results; None for those
    it was not."""
    ins: list[Any] = [None] * (len(staged.consts) + len(call.leaves))
    outs: list[Any] = [None] * staged.out_tree.num_leaves
    if for_ins is not None:
        ins[len(staged.consts) :] = for_ins.spread(pytrees.treedef_children(call.tree)[0])
    if for_outs is not None:
        outs = for_outs.spread(staged.out_tree)
        check_fit(
            "outputs",
            lambda: staged.debug_info.safe_result_paths(len(outs)),
            outs,
            staged.jaxpr.out_avals,
        )
    return ins, outs


def placement_for(staged: Staged, call: FlatCall, options: JitOptions) -> Placement:
    """Where a call of a jitted function runs, and how its arguments and results lie in memory."""
    if needs_low(staged.jaxpr.jaxpr):
        if options.in_shardings is not None or options.out_shardings is not None:
            raise NotImplementedError(
                f"jit of {staged.debug_info.name}: in_shardings and out_shardings are not known "
                "to take values of high types apart.\n  Put the arrays that they are made of "
                "where they are to be."
            )
        return placement_of((), options.device)
    leaves = arrays((*staged.consts, *call.leaves))
    try:
        if options.device is not None or (
            options.in_shardings is None and options.out_shardings is None
        ):
            placement = placement_of(leaves, options.device)
        else:
            ins, outs = prefixed(staged, call, options.in_shardings, options.out_shardings)
            placement = spread(leaves, ins, outs)
    except IncompatibleDevices as err:
        info, n = staged.debug_info, len(staged.consts)
        names = [
            *["that is closed over"] * n,
            *(f"{name} of {info.name}" for name in info.arg_names),
        ]
        raise err.naming(leaves, names) from None
    own = [getattr(x, "_layout", None) for x in leaves]  # of a ShapeDtypeStruct
    if options.in_layouts is None and options.out_layouts is None and not any(own):
        return placement
    given, wanted = prefixed(staged, call, options.in_layouts, options.out_layouts)
    layouts = [
        layout if layout is not None else mine for layout, mine in zip(given, own, strict=True)
    ]
    for x, layout in zip(leaves, layouts, strict=True):
        check_argument(x, layout)
    return placement._replace(
        in_layouts=at_boundary(layouts, staged.jaxpr.in_avals, "jit arguments"),
        out_layouts=at_boundary(wanted, staged.jaxpr.out_avals, "jit outputs"),
    )


def job_of(staged: Staged, call: FlatCall, options: JitOptions) -> Job:
    """What is to be compiled for a call of a jitted function."""
    return Job(
        staged.jaxpr.jaxpr,
        staged.debug_info.name,
        placement_for(staged, call, options),
        staged.donated,
        options.keep_unused,
        options.compiler_options,
        options.outline,
        staged.forecast,
    )


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
        _check_in_shardings(fun, call, options.in_shardings, avals)
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
        raise _unhashable(fun, call, err) from err
    by_signature = _staged.of(fun)
    found: Staged | None = by_signature.get(key)
    again, signature = 0, key
    while found is not None and high_types and not fits(found.jaxpr.in_avals, found.consts):
        again += 1  # what it closes over holds something else by now
        key = (*signature, again)  # type: ignore[assignment]
        found = by_signature.get(key)
    if found is None:
        eager = current_trace() is EVAL
        misses.note(fun, key, by_signature, leaf_names, eager)
        ahead = preload.forecast(fun, avals) if eager and not symbolic else None
        # Written out here: each call of a function costs depth to those who nest jits deeply.
        jaxpr, consts, out_tree, info = stage_user(fun, call, avals, "jit")
        compilations.log_traced(info.name, info.seconds)
        if consts:
            compilations.warn_of_constants(jaxpr, consts)
        found = Staged(
            hoist_consts(jaxpr),
            tuple(consts),
            out_tree,
            info,
            (False,) * len(consts) + donated_leaves(call, options),
            ahead,
        )
        # A size found inside is one of each call, and no name for two.
        if not any(isinstance(c, Tracer) for c in found.consts) and not dynamic.finds_sizes(
            found.jaxpr
        ):
            memo.remember(by_signature, key, found)
    return found


def _check_in_shardings(
    fun: Callable[..., object], call: FlatCall, in_shardings: Prefix, avals: Sequence[ShapedArray]
) -> None:
    args, kwargs = pytrees.treedef_children(call.tree)
    if kwargs.num_leaves:
        raise ValueError("pjit does not support kwargs when in_shardings is specified.")
    check_fit(
        "arguments",
        lambda: leaf_names(fun, call.tree, [i for i, _ in call.statics[0]]),
        in_shardings.spread(args),
        avals,
    )


def _unhashable(fun: Callable[..., object], call: FlatCall, err: TypeError) -> ValueError:
    for group in call.statics:
        for where, value in group:
            try:
                hash(value)
            except TypeError:
                return ValueError(
                    f"Non-hashable static arguments are used in a jit function: {fun_name(fun)}, "
                    f"static argument {where!r} of type {type(value)}: {value!r:.100}.\n"
                    "  Static arguments must be hashable: pass a tuple for a list, or make the "
                    "argument dynamic."
                )
    return ValueError(f"jit: the signature of {fun_name(fun)} is not hashable: {err}")


def donated_leaves(call: FlatCall, options: JitOptions) -> tuple[bool, ...]:
    """Which leaves of the dynamic arguments are donated."""
    if not options.donate_argnums and not options.donate_argnames:
        return (False,) * len(call.leaves)
    static = tuple(i for i, _ in call.statics[0])
    n = len(static) + len(pytrees.treedef_children(pytrees.treedef_children(call.tree)[0]))
    donated = {*options.donate_argnames, *(i + n if i < 0 else i for i in options.donate_argnums)}
    return tuple(arg in donated for arg in leaf_arguments(call.tree, static))

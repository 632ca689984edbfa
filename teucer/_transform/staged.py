"""A function traced for a signature: its arguments, and where it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._arrays.formats import at_boundary, check_argument
from teucer._arrays.prefixes import Prefix, check_fit
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._core.calls import FlatCall, fun_name, leaf_names
from teucer._core.dialects import HIGH
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.provided import provided
from teucer._core.trace import current_trace
from teucer._devices.placement import IncompatibleDevices, Placement, placement_of, spread
from teucer._executables.prefetch import Prefetch
from teucer._programs.job import Job
from teucer._transform.jit_options import JitOptions
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._xla.dispatcher import FastPath


class Staged(NamedTuple):
    """A function traced for a signature: a jaxpr whose constants are its first inputs, their
    values, and the results' tree.

    prefetch: an earlier process's record of its program. dialects: the jaxpr's.
    """

    jaxpr: ClosedJaxpr
    consts: tuple[Any, ...]
    out_tree: Any
    debug_info: Any
    donated: tuple[bool, ...]
    prefetch: Prefetch | None
    dialects: frozenset[str]


def refuse_given_twice(fun: Callable[..., object], call: FlatCall, staged: Staged) -> None:
    """Raise ValueError if one reference is several arguments, or an argument and closed over."""
    from teucer._dialects.references.aliases import refuse_aliases  # for calls with references

    info = staged.debug_info
    refuse_aliases(
        staged.jaxpr.in_avals[len(staged.consts) :],
        call.leaves,
        staged.consts,
        f"{info.name} at {info.where}",
        "jit",
        lambda: info.arg_names,
    )


def check_traced(
    fun: Callable[..., object],
    call: FlatCall,
    staged: Staged,
    compiler_options: tuple[tuple[str, object], ...],
) -> None:
    """Check for arguments that may not be in a call under a trace."""
    if compiler_options and current_trace().staging():
        raise ValueError(
            "`compiler_options` can only be passed to top-level `jax.jit`. Got "
            f"compiler_options={dict(compiler_options)} specified on a nested jit "
            f"with name: {staged.debug_info.name}.\n  A program is compiled as a whole: give "
            "them to the jit that compiles it."
        )
    if staged.dialects:
        refuse_given_twice(fun, call, staged)


def job_of(staged: Staged, call: FlatCall, options: JitOptions) -> Job:
    """The job that is to be compiled for a call of a jitted function."""
    return Job(
        staged.jaxpr.jaxpr,
        staged.debug_info.name,
        placement_for(staged, call, options),
        staged.donated,
        options.keep_unused,
        options.compiler_options,
        options.outline,
        staged.prefetch,
    )


def run_apart(staged: Staged, call: FlatCall, job: Job) -> tuple[list[Any] | None, FastPath | None]:
    """The results of a call on references, or on values of high types; None if it has none."""
    return provided.on_arrays().run_jitted(  # type: ignore[no-any-return]
        job, staged.consts, call.leaves, staged.out_tree
    )


def refuse_structs(staged: Staged, leaves: Sequence[object]) -> None:
    """Raise TypeError for an argument that stands for an array, and has no value."""
    for i, x in enumerate(leaves):
        if type(x) is ShapeDtypeStruct:
            name = (*staged.debug_info.arg_names, *[""] * len(leaves))[i]
            raise TypeError(
                f"Argument '{name}' of shape {x.aval.str_short()} of type {type(x)} is not a valid "
                "JAX type.\n  It stands for an array. Give an array, or use it with eval_shape, "
                "export, and the methods lower and trace of jitted functions."
            )


def prefixed(
    staged: Staged, call: FlatCall, for_ins: Prefix | None, for_outs: Prefix | None
) -> tuple[list[Any], list[Any]]:
    """The shardings that `jit` was given: those of the constants and arguments, and those of the
    results. None for a value without one."""
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
    leaves: Sequence[Any] = (*staged.consts, *call.leaves)
    if staged.dialects:
        leaves = provided.on_arrays().arrays(leaves)
    if HIGH in staged.dialects and provided.on_arrays().needs_low(staged.jaxpr.jaxpr):
        if options.in_shardings is not None or options.out_shardings is not None:
            raise NotImplementedError(
                f"jit of {staged.debug_info.name}: in_shardings and out_shardings are not known "
                "to take values of high types apart.\n  Put the arrays that they are made of "
                "where they are to be."
            )
        return placement_of((), options.device)
    try:
        if options.device is not None or (
            options.in_shardings is None and options.out_shardings is None
        ):
            placement = placement_of(leaves, options.device)
        else:
            ins, outs = prefixed(staged, call, options.in_shardings, options.out_shardings)
            placement = spread(leaves, ins, outs)
    except IncompatibleDevices as err:
        raise naming_arguments(err, staged, leaves) from None
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


def naming_arguments(
    err: IncompatibleDevices, staged: Staged, leaves: Sequence[object]
) -> IncompatibleDevices:
    """An error about devices that names the arguments of a traced function, constants first."""
    info, n = staged.debug_info, len(staged.consts)
    names = [*["that is closed over"] * n, *(f"{name} of {info.name}" for name in info.arg_names)]
    return err.naming(leaves, names)


def check_in_shardings(
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


def unhashable(fun: Callable[..., object], call: FlatCall, err: TypeError) -> ValueError:
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

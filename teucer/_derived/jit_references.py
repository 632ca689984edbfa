"""Programs that are given references, or values of high types. They run on arrays.

Arrays of references are changed in place. High values are taken apart (docs/high_types.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._core import array_ops
from teucer._core import reference_types as references
from teucer._core.dialects import HIGH
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr
from teucer._core.trace import typeof
from teucer._devices.placement import placement_of
from teucer._dialects.high.lowering import Low, has_high_boundary, lowered, taken_apart
from teucer._dialects.references.cells import Ref, forget_given, write_given
from teucer._dialects.references.discharge import Discharged, discharged
from teucer._programs.compile import program_for
from teucer._programs.job import Job
from teucer._programs.run import execute, fast_path, shard_arg_fallback
from teucer._trees.pytrees import tree_structure
from teucer._xla.dispatcher import FastPath, dispatcher
from teucer._xla.pytree import make_treedef, register_node

if TYPE_CHECKING:
    from teucer._core.typing import Array, Value
    from teucer._xla.pytree import PyTreeDef


def takes_references(args: Sequence[Value]) -> bool:
    """Whether a reference is among the arguments of a program that is to run."""
    return any(type(x) is Ref for x in args)


class OnArrays(NamedTuple):
    """A job on arrays in place of references.

    changed: for each further result behind the function's own, the number of the argument whose
    reference gets it.
    """

    job: Job
    changed: tuple[int, ...]

    def write(self, args: Sequence[Any], outs: Sequence[Value]) -> list[Any]:
        """Store the arrays that a program has changed in their references. Returns the results of
        the function."""
        n = len(outs) - len(self.changed)
        for i, array in zip(self.changed, outs[n:], strict=True):
            args[i].write(array)
        return list(outs[:n])


class _Grouped(NamedTuple):
    """A jaxpr on arrays in the place of references. own: the reference of each argument by its id;
    changed: ids in order."""

    found: Discharged
    own: list[int | None]
    changed: list[int]


def _grouped(closed: ClosedJaxpr, args: Sequence[Value]) -> _Grouped:
    own = [id(x) if references.is_reference(typeof(x)) else None for x in args]
    refs = [i for i in dict.fromkeys(own) if i is not None]
    found = discharged(closed, tuple([None if i is None else refs.index(i) for i in own]))
    return _Grouped(found, own, [refs[g] for g in found.changed])


class OnValues(NamedTuple):
    """A jaxpr and arguments without references, and the references that get its last results."""

    jaxpr: ClosedJaxpr
    args: tuple[Value, ...]
    changed: list[Value]

    def write(self, outs: Sequence[Value]) -> Sequence[Value]:
        """Store the changed arrays in their references; return the results of the function."""
        n = len(outs) - len(self.changed)
        for ref, value in zip(self.changed, outs[n:], strict=True):
            array_ops.write_reference(ref, value)
        return outs[:n]


def on_values(closed: ClosedJaxpr, args: Sequence[Value]) -> OnValues:
    """A jaxpr and its arguments with the arrays of references, where these may be traced and the
    program is not in place."""
    found, own, changed = _grouped(closed, args)
    given = tuple(
        [x if i is None else array_ops.read_reference(x) for x, i in zip(args, own, strict=True)]
    )
    return OnValues(found.jaxpr, given, [args[own.index(i)] for i in changed])


def on_arrays(job: Job, args: Sequence[Value]) -> OnArrays:
    """A job for arguments among which are references, or values that contain some, as a job on
    arrays. Arrays that it changes are donated, and stay where they are.
    """
    found, own, ids = _grouped(ClosedJaxpr(job.jaxpr, ()), args)
    assert not found.jaxpr.consts
    changed = tuple([own.index(i) for i in ids])
    # An array that is given twice, to two branches say, cannot be given away.
    donated = tuple(
        [d or (i in ids and own.count(i) == 1) for i, d in zip(own, job.donated, strict=True)]
    )
    place = job.placement
    if place.outs:
        place = place._replace(
            outs=(*place.outs, *(place.ins[i] if place.ins else None for i in changed))
        )
    if place.out_layouts:
        place = place._replace(out_layouts=(*place.out_layouts, *[None] * len(changed)))
    return OnArrays(
        job._replace(jaxpr=found.jaxpr.jaxpr, donated=donated, placement=place), changed
    )


def arrays(args: Sequence[Value]) -> list[Any]:
    """Arguments with arrays in place of references, and with structs of arrays in place of structs
    of references."""
    return [
        x.read()
        if type(x) is Ref
        else x.update(is_ref=False)
        if type(x) is ShapeDtypeStruct and x.is_ref
        else x
        for x in args
    ]


def run(job: Job, args: Sequence[Value]) -> list[Any]:
    """Run a job on arguments some of which are references, in place."""
    found, given = on_arrays(job, args), arrays(args)
    own = found.job
    if own.placement != placement_of(given):  # it was told where to run
        return found.write(args, execute(program_for(own), given))
    key = ("on arrays", own.donated, own.keep_unused, own.options, own.outline)
    dispatch = own.jaxpr.cache.get(key)
    if dispatch is None:
        dispatch = own.jaxpr.cache[key] = _dispatcher(own)
    return found.write(args, dispatch(*given))


class Updated:
    """The results of a program that changes references, as the C++ dispatcher puts them together:
    it gives them their arrays."""


def _put_together(data: tuple[int, tuple[int, ...]], children: tuple[object, ...]) -> Any:
    out, *arrays = children
    write_given(*data, arrays)
    return out


register_node(Updated, lambda x: ((), None), _put_together, None)


def run_fast(
    job: Job, args: Sequence[Value], consts: Sequence[Value], out_tree: PyTreeDef
) -> tuple[list[Any], FastPath | None]:
    """As `run`, for a function that C++ calls. Gives the results, a fast path for C++, and the
    arguments that change in place."""
    if takes_references(consts):  # which it does not take apart
        return run(job, args), None
    found, given = on_arrays(job, args), arrays(args)
    program = program_for(found.job)
    refs = [i for i, x in enumerate(args) if type(x) is Ref]
    changed = tuple([refs.index(i) for i in found.changed])
    tree = make_treedef(
        (Updated, (len(refs), changed)), [out_tree, *[tree_structure(0)] * len(changed)]
    )
    fast = fast_path(program, tree, given, len(consts))
    return found.write(args, execute(program, given)), fast


def _dispatcher(job: Job) -> Callable[..., tuple[Any, ...]]:
    """A C++ dispatcher that runs a job on arrays, and finds the program by their signature."""

    def cache_miss(*given: Value) -> tuple[Any, Any]:
        program = program_for(job._replace(placement=placement_of(given)))
        fast = fast_path(program, tree_structure((0,) * len(program.out_avals)), given)
        return tuple(execute(program, given)), fast

    def run_uncached(*given: Array) -> tuple[Any, ...]:
        outs: tuple[Any, ...] = cache_miss(*given)[0]
        return outs

    return dispatcher(job.name, run_uncached, cache_miss, shard_arg_fallback=shard_arg_fallback)  # type: ignore[no-any-return]


# --- High values ----------------------------------------------------------------------------------


def needs_low(jaxpr: Jaxpr) -> bool:
    """Whether a program is to be lowered before its arguments are looked at: it takes or gives high
    values, or has high primitives that are given references, or that close over arrays."""
    if HIGH not in jaxpr.dialects:
        return False
    return (
        has_high_boundary(jaxpr)
        or any(map(references.is_reference, (v.aval for v in jaxpr.invars)))
        or bool(lowered(ClosedJaxpr(jaxpr)).jaxpr.consts)
    )


class OnLow(NamedTuple):
    """A job on low values, its operands, and a function that makes high results of the low ones."""

    job: Job
    operands: Sequence[Any]
    low: Low
    avals: Sequence[Any]

    def operands_of(self, args: Sequence[Value]) -> Sequence[Any]:
        """The operands of the low program for arguments of these types: first the values that it
        closes over, then the low values of `args`."""
        return [*self.low.jaxpr.consts, *taken_apart(args, self.avals).low]

    def raised(self, outs: Sequence[Value], args: Sequence[Value]) -> list[Any]:
        """The high results, from the results of the low program. Arguments that change get their
        new states."""
        return list(self.low.raised(outs, args))


def on_low(job: Job, args: Sequence[Value]) -> OnLow:
    """A job on high values as one on low values."""
    low = lowered(ClosedJaxpr(job.jaxpr))
    avals, inner = job.jaxpr.in_avals, low.jaxpr.jaxpr
    given = taken_apart(args, avals)
    operands = [*low.jaxpr.consts, *given.low]
    n = len(inner.constvars)
    donated = (*[False] * n, *(job.donated[i] for i in given.sources))
    place = job.placement
    values = arrays(operands)
    own = placement_of(values, place.device if place.committed and place.mesh is None else None)
    jaxpr = low.jaxpr.cache.get("hoisted")
    if jaxpr is None:
        jaxpr = low.jaxpr.cache["hoisted"] = ClosedJaxpr(
            inner.replace(constvars=[], invars=[*inner.constvars, *inner.invars])
        )
    return OnLow(
        job._replace(jaxpr=jaxpr.jaxpr, donated=donated, placement=own), operands, low, avals
    )


def run_high(job: Job, args: Sequence[Value]) -> list[Any]:
    """Run a job on high values."""
    found = on_low(job, args)
    return found.raised(run(found.job, found.operands), args)


def run_jitted(
    job: Job, consts: Sequence[Value], leaves: Sequence[Value], out_tree: PyTreeDef
) -> tuple[list[Any] | None, FastPath | None]:
    """As `run_apart`, for a function that C++ calls: also gives a fast path for it."""
    args = (*consts, *leaves)
    if needs_low(job.jaxpr):
        return run_high(job, args), None
    if not takes_references(args):
        return None, None
    forget_given()
    return run_fast(job, args, consts, out_tree)


def run_apart(job: Job, args: Sequence[Value]) -> list[Any] | None:
    """The results of a job whose jaxpr has dialects, on arguments some of which are of these; None
    if none is."""
    if needs_low(job.jaxpr):
        return run_high(job, args)
    return run(job, args) if takes_references(args) else None

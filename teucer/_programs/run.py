"""Running: programs called on arrays, from Python or by the C++ dispatcher."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import formats, transfer
from teucer._arrays.arrays import ArrayImpl, check_live
from teucer._base import config
from teucer._core.debug_info import DebugInfo
from teucer._core.jaxpr import Jaxpr
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import float0
from teucer._devices.placement import spread
from teucer._devices.shardings import NamedSharding
from teucer._executables.callbacks import explained
from teucer._programs.compile import program_for
from teucer._programs.job import Job
from teucer._programs.program import Program
from teucer._xla.client import XlaRuntimeError
from teucer._xla.dispatcher import FastPath

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Value
    from teucer._xla.pytree import PyTreeDef


def execute(program: Program, args: Sequence[Value], *, checked: bool = True) -> list[Any]:
    """Run a program on all of its jaxpr's arguments, on host or device."""
    if config.no_execution.value:
        raise RuntimeError(
            f"JAX tried to execute function jit({program.name}), but the no_execution config "
            "option is set."
        )
    for x in args:
        if type(x) is ArrayImpl:
            check_live(x)
    if program.divided:
        from teucer._arrays.parts import refuse_host_values  # for several processes

        refuse_host_values(args, program.placement.ins, program.name)
    taken = itertools.compress(args, program.kept)
    try:
        ready = [
            x
            if type(x) is ArrayImpl and x._sharding is sharding
            else transfer.to_sharding(x, sharding)
            for x, sharding in zip(taken, program.in_shardings, strict=True)
        ]
        ready = [
            x if formats.order_of(x) == order else in_order(x, order)
            for x, order in zip(ready, program.in_orders, strict=True)
        ]
        outs = (
            program.run(ready)
            if program.agreement is None
            else program.agreement.run(functools.partial(program.run, ready))
        )
    except XlaRuntimeError as err:
        raise explained(err)  # noqa: B904  # it has its cause
    if checked and (config.debug_nans.value or config.debug_infs.value):
        from teucer._arrays.finite import check_finite  # only with the option that asks for it

        check_finite(outs, program.name)
    for i, aval in program.tangents_of_integers:
        outs[i] = np.zeros(aval.shape, float0)
    return outs


@functools.lru_cache(256)
def _identity(aval: Aval) -> Jaxpr:
    return stage_flat(lambda x: (x,), [aval], DebugInfo("device_put"))[0]


def in_order(x: Any, order: tuple[int, ...] | None) -> Any:
    """An array where it is, with its axes in memory in the given order, the slowest first; None:
    row by row."""
    aval = typeof(x)
    old, new = (
        None if o is None else formats.Layout(o[: aval.ndim]) for o in (formats.order_of(x), order)
    )
    placement = spread([x], None, [x._sharding], anywhere=True)._replace(
        in_layouts=(old,) if old else (), out_layouts=(new,) if new else ()
    )
    return execute(
        program_for(Job(_identity(aval), "device_put", placement, (False,), keep_unused=True)), [x]
    )[0]


def fast_path(
    program: Program, out_tree: PyTreeDef, args: Sequence[Value], n_consts: int = 0
) -> FastPath | None:
    """A fast path, with which the C++ dispatcher runs the program itself next time; None where
    Python must see each call.

    args: the arguments of this call, constants first, before donated ones are deleted. For C++
    their layouts are a part of the signature; it does not change them.
    """
    if (
        program.has_effects
        or program.callbacks
        or program.steps is not None
        or program.tangents_of_integers
        or any(program.in_orders)
        or True
        in [
            type(x) is ArrayImpl and not x.is_deleted() and formats.order_of(x) is not None
            for x in args
        ]
        or config.debug_nans.value
        or config.debug_infs.value
        or config.debug_key_reuse.value
    ):
        return None
    kept = program.kept
    if not all(map(_lies_as_wanted, itertools.compress(args, kept), program.in_shardings)):
        return None
    ready = list(
        map(transfer.to_sharding, itertools.compress(args[:n_consts], kept), program.in_shardings)
    )
    fast = FastPath(
        program.executable,
        out_tree,
        program.in_shardings,
        program.out_shardings,
        program.out_avals,
        [program.placement.committed] * len(program.out_avals),
        [True] * len(ready) + list(kept[n_consts:]),
        [None] * len(program.in_shardings),
        ready,
    )
    if program.agreement is None:
        return fast
    return program.agreement.watched(fast, list(itertools.compress(args, kept)))


def _lies_as_wanted(x: Value, sharding: object) -> bool:
    """Whether the C++ dispatcher may take an argument for which the program wants this sharding. It
    takes the shards of a NamedSharding as they are."""
    if (
        type(x) is not ArrayImpl
        or type(x._sharding) is not NamedSharding
        or x._sharding is sharding
    ):
        return True
    return bool(x._sharding.is_equivalent_to(sharding, x.ndim))


def shard_arg_fallback(
    x: Value, sharding: object, layout: object, copy_semantics: object = None
) -> Any:
    """Called by the C++ dispatcher for an argument that is not where the executable wants it."""
    return transfer.to_sharding(x, sharding)

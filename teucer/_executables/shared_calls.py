"""Calls of programs that communicate with other processes, by the C++ dispatcher.

The other processes must know which program is about to run. C++ calls no function of ours for that,
but it asks two objects on its way. Before the program runs it asks the wanted layout of an argument
for its XLA layout. Afterwards it asks the tree of the results to put them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._devices import processes
from teucer._xla import pytree
from teucer._xla.arrays import ArrayImpl
from teucer._xla.client import XlaRuntimeError
from teucer._xla.dispatcher import FastPath

if TYPE_CHECKING:
    from teucer._devices.calls import Call
    from teucer._executables.agreement import Agreement
    from teucer._xla.pytree import PyTreeDef


@final
class _Before:
    """Stands in the place of an argument's layout, which C++ asks for before the program runs.

    begun: the last call. No other thread makes one before it has its results.
    """

    __slots__ = ("_agreement", "_layout", "begun")
    begun: Call

    def __init__(self, agreement: Agreement, layout: object) -> None:
        self._agreement, self._layout = agreement, layout

    def _to_xla_layout(self, dtype: object) -> object:
        agreement, watch = self._agreement, processes.state.watch
        self.begun = (
            watch.begin(agreement)  # as below, sooner
            if agreement.shown and watch is not None
            else agreement.begin()
        )
        return self._layout


class _Outcome(NamedTuple):
    """The tree of a program's results.

    telling: which of them tells that it has ended. before: what knows the call that has begun.
    """

    tree: PyTreeDef
    telling: int | None
    before: _Before


@final
class _After:
    """Stands for the tree of the results. C++ builds results after the program has begun to run."""


def _made(outcome: _Outcome, results: Sequence[Any]) -> Any:
    tree, telling, before = outcome
    before.begun.results = () if telling is None else (results[telling],)
    return tree.unflatten(results)


def _taken(_: _After) -> tuple[tuple[()], None]:
    raise AssertionError("C++ makes such trees, and nobody has one")


pytree.register_node(_After, _taken, _made, None)
_LEAF = pytree.flatten(0)[1]


def watched(fast: FastPath, args: Sequence[object], agreement: Agreement) -> FastPath | None:
    """A fast path that tells other processes of each call; None where C++ cannot run the program.

    args: the arguments that the program keeps, constants first.
    """
    # Last, since C++'s handling of the arguments before it may fail, or run programs.
    at = max((i for i, x in enumerate(args) if type(x) is ArrayImpl), default=None)
    if at is None:
        return None
    layouts = list(fast.in_device_local_layouts)
    layout = fast.xla_executable.get_parameter_layouts()[at]._xla_layout()
    layouts[at] = before = _Before(agreement, layout)
    sizes = [math.prod(aval.shape) for aval in fast.out_avals]  # keys have no size here
    # The smallest, since it is held until it is there.
    telling = min(range(len(sizes)), key=sizes.__getitem__, default=None)
    return fast._replace(
        in_device_local_layouts=layouts,
        out_pytree_def=pytree.make_treedef(
            (_After, _Outcome(fast.out_pytree_def, telling, before)), [_LEAF] * len(sizes)
        ),
    )


def around(
    made: Callable[..., Callable[..., Any]], cache_miss: Callable[..., Any]
) -> Callable[..., tuple[Any, None]]:
    """The function that a dispatcher calls on a miss: another dispatcher, whose errors name the
    process at fault.

    made: a new dispatcher of the same function. cache_miss: the function that the new one calls on
    a miss.
    """
    run = made(cache_miss, "shared")

    def call(*args: object, **kwargs: object) -> tuple[Any, None]:
        try:
            return run(*args, **kwargs), None
        except BaseException as err:
            if processes.state.watch is not None:
                processes.state.watch.give_up()
            if isinstance(err, (XlaRuntimeError, ValueError)):  # as C++ raises what fails at once
                reason = processes.explained(err)
                if reason is not err:
                    raise reason from err
            raise

    return call

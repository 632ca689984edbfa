"""Calls of programs that communicate with other processes, by the C++ dispatcher.

C++ tells nobody which program it is about to run, and the other processes must know before it
runs. So two more dispatchers stand behind one that misses. The first, the scout, runs a program
that does nothing, and gives what the processes know the right one by. The second runs that.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, final

from teucer._base import tracebacks
from teucer._devices import backends
from teucer._trees.pytrees import tree_structure
from teucer._xla import pytree
from teucer._xla.client import XlaRuntimeError, compile_options, compile_text

_NOTHING = "module @nothing { func.func public @main() { return } }"


class _Ran(NamedTuple):
    """What a program has given that was called in Python."""

    outs: Any


class _Known(NamedTuple):
    """A program that C++ can run: its agreement, the tree of its results, and the dispatcher that
    gives them as a tuple."""

    agreement: Any
    tree: Any
    call: Callable[..., Any]


@final
class _Answer:
    """A node of results without children: C++ gives what stands in it."""

    def __init__(self, known: _Known) -> None:
        self.known = known


pytree.register_node(_Answer, lambda x: ((), x.known), lambda known, _: known, None)


class _Begun(threading.local):
    on = False


# Whether this thread has said to the other processes which program it runs.
begun = _Begun()


@functools.cache
def _nothing(device: Any) -> Any:
    return compile_text(device.client, _NOTHING, [device], compile_options([device.id]))


@functools.cache
def _flat(n: int) -> Any:
    return tree_structure((0,) * n)


@final
class Scouted:
    """What is called in the place of the function that a dispatcher calls when it misses.

    made: a new dispatcher of the same function. cache_miss: what it calls.
    """

    def __init__(self, made: Callable[..., Any], cache_miss: Callable[..., Any]) -> None:
        self._made, self._miss = made, cache_miss
        self._scout = made(self._look, "scout")

    @tracebacks.api_boundary
    def __call__(self, *args: object, **kwargs: object) -> tuple[Any, Any]:
        found = self._scout(*args, **kwargs)
        if type(found) is not _Known:
            return found  # type: ignore[no-any-return]
        agreement, tree, run = found
        call = agreement.begin()
        begun.on = True
        try:
            results = run(*args, **kwargs)
        except (XlaRuntimeError, ValueError) as err:  # as C++ raises what fails at once
            agreement.explain(call, err)
        finally:
            begun.on = False
        if type(results) is _Ran:
            call.results = []
            return results.outs, None
        call.results = results
        return tree.unflatten(results), None

    def _look(self, *args: object, **kwargs: object) -> tuple[Any, Any]:
        """The scout knows no program for such arguments."""
        outs, fast = self._miss(*args, **kwargs)
        if fast is None or fast.agreement is None:
            return (outs, fast), None
        known = _Known(fast.agreement, fast.out_pytree_def, self._made(self._first, None))
        return (outs, None), fast._replace(
            xla_executable=_nothing(backends.local_devices()[0]),
            out_pytree_def=tree_structure(_Answer(known)),
            in_shardings=(),
            out_shardings=(),
            out_avals=(),
            out_committed=(),
            kept_var_bitvec=[False] * (len(fast.kept_var_bitvec) - len(fast.const_args)),
            in_device_local_layouts=(),
            const_args=(),
        )

    def _first(self, *args: object, **kwargs: object) -> tuple[Any, Any]:
        """C++ has the program for the first time, or would not have the arguments."""
        outs, fast = self._miss(*args, **kwargs)
        if fast is not None:
            fast = fast._replace(out_pytree_def=_flat(len(fast.out_avals)))
        return _Ran(outs), fast

"""Programs over several processes: all that communicate must run the same ones in the same
order."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._base import config, errors
from teucer._devices import processes
from teucer._executables import callbacks, shared_calls
from teucer._xla import dispatcher
from teucer._xla.client import OF_THIS_PROCESS, XlaRuntimeError
from teucer._xla.dispatcher import FastPath

if TYPE_CHECKING:
    from teucer._devices.calls import Call

_SHOWN = 200  # characters of a line of a program that a message shows
_LONGEST = 4 << 20  # bytes of a program's text that processes show each other
# By what a text names Python functions that run while it is compiled: addresses, and numbers.
_OWN_NAMES = re.compile(
    f'((?:{"|".join(map(re.escape, OF_THIS_PROCESS))})[^\n]*? backend_config = )"[^"]*"'
)
_CALLS_PYTHON = re.compile(
    r' = (?!\(\) )[^=\n]*? custom-call\([^\n]*"xla_ffi_(partitioned_)?python_'
)
_COMMUNICATES = re.compile(
    r" (all-gather|all-reduce|all-to-all|collective-broadcast|collective-permute"
    r"|ragged-all-to-all|recv|reduce-scatter|send)(-start)?\("
)


@final
class Agreement:
    """A program in which several processes communicate: the processes, and its name among them.

    limited: whether only so many of its calls may be in flight. calls_python: whether functions of
    Python give it values. shown: whether the others can read its text if they need it.
    """

    __slots__ = (
        "_calls_python",
        "_packed",
        "fingerprint",
        "group",
        "limited",
        "name",
        "shown",
    )

    def __init__(
        self,
        group: tuple[int, ...],
        name: str,
        text: str,
        *,
        limited: bool,
        calls_python: bool = False,
    ) -> None:
        import hashlib  # 2 ms to load

        self._calls_python = calls_python

        self.group, self.name, self.limited, self.shown = group, name, limited, False
        text = _OWN_NAMES.sub(r'\1"a function"', text)
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        self.fingerprint = int.from_bytes(digest, "little")
        self._packed = zlib.compress(text.encode(), 1)

    def run(self, call: Callable[[], list[Any]]) -> list[Any]:
        """Call the program, watched.

        Raises ProcessFailure if another process is at fault that it does not run.
        """
        begun, results = self.begin(), list[Any]()
        try:
            results = call()
        except XlaRuntimeError as err:
            if self._calls_python and str(err).startswith(callbacks.PUT_OFF):
                self._hear_of_failures(begun, str(err))
            reason = processes.explained(err)
            if reason is err:
                raise
            raise reason from err
        else:
            if self._calls_python:
                self._hear_of_failures(begun, "")
        finally:
            begun.results = results
        return results

    def _hear_of_failures(self, call: Call, own: str) -> None:
        """Exchange failures of callbacks in this program with the other processes; own: the failure
        here, or "".

        Raises JaxRuntimeError if a callback has failed in another process, and none here.
        """
        watching = processes.state.watch
        assert watching is not None
        what = f"the end of {self.name}, called at {call.line}"
        told = watching.exchange("callbacks", call, own, what)
        failed = [(i, text) for i, text in told.items() if text]
        if failed and not own:
            i, text = failed[0]
            raise errors.JaxRuntimeError(
                f"{text}\n  That was in process {i}, which raises it, too."
            )

    def begin(self) -> Call:
        """Tell the other processes that this one is about to call the program, and check that the
        first of them does, too.

        Raises ProcessFailure if it does not.
        """
        state = processes.state
        watching = state.watch
        if watching is None:
            raise RuntimeError(
                f"{self.name}: this program runs over processes {self.group}, and this process "
                "has parted from them (jax.distributed.shutdown)."
            )
        if not self.shown and config.check_programs.value:
            self._show()
        return watching.begin(self)

    def watched(self, fast: FastPath, args: Sequence[object]) -> FastPath | None:
        """A fast path for C++ that reports each call to the other processes; None if C++ cannot run
        the program.

        args: the arguments that the program keeps.
        """
        return shared_calls.watched(fast, args, self)

    def _show(self) -> None:
        """Let the others read the text of the first, in case that theirs differs."""
        self.shown = True
        if processes.state.process_id == self.group[0] and len(self._packed) < _LONGEST:
            processes.state.client.key_value_set_bytes(
                _place_of(self.fingerprint), self._packed, allow_overwrite=True
            )

    def difference(self, other: int) -> str:
        """The first lines in which this program differs from one of another fingerprint."""
        try:
            packed = processes.state.client.blocking_key_value_get_bytes(_place_of(other), 5000)
        except XlaRuntimeError:
            return ""
        theirs, own = (zlib.decompress(x).decode().splitlines() for x in (packed, self._packed))
        pairs = itertools.zip_longest(theirs, own, fillvalue="")
        first = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        return "".join(
            f"\n      {sign} {line.strip():.{_SHOWN}}"
            for sign, line in zip("-+", first, strict=True)
        )


def _place_of(fingerprint: int) -> str:
    return f"teucer/programs/{fingerprint:016x}"


def agreement_of(devices: Sequence[Any], name: str, text: str, executable: Any) -> Agreement | None:
    """The agreement of the processes that own devices about a program.

    None for one process, and for a program in which they do not communicate, or in which this one
    has no part: each process may run it alone.
    """
    if processes.state.client is None:
        return None
    group = tuple(sorted({d.process_index for d in devices}))
    if len(group) < 2 or processes.state.process_id not in group:
        return None
    modules = executable.whole().hlo_modules()
    optimized = [module.to_string() for module in modules]
    if modules and not any(map(_COMMUNICATES.search, optimized)):
        return None
    dispatcher.around = shared_calls.around
    return Agreement(
        group,
        name,
        text,
        limited=len(devices) > len(group),
        calls_python=any(map(_CALLS_PYTHON.search, optimized)),
    )

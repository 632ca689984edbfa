"""Python functions that programs call by transfers to the host and back, as on TPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxlib._hlo import Shape

# The name by which the runtime recognises transfers that it must handle itself.
HANDLER = "pjrt_rendezvous"


class ByTransfers(NamedTuple):
    """A function that is called once all of its operands have come, and sends its results.

    operands, results: pairs of a dtype and a shape. sends, receives: the channel of each operand
    and result, as the program numbers them; no other transfer has it.
    """

    function: Callable[..., Any]
    operands: tuple[tuple[Any, tuple[int, ...]], ...]
    results: tuple[tuple[Any, tuple[int, ...]], ...]
    sends: tuple[int, ...]
    receives: tuple[int, ...]


def for_runtime(client: Any, callbacks: Sequence[Any]) -> list[Any]:
    """Python functions in the form in which the runtime takes them with a program."""
    return [_given(client, c) if isinstance(c, ByTransfers) else c for c in callbacks]


def _given(client: Any, callback: ByTransfers) -> Any:
    function, operands, results, sends, receives = callback
    shapes = [[Shape.array_shape(*kind) for kind in kinds] for kinds in (operands, results)]
    # jaxlib takes no call without a serialiser, which it asks when a program is written.
    return client.make_python_callback_from_host_send_and_recv(
        function, *shapes, list(sends), list(receives), _refuse
    )


def _refuse(function: object) -> bytes:
    raise ValueError(f"{function} cannot be kept outside of its process.")

"""Device arrays, shardings, and how results are wrapped."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jaxlib import _hlo, _jax

from teucer._advice.guarding import guard_member

Array = _jax.Array
if TYPE_CHECKING:

    class ArrayImpl:
        """An array on devices. jaxlib says nothing of its members."""

        _carried: Any
        aval: Any

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
else:
    ArrayImpl = _jax.ArrayImpl
HloSharding = _hlo.HloSharding
OpSharding = _hlo.OpSharding
Sharding = _jax.Sharding
SingleDeviceShardingBase = _jax.SingleDeviceSharding
NamedShardingBase = _jax.NamedSharding
# The module of jax that the first NamedSharding made in C++ asks for `check_pspec`, and those
# around it.
_CHECKING = ("jax", "jax._src", "jax._src.named_sharding")
HostBufferSemantics = _jax.HostBufferSemantics
block_until_ready = _jax.batched_block_until_ready
is_deleted = _jax.ArrayImpl.is_deleted
is_ready = _jax.ArrayImpl.is_ready  # the process dies if it is asked of a deleted array
# jaxlib checks by default that shapes and shardings agree, through modules of jax; handlers of
# later versions do not check.
_SKIP_CHECKS = (
    {"_skip_checks": True} if "_skip_checks" in (_jax.array_result_handler.__doc__ or "") else {}
)


def put(
    aval: Any,
    sharding: Any,
    shards: Sequence[Any],
    devices: Sequence[Any],
    *,
    committed: bool,
    share: bool = False,
) -> Any:
    """An array from its shards, host or device values, one for each device.

    Host values are copied where there is one shard. Of several, or with `share`, they are used in
    place: they must never change.
    """
    copied = len(devices) == 1 and not share
    semantics = (
        HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL if copied else HostBufferSemantics.ZERO_COPY
    )
    return _jax.batched_device_put(
        aval, sharding, shards, devices, committed, host_buffer_semantics=semantics
    )


def shard_arrays(array: Any) -> list[Any]:
    """The single-device arrays that an array consists of."""
    arrays: list[Any] = array._arrays
    return arrays


def one_copy(array: Any) -> Any:
    """A readable array, from an array with the same values on each of its devices."""
    # C++ looks for the package jax whenever it takes parts out of an array.
    here = array._sharding._internal_device_list.addressable_device_list
    return array if len(here) == 1 else array._fully_replicated_shard()


def result_handler(aval: Any, sharding: Any, committed: bool) -> Any:
    """Wraps one result of an executable as an array of the given type."""
    return _jax.array_result_handler(aval, sharding, committed, **_SKIP_CHECKS)


# Arrays made within record only the stack within. jaxlib never frees the stack of an array that is
# made in one of these ways, 100 to 500 bytes; and an array without a stack cannot be divided.
_no_stack = _jax.TracebackScope


def assemble(aval: Any, sharding: Any, parts: Sequence[Any], *, committed: bool) -> Any:
    """An array of single-device arrays, one for each device of the sharding."""
    with _no_stack():
        return ArrayImpl(aval, sharding, list(parts), committed, _skip_checks=True)


def execute(executable: Any, args: Sequence[Any], handlers: Sequence[Any], stack: bool) -> Any:
    """Run an executable on arrays; the results, wrapped by their handlers.

    stack: whether they hold the stack, which profiles of memory show; for runs that are not
    repeated.
    """
    with contextlib.nullcontext() if stack else _no_stack():
        return executable.execute_sharded(args).consume_with_handlers(handlers)


def execute_with_token(
    executable: Any, args: Sequence[Any], handlers: Sequence[Any], stack: bool
) -> tuple[list[Any], Any]:
    """As `execute`; also a token that is ready when the program has ended."""
    with contextlib.nullcontext() if stack else _no_stack():
        outcome = executable.execute_sharded(args, with_tokens=True)
        token = outcome.consume_token()
        return outcome.consume_with_handlers(handlers), token


def copy_to_devices(
    arrays: Sequence[Any], device_lists: Sequence[Any], shardings: Sequence[Any], *, copy: bool
) -> list[Any]:
    """Arrays with the same shards on other devices."""
    semantics = _jax.ArrayCopySemantics.ALWAYS_COPY if copy else _jax.ArrayCopySemantics.REUSE_INPUT
    results: list[Any] = _jax.batched_copy_array_to_devices_with_sharding(
        arrays, device_lists, shardings, [semantics] * len(arrays)
    )
    return results


def from_cuda_interface(description: dict[str, Any], client: Any) -> Any:
    """An array over the memory of a GPU that `__cuda_array_interface__` describes."""
    return _jax.cuda_array_interface_to_buffer(description, client)


def to_dlpack(array: Any, stream: Any) -> Any:
    """The array's buffer as a DLPack capsule."""
    return _jax.buffer_to_dlpack_managed_tensor(array, stream=stream)


def from_dlpack(capsule: Any, device: Any, stream: Any) -> Any:
    """An array on `device` over the buffer in a DLPack capsule."""
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device, stream)


def first_named_sharding(make: Callable[[], Any]) -> None:
    """Make the first NamedSharding of the process.

    C++ then looks for a function of jax, and keeps it. For that moment, modules under jax's names
    give it a function that checks nothing.
    """
    before = {name: sys.modules.get(name) for name in _CHECKING}
    for name in _CHECKING:
        stand_in: Any = types.ModuleType(name)
        stand_in.__path__, stand_in.check_pspec = [], lambda *args, **kwargs: None
        sys.modules[name] = stand_in
    try:
        make()
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def attach(cls: type, members: dict[str, Callable[..., Any] | property]) -> None:
    """Give the C++ array class methods and properties; it cannot be subclassed."""
    for name, member in members.items():
        guard_member(member)
        setattr(cls, name, member)

"""Calls of code in other languages, through XLA's foreign function interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer._base.lazy import listing
from teucer._xla.platforms import foreign
from teucer._xla.platforms.foreign import include_dir
from teucer.lax._foreign.calls import ffi_call
from teucer.lax._foreign.lowering import ffi_lowering

if TYPE_CHECKING:
    from teucer._core.typing import Value

__all__ = [
    "abstract_token",  # noqa: F822  # made on first use
    "build_ffi_lowering_function",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
]
__dir__ = listing(__name__, __all__)

build_ffi_lowering_function = ffi_lowering


def __getattr__(name: str) -> Any:
    if name == "abstract_token":
        from teucer._dialects.high.tokens import (
            TOKEN,
        )  # makes the language of jaxprs larger, which costs a little everywhere

        return TOKEN
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pycapsule(funcptr: object) -> Any:
    """A PyCapsule around a function of a shared library that ctypes has loaded, for
    `register_ffi_target`.

    Raises TypeError for an object that is no pointer.
    """
    return foreign.capsule(funcptr)


def register_ffi_target(
    name: str, fn: object, platform: str = "cpu", api_version: int = 1, **kwargs: object
) -> None:
    """Make a foreign function known under a name, by which `ffi_call` calls it.

    fn: a PyCapsule with the address of its handler, or a dict of one for each of the stages
        'instantiate', 'prepare', 'initialize' and 'execute'.
    platform: where it runs: 'cpu', 'cuda', 'rocm'. A name may be registered on each.
    api_version: 1 for handlers of XLA's FFI; 0 for the older kind, without types. kwargs: `traits`,
        as XLA has them.
    Raises the runtime's error if another function has that name; TypeError if fn is neither. An
    address that is no handler's ends the process.
    """
    if not _is_capsule(fn) and not (
        isinstance(fn, dict) and fn and all(map(_is_capsule, fn.values()))
    ):
        raise TypeError(
            "register_ffi_target: fn is a PyCapsule or a dict of PyCapsules by stage.\n"
            f"    fn: {fn!r:.100}\n  jax.ffi.pycapsule(library.function) makes one of a function "
            "of ctypes."
        )
    foreign.register_target(name, fn, platform, api_version, **kwargs)


def register_ffi_type(name: str, type_registration: object, platform: str = "cpu") -> None:
    """Make a type of state, which a foreign function keeps from call to call, known under a name.

    type_registration: a dict of PyCapsules, 'type_id' and 'type_info'.
    """
    foreign.register_type(name, type_registration, platform)


def register_ffi_type_id(name: str, obj: object, platform: str = "cpu") -> None:
    """Make a type of state known under a name by its id alone; use `register_ffi_type` where the
    state is to be deleted too.

    obj: a PyCapsule with the address of the type's id.
    """
    foreign.register_type(name, obj, platform)


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Say that calls of a foreign function may be divided along the leading axes, the batch, of
    their operands and results.

    How many axes that are, a call says by the attribute mhlo.frontend_attributes = {num_batch_dims
    = "1"} of `ffi_lowering`.
    """
    foreign.register_batch_partitionable(name)


def _is_capsule(x: Value) -> bool:
    return type(x).__name__ == "PyCapsule"

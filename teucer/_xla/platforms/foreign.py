"""Foreign functions: code of others that compiled programs call by name, through XLA's FFI."""

from __future__ import annotations

import ctypes
import os
from typing import Any, TypeAlias

import jaxlib
from jaxlib import _jax, xla_client

Buffer: TypeAlias = _jax.ffi.Buffer
ExecutionContext: TypeAlias = _jax.ffi.ExecutionContext
ExecutionStage: TypeAlias = _jax.ffi.ExecutionStage


def register_target(
    name: str, function: Any, platform: str, api_version: int, **options: Any
) -> None:
    """Make a function known to XLA under a name.

    function: a PyCapsule with its address, or one for each stage, by the stage's name.
    Raises the runtime's error for another function under a name that is taken.
    """
    xla_client.register_custom_call_target(name, function, platform, api_version, **options)


def register_type(name: str, registration: Any, platform: str) -> None:
    """Make a type of state known to XLA under a name."""
    xla_client.register_custom_type(name, registration, platform)


def register_batch_partitionable(name: str) -> None:
    """Say that a function may be called on parts of a batch."""
    xla_client.register_custom_call_as_batch_partitionable(name)


def include_dir() -> str:
    """The folder of the headers that come with jaxlib."""
    return os.path.join(os.path.dirname(os.path.abspath(jaxlib.__file__)), "include")


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


def capsule(pointer: Any) -> Any:
    """A PyCapsule around the address of a ctypes function.

    Raises TypeError for an object without an address.
    """
    return _new_capsule(ctypes.cast(pointer, ctypes.c_void_p), None, None)

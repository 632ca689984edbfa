"""Modules of JAX that libraries import and most of their users do without: the names are there, and raise when they are used.

hijax: types of values that libraries define (flax.nnx, for Variables of that kind). colocated_python: Python on the hosts of
remote accelerators (orbax, with Pathways).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from teucer import core
from teucer.interpreters import ad

__all__ = ["LISTED", "module"]

LISTED = {
    "jax.experimental.hijax": "AvalMutableQDD AvalQDD HiPrimitive HiType MutableHiType VJPHiPrimitive control_flow_allowed_effects",
    "jax.experimental.colocated_python": "colocated_cpu_devices colocated_python colocated_python_class",
    "jax.experimental.colocated_python.func": "_make_prng_wrapped_fun",
    "jax.experimental.colocated_python.serialization": "DeviceList _get_cpu_device_map _reduce_device_list _reduce_mesh "
                                                       "_reduce_single_device_sharding",
}


def module(name: str) -> ModuleType:
    """The module of that name, whose names raise NotImplementedError when they are called or made an object of."""
    made = ModuleType(name, "Names of JAX that Teucer does not support.")
    made.__path__ = []  # type: ignore[attr-defined]  # it may hold others
    for item in LISTED[name].split():
        setattr(made, item, _absent(f"{name}.{item}"))
    if name.endswith(".hijax"):
        vars(made).update(HiPrimitive=HiPrimitive, VJPHiPrimitive=HiPrimitive, control_flow_allowed_effects=_Effects(),
                          aval_method=_same, aval_property=property, register_hitype=_nothing, **_from_interpreters())
    return made


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"{name} is not supported by Teucer.")


def _absent(name: str) -> type:
    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        _refuse(name)

    return type(name.rpartition(".")[2], (), {"__new__": __new__, "__module__": name.rpartition(".")[0]})


class HiPrimitive:
    """A primitive on types of libraries: it can be defined, not bound."""

    multiple_results = False

    def __init__(self, name: str = "") -> None:
        self.name = name

    def bind(self, *args: Any, **params: Any) -> NoReturn:
        """Raises NotImplementedError."""
        _refuse(f"jax.experimental.hijax (primitive {self.name!r})")


class _Effects:
    def add_type(self, effect: Any) -> None:
        """Nothing is to be said of effects that cannot arise."""


def _same(fun: Callable[..., Any]) -> Callable[..., Any]:
    return fun


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Rules of types of which there are no values have nothing to say."""


def _from_interpreters() -> dict[str, Any]:
    return {"AbstractValue": core.AbstractValue, "Zero": ad.Zero, "instantiate_zeros": ad.instantiate_zeros,
            "is_undefined_primal": ad.is_undefined_primal}

"""The primitives, by name: those of lax, and those that carry programs or rules of users."""

from __future__ import annotations

from typing import Any, final

from teucer import lax, random
from teucer._core.primitive import Primitive
from teucer._derived import custom_jvp, custom_vjp, moves, remat
from teucer._jax.calls import (
    create_call_primitive,
    eval_jaxpr_transpose,
    register_call_primitive_rules,
)
from teucer._transform import jit_calls
from teucer.lax import _random, _random_keys, _references, _structure, linalg

_MODULES = {name: module for module in (linalg, lax) for name in dir(module) if name.endswith("_p")}
_MODULES |= {
    "add_jaxvals_p": (_structure, "add_any_p"),
    "custom_jvp_call_p": custom_jvp,
    "custom_lin_p": custom_vjp,
    "custom_vjp_call_p": custom_vjp,
    "device_put_p": moves,
    "get_p": _references,
    "jit_p": jit_calls,
    "name_p": remat,
    "random_bits_p": _random_keys,
    "random_fold_in_p": _random_keys,
    "random_gamma_p": random,
    "random_seed_p": _random_keys,
    "random_split_p": _random_keys,
    "remat_p": remat,
    "swap_p": _references,
    "threefry2x32_p": _random,
}


@final
class _Call(Primitive):
    """A call of a function of flat values: `bind` runs it, so that no program has an equation of
    it.

    Interpreters of jaxprs written for JAX have rules for the two calls.
    """

    multiple_results = True
    call_primitive = True

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *args: Any, subfuns: Any = None, **params: Any) -> list[Any]:
        """The results of fun.call_wrapped(*args), where subfuns = (fun,), or fun comes before the
        arguments."""
        fun, *values = args if subfuns is None else (*subfuns, *args)
        return list(fun.call_wrapped(*values))


call_p, closed_call_p = _Call("call"), _Call("closed_call")
__all__ = [  # noqa: PLE0604  # the names are strings, from the modules
    "call_p",
    "closed_call_p",
    "create_call_primitive",
    "eval_jaxpr_transpose",
    "register_call_primitive_rules",
    *_MODULES,
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = _MODULES[name]
    module, own = place if isinstance(place, tuple) else (place, name)
    return getattr(module, own)


def __dir__() -> list[str]:
    return sorted(__all__)

"""The primitives, by name: primitives of lax, and primitives that carry programs or rules of
users."""

from __future__ import annotations

from typing import Any, final

from teucer import lax
from teucer._core.primitive import Primitive
from teucer.lax import linalg

# The names of primitives by the module that defines them: a table for `lazy_module`.
SOURCES = {
    **{
        module.__name__: " ".join(name for name in dir(module) if name.endswith("_p"))
        for module in (linalg, lax)
    },
    "teucer._derived.custom_jvp": "custom_jvp_call_p",
    "teucer._derived.custom_vjp": "custom_lin_p custom_vjp_call_p",
    "teucer._derived.moves": "device_put_p",
    "teucer._derived.remat": "name_p remat_p",
    "teucer._jax.calls": "create_call_primitive eval_jaxpr_transpose register_call_primitive_rules",
    "teucer._jax.primitives": "call_p closed_call_p",
    "teucer._transform.jit_calls": "jit_p",
    "teucer.lax._random": "threefry2x32_p",
    "teucer.lax._random_keys": "random_bits_p random_fold_in_p random_seed_p random_split_p",
    "teucer.lax._references": "get_p swap_p",
    "teucer.lax._structure": "add_jaxvals_p=add_any_p",
    "teucer.random": "random_gamma_p",
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

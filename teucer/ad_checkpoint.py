"""Rematerialisation: `checkpoint`, the names that its policies refer to, and the policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from teucer._base.lazy import listing
from teucer._core.calls import flatten_call, leaf_names
from teucer._core.jaxpr import Literal, Var
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._derived.checkpoint import checkpoint, remat
from teucer._derived.remat import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint_name,
    checkpoint_name_fwd,
    name_p,
    remat_p,
)
from teucer._transform.jit_calls import jit_p
from teucer._transform.linearize import linearize_flat
from teucer._trees import pytrees
from teucer.lax._checkpoint_policies import checkpoint_policies

if TYPE_CHECKING:
    from teucer._core.typing import Value

__all__ = [
    "Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_name_fwd",
    "checkpoint_policies", "name_p", "print_saved_residuals", "remat", "saved_residuals",
]  # fmt: skip
__dir__ = listing(__name__, __all__)


def saved_residuals(
    f: Callable[..., object], *args: object, **kwargs: object
) -> list[tuple[Any, str]]:
    """The values that the backward pass of `f` keeps: their types, and where they come from."""
    call = flatten_call(args, kwargs)

    def residuals(*xs: Value) -> list[Any]:
        return linearize_flat(lambda *ys: pytrees.tree_leaves(call.apply(f, ys)), xs).residuals

    jaxpr, _ = stage_flat(residuals, [typeof(x) for x in call.leaves])
    names = leaf_names(f, call.tree)
    kept = {v for v in jaxpr.outvars if type(v) is Var}
    return [
        *[(v.aval, "from a literal") for v in jaxpr.outvars if type(v) is Literal],
        *[
            (v.aval, f"from the argument {name}")
            for v, name in zip(jaxpr.invars, names, strict=True)
            if v in kept
        ],
        *[(v.aval, "from a constant") for v in jaxpr.constvars if v in kept],
        *[
            (v.aval, _maker(eqn, i))
            for eqn in jaxpr.eqns
            for i, v in enumerate(eqn.outvars)
            if v in kept
        ],
    ]


def _maker(eqn: object, i: int) -> str:
    """The operation and the line that made the i-th result of an equation, for
    `saved_residuals`."""
    if eqn.primitive is remat_p:
        inner = eqn.params["jaxpr"].jaxpr
        for made in inner.eqns:
            if inner.outvars[i] in made.outvars:
                return _maker(made, made.outvars.index(inner.outvars[i]))
    what = (
        f"named {eqn.params['name']!r}"
        if eqn.primitive is name_p
        else f"output of jitted function {eqn.params['name']!r}"
        if eqn.primitive is jit_p
        else f"output of {eqn.primitive.name}"
    )
    return what + eqn.where(" from ")


def print_saved_residuals(f: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Print the values that the backward pass of `f` keeps."""
    for aval, made in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {made}")

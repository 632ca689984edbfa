"""Rematerialisation: `checkpoint`, the names that its policies refer to, and the policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from teucer._base.lazy import listing
from teucer._core.calls import flatten_call, leaf_names
from teucer._core.jaxpr import Literal, Var
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._derived.remat import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint,
    checkpoint_name,
    checkpoint_name_fwd,
    name_p,
    remat,
    remat_p,
)
from teucer._transform.jit_calls import jit_p
from teucer._transform.linearize import linearize_flat
from teucer._trees import pytrees
from teucer.lax import conv_general_dilated_p, dot_general_p

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Value

__all__ = [
    "Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_name_fwd",
    "checkpoint_policies", "name_p", "print_saved_residuals", "remat", "saved_residuals",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

Policy = Callable[..., Any]


def everything_saveable(*_: Value, **__: object) -> bool:
    """Keep all values."""
    return True


def nothing_saveable(*_: Value, **__: object) -> bool:
    """Keep no value: as without a policy."""
    return False


def dots_saveable(prim: object, *_: Value, **__: object) -> bool:
    """Keep the results of matrix products and convolutions."""
    return prim in (dot_general_p, conv_general_dilated_p)


def dots_with_no_batch_dims_saveable(prim: object, *_: Value, **params: object) -> bool:
    """Keep the results of matrix products without batch dimensions."""
    if prim is not dot_general_p:
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Offload the results of matrix products without batch dimensions."""

    def policy(prim: object, *avals: ShapedArray, **params: object) -> Any:
        saves = dots_with_no_batch_dims_saveable(prim, *avals, **params)
        return Offloadable(offload_src, offload_dst) if saves else Recompute

    return policy


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keep all values but those named by `checkpoint_name` with one of these names."""

    def policy(prim: object, *_: Value, **params: object) -> bool:
        return not (prim is name_p and params["name"] in names_not_to_save)

    return policy


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keep values named by `checkpoint_name`, but not those with one of these names."""

    def policy(prim: object, *_: Value, **params: object) -> bool:
        return prim is name_p and params["name"] not in names_not_to_save

    return policy


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keep values named by `checkpoint_name` with one of these names."""

    def policy(prim: object, *_: Value, **params: object) -> bool:
        return prim is name_p and params["name"] in names_which_can_be_saved

    return policy


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: object,
    names_which_can_be_offloaded: object,
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Keep values with some names, offload those with others.

    Raises ValueError if a name is in both lists.
    """
    both = set(names_which_can_be_saved) & set(names_which_can_be_offloaded)
    if both:
        raise ValueError(
            "The names should be exclusive and should not intersect in "
            "`names_which_can_be_saved` and `names_which_can_be_offloaded`. Got both: "
            f"{sorted(both)}"
        )

    def policy(prim: object, *_: Value, **params: object) -> Any:
        if prim is name_p and params["name"] in names_which_can_be_offloaded:
            return Offloadable(offload_src, offload_dst)
        return (
            Saveable if prim is name_p and params["name"] in names_which_can_be_saved else Recompute
        )

    return policy


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps."""

    def policy(prim: object, *args: object, **params: object) -> bool:
        return bool(policy_1(prim, *args, **params) or policy_2(prim, *args, **params))

    return policy


class checkpoint_policies:
    """The policies of `checkpoint`."""

    everything_saveable = staticmethod(everything_saveable)
    nothing_saveable = staticmethod(nothing_saveable)
    dots_saveable = checkpoint_dots = staticmethod(dots_saveable)
    dots_with_no_batch_dims_saveable = checkpoint_dots_with_no_batch_dims = staticmethod(
        dots_with_no_batch_dims_saveable
    )
    offload_dot_with_no_batch_dims = staticmethod(offload_dot_with_no_batch_dims)
    save_anything_except_these_names = staticmethod(save_anything_except_these_names)
    save_any_names_but_these = staticmethod(save_any_names_but_these)
    save_only_these_names = staticmethod(save_only_these_names)
    save_from_both_policies = staticmethod(save_from_both_policies)
    save_and_offload_only_these_names = staticmethod(save_and_offload_only_these_names)


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
    """What made the i-th result of an equation, and where, for `saved_residuals`."""
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

"""The policies of `checkpoint`: which values of a forward pass are kept for the backward pass.

A policy is asked for each equation. `_derived/remat.py` asks, and has the answers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from teucer._derived.remat import Offloadable, Policy, Recompute, Saveable, name_p
from teucer.lax._convolution.primitive import conv_general_dilated_p
from teucer.lax._dot import dot_general_p

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Value


def everything_saveable(*_: Value, **__: object) -> bool:
    """Keep all values."""
    return True


def nothing_saveable(*_: Value, **__: object) -> bool:
    """Keep no value: as without a policy."""
    return False


def dots_saveable(prim: object, *_: Value, **__: object) -> bool:
    """Keep the results of matrix products and convolutions."""
    return prim in (dot_general_p, conv_general_dilated_p)


def dots_with_no_batch_dims_saveable(prim: object, *_: Value, **params: Any) -> bool:
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
    names_which_can_be_saved: Collection[str],
    names_which_can_be_offloaded: Collection[str],
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

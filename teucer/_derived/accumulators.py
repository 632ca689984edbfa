"""Accumulators: the objects that backward rules add cotangents to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core import array_ops
from teucer._core.types import Zero
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Value
    from teucer._xla.pytree import PyTree, PyTreeDef


class GradAccum:
    """Adds up the cotangents of an argument of type `aval`: a backward rule calls `accum`, and
    `freeze` gives the sum."""

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def accum(self, x: Value) -> None:
        """Add a cotangent; None and Zero add nothing."""
        raise NotImplementedError(f"{type(self).__name__}.accum")

    def freeze(self) -> Any:
        """The sum of the cotangents that were added; a Zero if there were none."""
        raise NotImplementedError(f"{type(self).__name__}.freeze")


@final
class ValAccum(GradAccum):
    """Cotangents become a value.

    >>> import teucer as jax
    >>> total = ValAccum(jax.typeof(1.))
    >>> total.accum(2.), total.accum(3.)
    (None, None)
    >>> total.freeze()
    Array(5., dtype=float32, weak_type=True)
    """

    def __init__(self, aval: Aval, val: Value = None) -> None:
        super().__init__(aval)
        self.val = Zero(aval) if val is None else val

    def accum(self, x: Value) -> None:
        self.val = array_ops.add_cotangents(self.val, x)

    def freeze(self) -> Any:
        return self.val


@final
class RefAccum(GradAccum):
    """Cotangents are added to the array of a reference, which is made when the first comes if there
    is none."""

    def __init__(self, aval: Aval, ref: object = None) -> None:
        super().__init__(aval)
        self.ref = ref

    def inst(self) -> RefAccum:
        """The accumulator, with its reference made."""
        if self.ref is None:
            self.ref = array_ops.new_reference(array_ops.zeros(self.aval))
        return self

    def accum(self, x: Value) -> None:
        if x is not None and type(x) is not Zero:
            array_ops.add_to_reference(self.inst().ref, x)

    def freeze(self) -> Any:
        return Zero(self.aval) if self.ref is None else array_ops.read_reference(self.ref)


@final
class NullAccum(GradAccum):
    """The accumulator of an argument that is not differentiated: cotangents are dropped."""

    def accum(self, x: Value) -> None:
        """Let a cotangent go."""

    def freeze(self) -> Any:
        return Zero(self.aval)


def accumulated(
    rule: Callable[..., object], accums: Sequence[GradAccum], tree: PyTreeDef, said: str
) -> tuple[list[Any], Any]:
    """Call a backward rule with accumulators in the containers of a tree of arguments; gives its
    logs.

    said: the name of the rule in messages. Raises TypeError if it returns anything but logs.
    """
    logs = rule(*pytrees.tree_unflatten(tree, accums))
    if logs is not None and not isinstance(logs, dict):
        raise TypeError(
            f"{said} must return None or a dict of backward-pass log entries, but got "
            f"{type(logs).__name__}."
        )
    return [a.freeze() for a in accums], logs


def accums_of(avals: Sequence[Aval], moving: Sequence[bool]) -> list[GradAccum]:
    """An accumulator for each argument; a NullAccum for those that are not differentiated."""
    expected = [a.cotangent_aval() for a in avals]
    return [
        ValAccum(a) if m and a.moves else NullAccum(a)
        for a, m in zip(expected, moving, strict=True)
    ]


def declared(kinds: PyTree, args: tuple[object, ...], avals: Sequence[Aval]) -> list[GradAccum]:
    """The accumulators that `custom_gradient(with_accums=kinds)` declares, a tree prefix of the
    arguments.

    Raises TypeError for a leaf that is neither ValAccum nor RefAccum, ValueError for a tree that is
    no prefix.
    """
    leaves = pytrees.flatten_axes("with_accums", pytrees.tree_structure(args), kinds)
    for kind in leaves:
        if kind not in (ValAccum, RefAccum):
            raise TypeError(
                "custom_gradient's with_accums must be a pytree prefix of the function's arguments "
                f"with ValAccum or RefAccum leaves, but got a leaf {kind}."
            )
    expected = [a.cotangent_aval() for a in avals]
    return [kind(a) if a.moves else NullAccum(a) for kind, a in zip(leaves, expected, strict=True)]

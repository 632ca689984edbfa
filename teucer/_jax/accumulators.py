"""What backward rules give cotangents to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from teucer._core import array_ops
from teucer._core.types import Zero

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Value


class GradAccum:
    """What a backward rule gives cotangents of an argument of type `aval` to, with `accum`.
    `freeze` gives their sum."""

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def accum(self, x: Value) -> None:
        """Add a cotangent; None and Zero add nothing."""
        raise NotImplementedError(f"{type(self).__name__}.accum")

    def freeze(self) -> Any:
        """The sum, a Zero if there is none."""
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

    def __init__(self, aval: ShapedArray, val: Value = None) -> None:
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

    def __init__(self, aval: ShapedArray, ref: object = None) -> None:
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
    """Of an argument that is not differentiated: cotangents are dropped."""

    def accum(self, x: Value) -> None:
        """Let a cotangent go."""

    def freeze(self) -> Any:
        return Zero(self.aval)

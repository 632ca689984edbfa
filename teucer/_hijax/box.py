"""`Box`: a value that changes, and holds a tree of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core.high import AvalQDD, cur_qdd, low_types, low_values
from teucer._core.trace import Tracer, typeof
from teucer._core.types import Zero, is_valid_type
from teucer._dialects.high.types import MutableHighType, aval_method, register_hitype
from teucer._hijax.operation import HiPrimitive
from teucer._optimize.effects import Effect
from teucer._trees import pytrees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Value


box_effect = Effect("box")


class BoxTypeState(NamedTuple):
    """The state of a box: types of leaves, and the tree."""

    leaf_avals: tuple[Any, ...]
    treedef: Any

    def to_tangent_qdd(self) -> BoxTypeState:
        """The state of a box of tangents."""
        return self._replace(leaf_avals=tuple(a.to_tangent_aval() for a in self.leaf_avals))

    def normalize(self) -> BoxTypeState:
        """The state with no weak types."""
        return self._replace(leaf_avals=tuple(a.normalize() for a in self.leaf_avals))

    def __str__(self) -> str:
        return str(
            pytrees.tree_unflatten(
                self.treedef, [a.str_short(short_dtypes=True) for a in self.leaf_avals]
            )
        )


class _BoxMeta(type):
    """Traced boxes are instances too."""

    def __instancecheck__(cls, x: Array) -> bool:
        return type(x) is cls or (isinstance(x, Tracer) and type(x.aval) is BoxType)


@final
class Box(metaclass=_BoxMeta):
    """Holds a tree of arrays that may be replaced by another one, within transformed functions too.

    init_val: its first content; nothing (None) by default.
    It may be passed to jitted functions and closed over by them, by loops and branches, and its
    tree may change in all but loops.

    >>> import teucer as jax
    >>> box = Box(1.)
    >>> jax.jit(lambda box, x: box.set((box.get(), x)))(box, 2.)
    >>> box.get()
    (Array(1., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """

    __slots__ = ("_val", "__weakref__")
    _val: Any  # a tree of values that the user stored
    __hash__ = object.__hash__

    def __new__(cls, init_val: object = None) -> Any:
        box = new_box()
        box_set(box, init_val)
        return box

    @classmethod
    def _new(cls, val: Any) -> Box:
        box = object.__new__(cls)
        box._val = val
        return box

    def get(self) -> Any:
        """The value that the box holds."""
        return box_get(self)

    def set(self, val: Any) -> None:
        """Let the box hold another tree."""
        box_set(self, val)

    def cur_qdd(self) -> BoxTypeState:
        """The types of the box's content."""
        leaves, tree = pytrees.tree_flatten(self._val)
        return BoxTypeState(tuple(map(typeof, leaves)), tree)

    type_state = cur_qdd

    def __repr__(self) -> str:
        return f"Box({self._val!r})"


@final
class BoxType(MutableHighType):
    """The type of boxes. The types of a box's content are its state."""

    def __eq__(self, other: object) -> bool:
        return type(other) is BoxType

    def __hash__(self) -> int:
        return hash(BoxType)

    def lo_ty_qdd(self, state: BoxTypeState, /) -> list[Any]:
        return [low for a in state.leaf_avals for low in low_types(a)]

    def new_from_loval(self, state: BoxTypeState, /, *vals: Value) -> Box:
        box = Box._new(None)
        self.update_from_loval(state, box, *vals)
        return box

    def read_loval(self, state: BoxTypeState, val: Box, /) -> list[Any]:
        return [
            low
            for x, a in zip(pytrees.tree_leaves(val._val), state.leaf_avals, strict=True)
            for low in low_values(x, a)
        ]

    def update_from_loval(self, state: BoxTypeState, val: Box, /, *lo_vals: Value) -> None:
        rest = iter(lo_vals)
        leaves = [a.raise_val(*(next(rest) for _ in low_types(a))) for a in state.leaf_avals]
        val._val = pytrees.tree_unflatten(state.treedef, leaves)

    def __repr__(self) -> str:
        return "BoxTy"

    get = aval_method(Box.get)
    set = aval_method(Box.set)


register_hitype(Box, lambda box: BoxType())


class NewBox(HiPrimitive):
    """An empty box."""

    def abstract_eval(self, *, treedef: object) -> Any:
        return AvalQDD(BoxType(), BoxTypeState((), treedef)), {box_effect}

    def to_lojax(self, *, treedef: object) -> Any:
        return Box._new(None)


class BoxSet(HiPrimitive):
    """Let a box hold the tree `treedef` of the other operands."""

    multiple_results = True

    def abstract_eval(self, *arg_avals: Any, treedef: Any) -> Any:
        box, *leaf_avals = arg_avals
        box.mutable_qdd.update(BoxTypeState(tuple(leaf_avals), treedef))
        return [], {box_effect}

    def to_lojax(self, *values: Any, treedef: Any) -> Any:
        box, *leaves = values
        box._val = pytrees.tree_unflatten(treedef, leaves)
        return []

    def jvp(self, primals: Any, tangents: Any, *, treedef: Any) -> Any:
        (box, *vals), (box_dot, *val_dots) = primals, tangents
        if type(box_dot) is Zero:
            raise TypeError(
                "can't differentiate Box.set operation, did you forget jax.lax.stop_gradient?\n"
                "  A box has no tangents unless it is an argument of the differentiated function "
                "that comes with a box of tangents."
            )
        self.operation.call(box, *vals, treedef=treedef)
        self.operation.call(box_dot, *map(array_ops.instantiate, val_dots), treedef=treedef)
        return [], []


class BoxGet(HiPrimitive):
    """The leaves of a box's content, of types `avals`."""

    multiple_results = True

    def abstract_eval(self, *arg_avals: Any, avals: Sequence[ShapedArray]) -> Any:
        return avals, {box_effect}

    def to_lojax(self, *values: Any, avals: Sequence[ShapedArray]) -> Any:
        return pytrees.tree_leaves(values[0]._val)

    def jvp(self, primals: Sequence[Value], tangents: Any, *, avals: Sequence[ShapedArray]) -> Any:
        outs = self.operation.call(*primals, avals=avals)
        return outs, self.operation.call(*tangents, avals=tuple(a.to_tangent_aval() for a in avals))


new_box_p, box_set_p, box_get_p = NewBox("new_box"), BoxSet("box_set"), BoxGet("box_get")
_EMPTY = pytrees.tree_structure(None)


def new_box() -> Any:
    """A box that holds nothing (None)."""
    return new_box_p.operation.call(treedef=_EMPTY)[0]


@tracebacks.api_boundary
def box_get(box: object) -> Any:
    """The content of a box: a tree of arrays.

    >>> box_get(Box([1, 2]))
    [1, 2]
    """
    state = cur_qdd(box)
    return pytrees.tree_unflatten(
        state.treedef, box_get_p.operation.call(box, avals=tuple(state.leaf_avals))
    )


@tracebacks.api_boundary
def box_set(box: object, val: Any) -> None:
    """Let a box hold a tree.

    Raises TypeError for a leaf that is no array, number or value of a library's type.
    """
    leaves, tree = pytrees.tree_flatten(val)
    for x in leaves:
        if not is_valid_type(x):
            raise TypeError(
                "Error interpreting argument to box_set as a JAX value. The problematic value is "
                f"of type {type(x)}\n    value: {x!r:.100}\n"
                "  A box holds trees of arrays and numbers."
            )
    box_set_p.operation.call(box, *leaves, treedef=tree)

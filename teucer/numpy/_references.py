"""References as users see them.

`ref[...]`, `ref[...] = x`, `ref.at[...]`, views, and the functions of `jax.ref`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes, errors, tracebacks
from teucer._core import array_ops
from teucer._core.high import is_mutable
from teucer._core.leaks import check_alive
from teucer._core.reference_types import HighRef, RefType, is_reference
from teucer._core.trace import EVAL, Tracer, current_trace, typeof
from teucer._core.types import Aval, ShapedArray, is_valid_type
from teucer._dialects.high.types import member_of as of_high
from teucer._dialects.references.cells import Ref
from teucer._trees.pytrees import GetAttrKey
from teucer._trees.registry import register_pytree_with_keys
from teucer.lax import _reference_parts, _references
from teucer.numpy._index_keys import Key, Slice, out_of_bounds, parse
from teucer.numpy._reference_views import (
    Bitcast,
    Index,
    Reshape,
    Transpose,
    bitcast_shape,
    parts_text,
)

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, DTypeLike, Size


# --- References and views -------------------------------------------------------------------------


@final
class View:
    """A part of a reference's array, to be read and written like the reference: `ref.at[1:3]`,
    `ref.reshape(...)`."""

    __slots__ = ("ref", "transforms", "_operands", "aval")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        ref: object,
        transforms: tuple[object, ...] = (),
        operands: tuple[Any, ...] = (),
        aval: ShapedArray | None = None,
    ) -> None:
        if type(ref) is not Ref:
            check_alive(ref)
        self.ref, self.transforms, self._operands = ref, transforms, operands
        inner = typeof(ref).inner
        self.aval = RefType(
            inner if aval is None else aval, typeof(ref).memory_space, typeof(ref).kind
        )

    shape = property(lambda self: self.aval.shape, doc="Sizes of the axes.")
    dtype = property(lambda self: self.aval.dtype, doc="Type of the elements.")
    ndim = property(lambda self: self.aval.ndim, doc="Number of axes.")
    size = property(lambda self: math.prod(self.aval.shape), doc="Number of elements.")
    type = property(lambda self: self.aval, doc="The type of a reference to the part.")
    is_dynamic_size = False
    multiref = False
    is_part = True

    def _of(self, view: object, inner: ShapedArray, operands: Sequence[Any] = ()) -> View:
        return View(self.ref, (*self.transforms, view), (*self._operands, *operands), inner)

    def _indexed(self, key: object) -> View:
        if key is Ellipsis or (type(key) is tuple and not key):
            return self
        if self.aval.is_high:
            _refuse_part(key, self.aval)
            return self
        window, key = windowed(key, self.shape)
        if window is not None:
            return self._indexed(window)._indexed(key)
        parsed = parse_key(key, self.shape)
        view = Index(parsed.plan, len(parsed.operands), self.shape)
        inner = _reference_parts.part_aval(
            self.aval.inner, (view,), tuple(map(typeof, parsed.operands))
        )
        return self._of(view, inner, parsed.operands)

    @property
    def at(self) -> At:
        """A part of this part: `view.at[key]`."""
        return At(self)

    def __getitem__(self, key: object) -> Any:
        place = self._indexed(key)
        return _references.get_p.call(place.ref, *place._operands, views=place.transforms)[0]

    def __setitem__(self, key: object, value: Array) -> None:
        self._swap(key, value)

    def _swap(self, key: object, value: ArrayLike) -> Any:
        place = self._indexed(key)
        return _references.swap_p.call(
            place.ref, place._value(value), *place._operands, views=place.transforms
        )[0]

    def _value(self, value: ArrayLike) -> Any:
        if not is_valid_type(value):
            value = np.asarray(value)
        return _reference_parts.checked_value(self.aval.inner, value)

    def get(self, idx: Any = ()) -> Any:
        """The elements."""
        return self[idx]

    def set(self, value: Any, idx: object = ()) -> None:
        """Replace the elements."""
        self._swap(idx, value)

    def swap(self, value: Array, idx: object = ()) -> Any:
        """Replace the elements; returns the old ones."""
        return self._swap(idx, value)

    def addupdate(self, value: ArrayLike, idx: object = ()) -> None:
        """Add a value to the elements."""
        place = self._indexed(idx)
        _references.addupdate_p.call(
            place.ref, place._value(value), *place._operands, views=place.transforms
        )

    def bitcast(self, dtype: DTypeLike) -> View:
        """The elements with their bits taken for another dtype; of another width, the axis before
        the last changes its size."""
        new = dtypes.as_dtype(dtype)
        inner = self.aval.inner
        return self._of(
            Bitcast(new),
            inner.update(
                shape=bitcast_shape(self.shape, inner.dtype, new), dtype=new, weak_type=False
            ),
        )

    def reshape(self, *shape: Any) -> View:
        """The elements in another shape; one size may be -1."""
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        known = math.prod(n for n in sizes if n != -1)
        new = tuple(self.size // known if n == -1 else n for n in sizes)
        if sizes.count(-1) > 1 or math.prod(new) != self.size:
            raise TypeError(
                f"reshape: a reference of shape {self.shape} has not the elements of shape {sizes}."
            )
        return self._of(Reshape(new), self.aval.inner.update(shape=new))

    def transpose(self, *permutation: Any) -> View:
        """The axes in another order, reversed by default."""
        axes = (
            tuple(permutation[0])
            if len(permutation) == 1 and isinstance(permutation[0], tuple | list)
            else permutation
        )
        axes = axes or tuple(reversed(range(self.ndim)))
        return self._of(
            Transpose(axes), self.aval.inner.update(shape=tuple(self.shape[i] for i in axes))
        )

    @property
    def T(self) -> View:
        """The axes in reverse order."""
        return self.transpose()

    def __len__(self) -> int:
        return errors.length(self.aval.shape)

    def __repr__(self) -> str:
        # Trees of parts may have other leaves than references; these have no such type.
        what = self.aval.str_short() if hasattr(self, "aval") else repr(self.ref)
        return f"View({parts_text('ref', self.transforms, list(map(str, self._operands)))}, {what})"


@final
class At:
    """ref.at, to be indexed: ref.at[key] is a view."""

    __slots__ = ("ref_or_view",)

    def __init__(self, ref_or_view: object) -> None:
        self.ref_or_view = ref_or_view

    def __getitem__(self, key: object) -> View:
        return _view(self.ref_or_view)._indexed(key)


def _refuse_part(key: object, aval: RefType) -> None:
    """Raise NotImplementedError if a key names a part only of a value of a high type."""
    entries = [e for e in (key if type(key) is tuple else (key,)) if e is not Ellipsis]
    shape = getattr(aval.inner, "shape", ())
    for i, entry in enumerate(entries):
        if type(entry) is not slice or (
            entry != slice(None) and entry.indices(shape[i]) != (0, shape[i], 1)
        ):
            raise NotImplementedError(
                f"a reference to a value of type {aval.inner} is read and written as a whole: "
                f"ref[...].\n    key: {key!r:.100}"
            )


def windowed(key: Any, shape: Sequence[Size]) -> tuple[Any, Any]:
    """A key in which slices with a traced start and steps are taken in two: a window, or None
    without such a slice, and a key of its elements."""
    entries = key if type(key) is tuple else (key,)
    if not any(_is_stepped(e) for e in entries):
        return None, key
    if any(e is Ellipsis or e is None or getattr(e, "ndim", 0) for e in entries):
        return None, key
    window = tuple(
        Slice(e.start, (e.size - 1) * e.stride + 1) if _is_stepped(e) else slice(None)
        for e in entries
    )
    steps = tuple(slice(None, None, e.stride) if _is_stepped(e) else e for e in entries)
    return window, steps


def _is_stepped(e: Any) -> bool:
    return type(e) is Slice and e.is_dynamic_start and e.stride > 1


def parse_key(key: object, shape: Sequence[Size]) -> Key:
    """A NumPy key, in which slices may be `Slice`, whose start may be traced.

    Raises ValueError for an int that lies outside, IndexError and TypeError as `parse`.
    """
    parsed = parse(key, shape)
    if not parsed.in_bounds:
        what = str(out_of_bounds(parsed, shape)).partition("\n")[0]
        raise ValueError(
            f"Out of bound indexer: {what}\n    shape: {tuple(shape)}\n    key: {key!r:.100}"
        )
    # A slice of fixed size counts from the start, as in kernels.
    return parsed._replace(
        items=tuple(item[:2] if item[0] == "window" else item for item in parsed.items)
    )


def _view(ref: object) -> View:
    return ref if type(ref) is View else View(ref)


# --- Functions ------------------------------------------------------------------------------------


@tracebacks.api_boundary
def new_ref(
    init_val: object, *, memory_space: object = None, kind: str | None = None, pin: bool = False
) -> Any:
    """A reference to a copy of an array, which can be read and written in place.

    init_val: an array or number; the dtype of the reference is not weak. memory_space: for kernels.
    kind: None; or 'no_grad_no_remat' for arrays in which a differentiated function leaves notes:
    written values have no derivative, and rematerialisation does not write again.
    pin: whether the buffer stays in its place, which no compiler here can promise: True raises
        NotImplementedError.
    Under `jit` and inside of loops it works as outside; a reference cannot be returned by a
    function that is transformed. Raises TypeError for an object that is no array, ValueError for
    another kind.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> ref = jax.new_ref(jnp.zeros(3))
    >>> ref[1] = 5.
    >>> ref[...] += 1.
    >>> ref
    Ref([1., 6., 1.], dtype=float32)
    """
    _refuse_pin("new_ref", pin)
    aval = typeof(init_val) if is_valid_type(init_val) else None
    if type(aval) is not ShapedArray and (
        aval is None or not aval.is_high or is_mutable(aval) or type(aval) is RefType
    ):
        raise TypeError(
            "Error interpreting argument to new_ref as a JAX value. The problematic value is of "
            f"type {type(init_val)}\n    init_val: {init_val!r:.100}\n"
            "  A reference is to one array: map new_ref over a tree with jax.tree.map."
        )
    if kind not in (None, "no_grad_no_remat"):
        raise ValueError(f"new_ref: kind is None or 'no_grad_no_remat', got {kind!r}")
    if aval.weak_type:  # the dtype of a place to write to is decided
        init_val = array_ops.convert(init_val, aval.update(weak_type=False))
    return _references.new_ref_p.call(init_val, memory_space=memory_space, kind=kind)[0]


def _refuse_pin(name: str, pin: bool) -> None:
    if pin:
        raise NotImplementedError(
            f"{name}: pin=True is not supported: arrays of a program are not pinned to their "
            "buffers.\n  Leave it out; values are the same."
        )


@tracebacks.api_boundary
def empty_ref(ty: Any, memory_space: object = None, pin: bool = False) -> Any:
    """A reference to an array of a shape and dtype; its elements are to be written before they are
    read.

    ty: anything with shape and dtype. pin: as of `new_ref`.
    """
    _refuse_pin("empty_ref", pin)
    if isinstance(ty, Aval) and ty.is_high:
        return _references.empty_ref_p.call(aval=ty, memory_space=memory_space)[0]
    aval = ShapedArray(
        tuple(ty.shape),
        ty.dtype if isinstance(ty.dtype, dtypes.ExtendedDType) else dtypes.as_dtype(ty.dtype),
    )
    return _references.empty_ref_p.call(aval=aval, memory_space=memory_space)[0]


@tracebacks.api_boundary
def freeze(ref: object) -> Any:
    """The array of a reference. The reference ends, so that the array need not be copied.

    >>> import teucer as jax
    >>> ref = jax.new_ref(1.)
    >>> ref[...] = 2.
    >>> jax.freeze(ref)
    Array(2., dtype=float32)
    """
    return _references.freeze_p.call(_reference("freeze", ref))[0]


@tracebacks.api_boundary
def free_ref(ref: Any) -> None:
    """End a reference and release its array."""
    _references.free_ref_p.call(_reference("free_ref", ref))


def _reference(op: str, ref: Any) -> Any:
    if not isinstance(ref, Ref):
        _reference_parts.refuse_array(op, ref)
    check_alive(ref)
    return ref


@tracebacks.api_boundary
def get(ref: Any, idx: object = None) -> Any:
    """ref[idx]: the elements that an index of NumPy names; all of them for None.

    Raises ValueError for an integer outside, TypeError for an object that is no reference.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.ref.get(jax.new_ref(jnp.arange(3)), 1)
    Array(1, dtype=int32)
    """
    return _place("get", ref)[... if idx is None else idx]


@tracebacks.api_boundary
def set(ref: Any, idx: object, value: ArrayLike) -> None:
    """ref[idx] = value.

    value: of the shape of ref[idx] and its dtype; numbers of Python are converted.
    """
    _place("set", ref)._swap(_key(idx), value)


@tracebacks.api_boundary
def swap(ref: object, idx: object, value: ArrayLike, _function_name: str = "ref_swap") -> Any:
    """Let ref[idx] be value; returns the elements that were there.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> ref = jax.new_ref(jnp.arange(3))
    >>> jax.ref.swap(ref, 0, 7), ref
    (Array(0, dtype=int32), Ref([7, 1, 2], dtype=int32))
    """
    return _place("swap", ref)._swap(_key(idx), value)


@tracebacks.api_boundary
def addupdate(ref: Any, idx: object, x: ArrayLike) -> None:
    """Add x to ref[idx]. Where an element is named several times all are added."""
    _place("addupdate", ref).addupdate(x, _key(idx))


def _key(idx: object) -> Any:
    return ... if idx is None else idx


def _place(op: str, ref: object) -> View:
    return ref if type(ref) is View else View(_reference(op, ref))


# --- Methods of references, traced ones included --------------------------------------------------


def _ref_getitem(ref: object, idx: object) -> Any:
    """The elements that an index names."""
    return View(ref)[idx]


def _ref_setitem(ref: object, idx: object, x: ArrayLike) -> None:
    """Replace the elements that an index names."""
    if type(ref) is Ref and current_trace() is EVAL and type(x) in _PLAIN:
        # Written out, without views: Python loops spend their time here (benchmarks/).
        part = ref.aval.inner
        views: tuple[Index, ...] = ()
        places: tuple[Any, ...] = ()
        if idx is not Ellipsis:
            parsed = parse_key(idx, part.shape)
            views, places = (Index(parsed.plan, len(parsed.operands), part.shape),), parsed.operands
            part = _reference_parts.part_aval(part, views, tuple(map(typeof, places)))
        _references.set_now(ref, part, _reference_parts.checked_value(part, x), places, views)
    else:
        View(ref)._swap(idx, x)


_PLAIN = frozenset({int, float, bool, complex, ArrayImpl, np.ndarray})


def _ref_addupdate(ref: object, x: ArrayLike, idx: object = ()) -> None:
    """Add x to the elements that an index names."""
    View(ref).addupdate(x, idx)


def _on_view(name: str) -> Any:
    def method(ref: object, *args: object, **kwargs: object) -> Any:
        return getattr(View(ref), name)(*args, **kwargs)

    method.__name__, method.__doc__ = name, getattr(View, name).__doc__
    return method


METHODS: dict[str, Any] = {
    "__getitem__": tracebacks.api_boundary(_ref_getitem),
    "__setitem__": tracebacks.api_boundary(_ref_setitem),
    "addupdate": tracebacks.api_boundary(_ref_addupdate),
    "at": property(
        At, doc="Parts of the array, to be read and written like the reference: `ref.at[key]`."
    ),
    **{name: _on_view(name) for name in ("bitcast", "reshape", "transpose", "get", "set", "swap")},
    "T": property(lambda ref: View(ref).T, doc="The axes in reverse order."),
}
for _name, _member in METHODS.items():
    setattr(Ref, _name, _member)
    setattr(HighRef, _name, _member)


def _for_traced(name: str, of_array: Any) -> Any:
    """A member of traced values: the references' member for references, the arrays' for arrays."""
    own = METHODS[name]
    if isinstance(own, property):
        return property(
            lambda x: (own if type(x.aval) is RefType else of_array).__get__(x),
            doc=of_array.__doc__,
        )

    def member(x: Any, *args: Any, **kwargs: Any) -> Any:
        return own(x, *args, **kwargs) if type(x.aval) is RefType else of_array(x, *args, **kwargs)

    member.__name__, member.__doc__ = name, of_array.__doc__
    return member


def _otherwise(x: Array, name: str) -> Any:
    """Members that only traced references and values of high types have, not arrays; and members
    that no traced value has."""
    if name != "aval" and x.aval.is_high and type(x.aval) is not RefType:
        return of_high(x, name)
    own = METHODS.get(name)
    if own is not None and type(x.aval) is RefType:
        return own.__get__(x)
    if name == "sharding":
        raise AttributeError(
            "The 'sharding' attribute is not available on traced array with shape "
            f"{x.aval.str_short()}. To query sharding information on tracers, use `jax.typeof(x)`."
        )
    raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}")


def _flatten(view: View) -> tuple[tuple[tuple[Any, Any], ...], Any]:
    """A part as a pytree: the reference and traced places; places that are known are static."""
    known = tuple(
        [
            None if isinstance(x, Tracer | ArrayImpl) or np.ndim(x) else int(x)
            for x in view._operands
        ]
    )
    places = [
        (GetAttrKey("places"), x) for x, n in zip(view._operands, known, strict=True) if n is None
    ]
    return ((GetAttrKey("ref"), view.ref), *places), (view.transforms, known)


def _unflatten(static: Any, children: Sequence[Any]) -> View:
    (transforms, known), (ref, *places) = static, children
    rest = iter(places)
    operands = tuple([next(rest) if n is None else n for n in known])
    view = object.__new__(View)
    view.ref, view.transforms, view._operands = ref, transforms, operands
    if isinstance(ref, Ref | Tracer) and is_reference(typeof(ref)):  # else stand-ins for leaves
        inner = _reference_parts.part_aval(
            typeof(ref).inner, transforms, tuple(map(typeof, operands))
        )
        view.aval = RefType(inner, typeof(ref).memory_space, typeof(ref).kind)
    return view


register_pytree_with_keys(View, _flatten, _unflatten)


def _attach() -> None:
    """Let traced references have the members of references."""
    for name in METHODS:
        if hasattr(Tracer, name):
            setattr(Tracer, name, _for_traced(name, Tracer.__dict__[name]))
    Tracer.__getattr__ = _otherwise


_attach()

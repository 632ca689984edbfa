"""The primitives on references.

To make them, to read and write parts of their arrays, to end them (docs/references.md).

A part is the result of `views`, applied to the array one after the other: indices, other shapes,
other dtypes. `numpy` states how parts of arrays are read and written, and installs it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core import array_ops, dialects
from teucer._core.primitive import Primitive, Undefined
from teucer._core.provided import References
from teucer._core.reference_types import AccumEffect, HighRef, ReadEffect, RefType, WriteEffect
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero, float0
from teucer._dialects.references.cells import Ref
from teucer._dialects.references.discharge import Cell
from teucer._transform.batch import batch_flat, unmapped_aval
from teucer._transform.jit import make_jit
from teucer._transform.jit_options import JitOptions
from teucer._xla.arrays import ArrayImpl
from teucer.lax import _conversion
from teucer.lax._reference_parts import (
    Views,
    add_part,
    by_parts,
    by_types,
    parts_of,
    read_part,
    set_part,
    swap_part,
)
from teucer.lax._reference_parts import part_aval as _part_aval

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn
    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, ArrayLike, Arrays, Avals, Dims, Params, Value, Values


def _copy(x: ArrayLike) -> Any:
    return _conversion.copy_p.call(x)[0]


# Programs for references outside of any trace. Those that change the array are given its buffer.
_views = JitOptions(static_argnames=("views",))
_changing = JitOptions(static_argnames=("views",), donate_argnums=(0,))
_copy_now = make_jit(_copy, JitOptions())
_read_now = make_jit(read_part, _views)
_set_now, _add_now, _swap_now = (make_jit(f, _changing) for f in (set_part, add_part, swap_part))


@dialects.takes_references.mark
class _OnReference(Primitive):
    """A primitive whose first operand is a reference.  (C1) it is one.  (C2) a value has shape and
    dtype of the part."""

    __slots__ = ()
    mergeable = False
    shard = by_types
    on_low = dialects.on_low.rule(by_parts)

    def check(self, ref: Any) -> RefType:
        if type(ref) is not RefType:
            raise TypeError(f"{self.name}: operand 0 is no reference.\n    ref: {ref}")
        return ref

    def check_value(self, part: Any, value: ShapedArray, ref: RefType) -> None:
        if part.is_high:
            if part != value:
                raise TypeError(
                    f"{self.name}: a value of type {value} is written to a reference to values of "
                    f"type {part}."
                )
            return
        name = "swap" if self.name == "swap" else "addupdate"
        if part.shape != value.shape:
            raise ValueError(
                f"Invalid shape for `{name}`. Ref shape: {ref.shape}. Expected shape: "
                f"{part.shape}. Value shape: {value.shape}.\n"
                f"  Values are not broadcast: jnp.broadcast_to(value, {part.shape})."
            )
        if part.dtype != value.dtype:
            raise ValueError(
                f"Invalid dtype for `{name}`. Ref dtype: {part.dtype.name}. Value dtype: "
                f"{value.dtype.name}.\n  Convert the value: value.astype({part.dtype.name!r})."
            )


def _tangent_of(t: Array | Zero) -> Any:
    """The reference of tangents that belongs to a reference; None if it has none."""
    return None if type(t) is Zero else t


@final
class Get(_OnReference):
    """The part of a reference's array. Operands are the reference and the places of the views."""

    __slots__ = ()
    name = "get"

    def types(self, ref: object, *places: ShapedArray, views: Views) -> Any:
        return (_part_aval(self.check(ref).inner, views, places),)

    def effects(self, ref: object, *places: ShapedArray, views: Views) -> Any:
        return frozenset((ReadEffect(0),))

    def evaluate(self, ref: Any, *places: object, views: Views) -> Any:
        if type(ref) is HighRef:
            return by_parts(self, (ref,), (ref.aval,), views=views)
        array = ref.read()
        return (
            _read_now(array, *places, views=views)
            if views
            else _placed_as(_copy_now(array), array),
        )

    @dialects.discharge.rule
    def discharge(self, ref: object, *places: Array, views: Views) -> Any:
        if type(ref) is not Cell:
            return self.call(ref, *places, views=views)
        return (read_part(ref.read(), *places, views=views),)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[Array], *, views: Views) -> Any:
        outs = self.call(*primals, views=views)
        t = _tangent_of(tangents[0])
        return outs, (typeof(outs[0]).zero,) if t is None else self.call(
            t, *primals[1:], views=views
        )

    def transpose(self, cts: Sequence[object], ref: Any, *places: object, views: Views) -> Any:
        addupdate_p.call(ref.ref(), array_ops.instantiate(cts[0]), *places, views=views)
        return (None,) * (1 + len(places))

    def batch(self, axis: Axis, args: Sequence[Value], dims: Dims, *, views: Views) -> Any:
        whole = self.call(args[0], views=())[0]
        outs, out_dims = batch_flat(
            lambda x, *places: [read_part(x, *places, views=views)], axis, (whole, *args[1:]), dims
        )
        return outs, tuple(out_dims)

    @dialects.text.rule
    def text(self, printer: Any, eqn: Eqn, used: object) -> str:
        return (
            f"{printer.binder(eqn.outvars[0], used)} <- "
            f"{_part_text(printer, eqn.invars[0], eqn.invars[1:], eqn.params)}"
        )


@final
class Swap(_OnReference):
    """Replaces the part of a reference's array by a value; the result is the old part. Operands:
    reference, value, places."""

    __slots__ = ()
    name = "swap"

    def types(self, ref: RefType, value: ShapedArray, *places: ShapedArray, views: Views) -> Any:
        part = _part_aval(self.check(ref).inner, views, places)
        self.check_value(part, value, ref)
        return (part,)

    def effects(self, ref: object, *rest: ShapedArray, views: Views) -> Any:
        return frozenset(
            (WriteEffect(0),)
        )  # as in JAX: writes are ordered like reads, so one effect is enough

    def evaluate(self, ref: Any, value: Any, *places: object, views: Views) -> Any:
        self.types(ref.aval, *map(typeof, (value, *places)), views=views)
        if type(ref) is HighRef:
            return by_parts(self, (ref, value), (ref.aval, typeof(value)), views=views)
        old, new = _swap_now(ref.read(), value, *places, views=views)
        ref.write(_of_type(new, ref.aval))
        return (old,)

    @dialects.discharge.rule
    def discharge(self, ref: object, value: ArrayLike, *places: Array, views: Views) -> Any:
        if type(ref) is not Cell:
            return self.call(ref, value, *places, views=views)
        old, new = swap_part(ref.read(), value, *places, views=views)
        ref.write(new)
        return (old,)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], *, views: Views) -> Any:
        outs = self.call(*primals, views=views)
        t = _write_tangent(self.name, primals, tangents)
        if t is None:
            return outs, (typeof(outs[0]).zero,)
        return outs, self.call(t, array_ops.instantiate(tangents[1]), *primals[2:], views=views)

    def transpose(
        self, cts: Values, ref: Any, value: Array | Undefined, *places: object, views: Views
    ) -> Any:
        (ct,) = self.call(ref.ref(), array_ops.instantiate(cts[0]), *places, views=views)
        return (None, ct if type(value) is Undefined else None, *(None,) * len(places))

    def batch(self, axis: Axis, args: Sequence[Value], dims: Dims, *, views: Views) -> Any:
        old, dim = get_p.batch(axis, (args[0], *args[2:]), (dims[0], *dims[2:]), views=views)
        _write_batch("set", axis, args, dims, views)
        return old, dim

    @dialects.text.rule
    def text(self, printer: Any, eqn: Eqn, used: Any) -> str:
        part = _part_text(printer, eqn.invars[0], eqn.invars[2:], eqn.params)
        value, (old,) = printer.name(eqn.invars[1]), eqn.outvars
        if type(old).__name__ == "DropVar" or (used is not None and old not in used):
            return f"{part} <- {value}"
        return f"{printer.binder(old, used)}, {part} <- {part}, {value}"


@final
class AddUpdate(_OnReference):
    """Adds a value to the part of a reference's array. Operands: reference, value, places. No
    results."""

    __slots__ = ()
    name = "addupdate"
    multiple_results = True

    def types(self, ref: RefType, value: ShapedArray, *places: ShapedArray, views: Views) -> Any:
        self.check_value(_part_aval(self.check(ref).inner, views, places), value, ref)
        return ()

    def effects(self, ref: object, *rest: ShapedArray, views: Views) -> Any:
        return frozenset((AccumEffect(0),))

    def evaluate(self, ref: Any, value: ArrayLike, *places: object, views: Views) -> Any:
        self.types(ref.aval, *map(typeof, (value, *places)), views=views)
        ref.write(_of_type(_add_now(ref.read(), value, *places, views=views), ref.aval))
        return ()

    @dialects.discharge.rule
    def discharge(self, ref: object, value: ArrayLike, *places: Array, views: Views) -> Any:
        if type(ref) is not Cell:
            return self.call(ref, value, *places, views=views)
        ref.write(add_part(ref.read(), value, *places, views=views))
        return ()

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], *, views: Views) -> Any:
        self.call(*primals, views=views)
        t = _write_tangent(self.name, primals, tangents)
        if t is not None and type(tangents[1]) is not Zero:
            self.call(t, tangents[1], *primals[2:], views=views)
        return (), ()

    def transpose(
        self, cts: Values, ref: Any, value: Array | Undefined, *places: object, views: Views
    ) -> Any:
        if type(value) is not Undefined:
            return (None,) * (2 + len(places))
        return (None, *get_p.call(ref.ref(), *places, views=views), *(None,) * len(places))

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, *, views: Views) -> Any:
        _write_batch("add", axis, args, dims, views)
        return (), ()

    @dialects.text.rule
    def text(self, printer: Any, eqn: Eqn, used: object) -> str:
        return (
            f"{_part_text(printer, eqn.invars[0], eqn.invars[2:], eqn.params)} += "
            f"{printer.name(eqn.invars[1])}"
        )


def _part_text(printer: Any, ref: object, places: Sequence[Any], params: Params) -> str:
    return parts_of["text"](
        printer.name(ref),
        params["views"],
        [str(p.val) if type(p).__name__ == "Literal" else printer.name(p) for p in places],
    )


def _of_type(array: Any, aval: RefType) -> Any:
    """The array for a new reference, with its weak type; numbers are converted without `jit`."""
    is_number = isinstance(array, bool | int | float | complex)
    if not is_number and array.aval is aval.inner:
        return array
    return array_ops.convert(array, aval.inner)


def _placed_as(array: Any, x: object) -> Any:
    """The array, with the sharding object of x if its own is equivalent."""
    if (
        type(x) is not ArrayImpl
        or array.sharding == x.sharding
        or not array.sharding.is_equivalent_to(x.sharding, x.ndim)
    ):
        return array
    return array._rewrap_with_aval_and_sharding(array._carried, x.sharding)


def _write_tangent(op: str, primals: Sequence[Array], tangents: Sequence[object]) -> Any:
    """The reference of tangents that a written tangent goes to; None if there is none, and none is
    needed."""
    t, value_tangent, aval = tangents[0], tangents[1], typeof(primals[0])
    if type(t) is not Zero:
        return t
    if type(value_tangent) is not Zero and aval.kind != "no_grad_no_remat":
        raise ValueError(
            f"performing {_what(op)} operation with a differentiated value on a "
            f"non-differentiated array reference of type {aval.str_short()}. Move the array "
            f"reference to be an argument of the differentiated function?{_made(primals[0])}\n"
            "  Or make it within the function; or with jax.new_ref(x, kind='no_grad_no_remat'), "
            "if what is written needs no derivative; or write jax.lax.stop_gradient(value)."
        )
    return None


def _what(op: str) -> str:
    return "a set/swap" if op == "swap" else "an addupdate"


def _made(ref: object) -> str:
    return (
        f"\n    the reference was made at {ref.origin()}"
        if hasattr(ref, "origin") and ref.origin()
        else ""
    )


def _write_batch(operation: str, axis: Any, args: Values, dims: Dims, views: Views) -> None:
    """Write a batch of values at a batch of places: the whole array is read and written."""
    ref, value, *places = args
    aval = typeof(ref)
    if dims[0] is None:
        op = "swap" if operation == "set" else "addupdate"
        raise ValueError(
            f"performing {_what(op)} operation with vmapped value on an unbatched array reference "
            f"of type {aval.str_short()}. Move the array reference to be an argument to the "
            f"vmapped function?{_made(ref)}\n  Each element of the batch of {axis.size} would "
            "write to the one array, in no order."
        )
    whole = get_p.call(ref, views=())[0]

    def write(x: ArrayLike, value: ArrayLike, *places: object) -> list[Any]:
        return [parts_of["write"](operation, x, value, views, places)]

    (new,), (dim,) = batch_flat(write, axis, (whole, value, *places), dims)
    swap_p.call(ref, array_ops.to_axis(new, dim, axis.size, dims[0]), views=())


@dialects.makes_references.mark
class _Making(Primitive):
    """A primitive that makes a reference."""

    __slots__ = ()
    mergeable = False
    shard = by_types
    on_low = dialects.on_low.rule(by_parts)


class _NewRef(_Making):
    """A reference to a copy of an array."""

    __slots__ = ()
    name = "new_ref"

    def types(self, x: ShapedArray, *, memory_space: object, kind: str | None) -> Any:
        return (RefType(x, memory_space, kind),)

    def evaluate(self, x: Array, *, memory_space: object, kind: str | None) -> Any:
        aval = typeof(x)
        if aval.is_high:
            return by_parts(self, (x,), (aval,), memory_space=memory_space, kind=kind)
        copy = _of_type(_copy_now(x), RefType(aval))
        return (Ref(RefType(aval, memory_space, kind), _placed_as(copy, x)),)

    @dialects.discharge.rule
    def discharge(self, x: ArrayLike, *, memory_space: object, kind: str | None) -> Any:
        return (Cell(RefType(typeof(x), memory_space, kind), x),)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        outs = new_ref_p.call(
            *primals, **params
        )  # of tangents of an inner transformation, which are primals of this one
        aval = typeof(primals[0]).tangent_aval()
        if aval.dtype == float0 or params["kind"] == "no_grad_no_remat":
            return outs, (typeof(outs[0]).zero,)
        return outs, tangent_ref_p.call(array_ops.instantiate(tangents[0]), **params)

    def transpose(self, cts: Sequence[Any], x: object, **params: object) -> Any:
        return (
            (freeze_p.call(cts[0].ref())[0],)
            if type(x) is Undefined and type(cts[0]) is not Zero
            else (None,)
        )

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        return self.call(array_ops.to_axis(args[0], dims[0], axis.size, 0), **params), (0,)


@final
class NewRef(_NewRef):
    __slots__ = ()


@dialects.deferred.mark
@final
class TangentRef(_NewRef):
    """The reference of tangents that belongs to one: a linearization does not know it, even if it
    begins with zeros."""

    __slots__ = ()


@final
class EmptyRef(_Making):
    """A reference to an array whose elements are not written yet."""

    __slots__ = ()
    name = "empty_ref"

    def types(self, *, aval: ShapedArray, memory_space: object) -> Any:
        return (RefType(aval, memory_space),)

    @dialects.on_low.rule
    def on_low(
        self, operands: Arrays, avals: Avals, *, aval: ShapedArray, memory_space: object
    ) -> Any:
        refs = [self.call(aval=low, memory_space=memory_space)[0] for low in aval.lo_ty()]
        return (RefType(aval, memory_space).raise_val(*refs),)

    def evaluate(self, *, aval: ShapedArray, memory_space: object) -> Any:
        if aval.is_high:
            return self.on_low((), (), aval=aval, memory_space=memory_space)
        return new_ref_p.evaluate(array_ops.zeros(aval), memory_space=memory_space, kind=None)

    @dialects.discharge.rule
    def discharge(self, *, aval: ShapedArray, memory_space: object) -> Any:
        return (Cell(RefType(aval, memory_space), array_ops.zeros(aval)),)

    def jvp(
        self, primals: Arrays, tangents: Values, *, aval: ShapedArray, memory_space: object
    ) -> Any:
        outs = self.call(aval=aval, memory_space=memory_space)
        tangent = aval.tangent_aval()
        if tangent.dtype == float0:
            return outs, (typeof(outs[0]).zero,)
        return outs, tangent_ref_p.call(
            array_ops.zeros(tangent), memory_space=memory_space, kind=None
        )

    def batch(
        self, axis: Axis, args: Arrays, dims: Dims, *, aval: ShapedArray, memory_space: object
    ) -> Any:
        return self.call(
            aval=unmapped_aval(aval, 0, axis.size, axis.explicit), memory_space=memory_space
        ), (0,)


@final
class Freeze(_OnReference):
    """End a reference and return its array."""

    __slots__ = ()
    name = "freeze"

    def types(self, ref: object) -> Any:
        return (self.check(ref).inner,)

    def effects(self, ref: object) -> Any:
        return frozenset((ReadEffect(0),))

    def evaluate(self, ref: Any) -> Any:
        return by_parts(self, (ref,), (ref.aval,)) if type(ref) is HighRef else (ref.end("frozen"),)

    @dialects.discharge.rule
    def discharge(self, ref: object) -> Any:
        if type(ref) is not Cell:
            return self.call(ref)
        value = ref.read()
        ref.gone = "frozen"
        return (value,)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[Array]) -> Any:
        outs = self.call(*primals)
        t = _tangent_of(tangents[0])
        return outs, (typeof(outs[0]).zero,) if t is None else self.call(t)

    def transpose(self, cts: Sequence[object], ref: Any) -> Any:
        ref.begin(cts[0])
        return (None,)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims) -> Any:
        return self.call(*args), dims


@final
class FreeRef(_OnReference):
    """Ends a reference."""

    __slots__ = ()
    name = "free_ref"
    multiple_results = True

    def types(self, ref: object) -> Any:
        self.check(ref)
        return ()

    def effects(self, ref: object) -> Any:
        return frozenset((WriteEffect(0),))

    def evaluate(self, ref: Any) -> Any:
        ref.end("freed")
        return ()

    @dialects.discharge.rule
    def discharge(self, ref: object) -> Any:
        if type(ref) is not Cell:
            return self.call(ref)
        ref.read()
        ref.gone = "freed"
        return ()

    def jvp(self, primals: Sequence[Array], tangents: Sequence[Array]) -> Any:
        self.call(*primals)
        if _tangent_of(tangents[0]) is not None:
            self.call(tangents[0])
        return (), ()

    def transpose(self, cts: Sequence[object], ref: object) -> Any:
        return (None,)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims) -> Any:
        return self.call(*args), ()


get_p, swap_p, addupdate_p = Get(), Swap(), AddUpdate()
new_ref_p, tangent_ref_p, empty_ref_p = NewRef(), TangentRef(), EmptyRef()
freeze_p, free_ref_p = Freeze(), FreeRef()


def set_now(
    ref: Ref, part: object, value: ArrayLike, places: Sequence[object], views: Views
) -> None:
    """Replace a part of the array of a reference outside of any trace; the old part is not
    computed."""
    swap_p.check_value(part, typeof(value), ref.aval)
    ref.write(_of_type(_set_now(ref.read(), value, *places, views=views), ref.aval))


WHOLE = References(
    read=lambda ref: get_p.call(ref, views=())[0],
    write=lambda ref, x: swap_p.call(ref, x, views=()),
    add=lambda ref, x: addupdate_p.call(ref, x, views=()),
    new=lambda x: new_ref_p.call(x, memory_space=None, kind=None)[0],
)

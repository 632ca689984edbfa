"""Batching rules of primitives: `primitive_batchers`, and ways to write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._core import array_ops
from teucer._core.primitive import Axis, Primitive
from teucer._core.trace import typeof
from teucer._jax.primitive import Rules, as_tuple
from teucer._trees.containers import Vmappable, vmappables

if TYPE_CHECKING:
    from teucer._core.typing import Dims, Value


Rule = Callable[..., Any]


def _install(primitive: Primitive, rule: Rule) -> Rule:
    return _install_fancy(primitive, lambda axis, args, dims, **params: rule(args, dims, **params))


def _install_fancy(primitive: Primitive, rule: Rule) -> Rule:
    def batch(axis: Any, args: Sequence[Value], dims: Dims, **params: object) -> Any:
        outs, out_dims = rule(axis, tuple(args), tuple(dims), **params)
        values, found = as_tuple(outs), as_tuple(out_dims)
        if len(found) == 1 and len(values) > 1:
            found *= len(values)
        ranks = (typeof(y).ndim for y in values)
        return values, tuple(d if d is None else d % n for d, n in zip(found, ranks, strict=True))

    return batch


def _derive_fancy(primitive: Primitive, method: Rule) -> Rule:
    def rule(axis: int, args: Sequence[Value], dims: Sequence[int], **params: object) -> Any:
        outs, out_dims = method(axis, args, dims, **params)
        return (outs, out_dims) if primitive.multiple_results else (outs[0], out_dims[0])

    return rule


def _derive(primitive: Primitive, method: Rule) -> Rule:
    fancy = _derive_fancy(primitive, method)

    def rule(args: Sequence[Value], dims: Sequence[int], **params: object) -> Any:
        size = next(typeof(x).shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        return fancy(Axis(size), args, dims, **params)

    return rule


def _install_axis(primitive: Primitive, rule: Rule) -> Rule:
    return _install_fancy(
        primitive,
        lambda axis, args, dims, **params: rule(axis.size, axis.name, None, args, dims, **params),
    )


def _derive_axis(primitive: Primitive, method: Rule) -> Rule:
    fancy = _derive_fancy(primitive, method)
    return lambda size, name, trace, args, dims, **params: fancy(
        Axis(size, name), args, dims, **params
    )


# rule(operands, dims, **params) -> (result, dim); a dim is an int, or None for a value that is not
# batched.
primitive_batchers = Rules("batch", _install, _derive)
# rule(axis, operands, dims, **params) -> (result, dim); the axis has size and name.
fancy_primitive_batchers = Rules("batch", _install_fancy, _derive_fancy)
# rule(size, name of the axis, None, operands, dims, **params) -> (result, dim)
axis_primitive_batchers = Rules("batch", _install_axis, _derive_axis)


def broadcast(x: Any, sz: int, axis: int, mesh_axis: object = None) -> Any:
    """x repeated sz times along a new axis."""
    return array_ops.broadcast(x, sz, axis)


def bdim_at_front(x: Value, bdim: int | None, size: int, mesh_axis: object = None) -> Any:
    """A batch with its batch dimension in front; what is not batched is repeated.

    >>> import teucer.numpy as jnp
    >>> bdim_at_front(jnp.ones((2, 3)), 1, 3).shape
    (3, 2)
    """
    return array_ops.to_axis(x, bdim, size, 0)


def defvectorized(prim: Primitive) -> None:
    """Register a primitive that acts element by element on operands of one shape: it is its own
    batching rule."""

    def rule(axis: Any, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        at = dims[0] if len(set(dims)) == 1 else 0
        outs = prim.call(
            *(array_ops.to_axis(x, d, axis.size, at) for x, d in zip(args, dims, strict=True)),
            **params,
        )
        return outs, (at,) * len(as_tuple(outs))

    fancy_primitive_batchers[prim] = rule


def defbroadcasting(prim: Primitive) -> None:
    """Register a primitive that acts element by element on operands that broadcast by the rules of
    NumPy."""

    def rule(axis: int, args: Sequence[Value], dims: Sequence[int], **params: object) -> Any:
        rank = max(typeof(x).ndim - (d is not None) for x, d in zip(args, dims, strict=True))
        moved = []
        for x, d in zip(args, dims, strict=True):
            front = x if d is None else array_ops.moveaxis(x, d, 0)
            shape = typeof(front).shape
            if d is not None:
                # Axes of size 1 behind the batch dimension stand for those that the operand lacks.
                front = array_ops.reshape(
                    front, (shape[0], *(1,) * (rank + 1 - len(shape)), *shape[1:])
                )
            moved.append(front)
        outs = prim.call(*moved, **params)
        return outs, (0,) * len(as_tuple(outs))

    fancy_primitive_batchers[prim] = rule


def defreducer(prim: Primitive) -> None:
    """Register a primitive of one operand that reduces the axes given by its parameter `axes`."""

    def rule(
        axis: int,
        args: Sequence[Value],
        dims: Sequence[int],
        *,
        axes: Sequence[int],
        **params: object,
    ) -> Any:
        (x,), (dim,) = args, dims
        moved = tuple(a + (a >= dim) for a in axes)
        outs = prim.call(x, axes=moved, **params)
        return outs, (dim - sum(a < dim for a in moved),) * len(as_tuple(outs))

    fancy_primitive_batchers[prim] = rule


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Rule,
    from_elt: Rule,
    make_iota: Rule | None,
) -> None:
    """Let a class of pytree nodes tell `vmap` which parts of its objects are mapped.

    spec_type: of the entries of in_axes and out_axes for them. to_elt(cont, get_index, batch, spec)
    gives an element, in which cont(array, axis) stands for each array that is mapped.
    from_elt(cont, size, element, spec) gives a batch, with cont(size, part of the element, axis).
    make_iota: accepted for programs written for JAX.
    Raises NotImplementedError for axes whose size is no int.

    >>> import dataclasses
    >>> import teucer as jax, teucer.numpy as jnp
    >>> @jax.tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Scaled:
    ...     x: jax.Array
    ...     unit: jax.Array
    >>> register_vmappable(Scaled, int, int, lambda cont, _, s,
    ...     axis: Scaled(cont(s.x, axis), s.unit),
    ...                    lambda cont, n, s, axis: Scaled(cont(n, s.x, axis), s.unit), None)
    >>> jax.vmap(lambda s: Scaled(s.x * s.unit, s.unit))(Scaled(jnp.arange(3), jnp.asarray(2)))
    Scaled(x=Array([0, 2, 4], dtype=int32), unit=Array(2, dtype=int32, weak_type=True))
    >>> unregister_vmappable(Scaled)
    """
    if axis_size_type is not int:
        raise NotImplementedError(
            f"register_vmappable: the size of an axis is an int, got the class {axis_size_type}."
        )
    vmappables[data_type] = Vmappable(to_elt, from_elt, spec_type)


def unregister_vmappable(data_type: type) -> None:
    """Undo `register_vmappable` for a class."""
    del vmappables[data_type]

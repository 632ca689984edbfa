"""Primitives of libraries with parameters of their own, one object a call.

`HiPrim` (`VJPHiPrimitive`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core import array_ops, dialects
from teucer._core.primitive import Axis, Primitive, Undefined
from teucer._core.stage import stage_flat
from teucer._core.trace import current_trace, typeof
from teucer._core.types import Zero
from teucer._derived.accumulators import NullAccum, ValAccum
from teucer._transform.batch import unmapped_aval
from teucer._transform.partial import PartialTrace
from teucer._transform.transpose import backward_pass
from teucer._transform.vmap import vmap
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Dims, Tangents, Value


class HiPrim:
    """A primitive on high types and low ones. A library derives a class, and makes an object for
    each call.

    The constructor sets `in_avals`, a tuple of trees of types, `out_aval`, a tree of types, and
    `params`, a dictionary whose entries become attributes; then it calls `super().__init__()`. The
    object is called with arguments of these types. Rules take and give trees. A class defines those
    that are needed:

    expand(*args) -> results                               what it does, in terms of other
    operations
    jvp(primals, tangents) -> (results, tangents)          tangents may be Zero
    lin(moving, *args) -> (results, residuals), linearized(residuals, *tangents) -> tangents
    vjp_fwd(moving, *args) -> (results, residuals)         moving: which arguments are
    differentiated
    vjp_bwd_retval(residuals, ct) -> cotangents, or vjp_bwd(residuals, ct, *accumulators)
    transpose(ct, *accumulators_or_values)                 of a linear primitive
    batch(axis, args, dims) -> (results, dims), or batch_dim_rule(axis, dims) -> dims
    effects                                                by number of operand

    >>> import teucer as jax
    >>> class Cube(HiPrim):
    ...     def __init__(self, aval):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...         super().__init__()
    ...     def expand(self, x):
    ...         return x ** 3
    ...     def jvp(self, primals, tangents):
    ...         (x,), (t,) = primals, tangents
    ...         return self(x), 3 * x ** 2 * t
    >>> float(jax.grad(lambda x: Cube(jax.typeof(x))(x))(2.))
    12.0
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: dict[str, Any]
    effects: Any = frozenset()

    def __init__(self) -> None:
        if _defines(self, "vjp_bwd") and _defines(self, "vjp_bwd_retval"):
            raise AttributeError(
                f"{type(self).__name__} defines both vjp_bwd and vjp_bwd_retval: define one of "
                "them."
            )
        self.in_avals_flat, self.in_tree = pytrees.tree_flatten(tuple(self.in_avals))
        self.out_avals_flat, self.out_tree = pytrees.tree_flatten(self.out_aval)
        vars(self).update(self.params)

    def __call__(self, *args: Any) -> Any:
        leaves = self.in_tree.flatten_up_to(args)
        self.check(*pytrees.tree_unflatten(self.in_tree, list(map(typeof, leaves))))
        return self.results(call_hi_primitive_p.call(*leaves, _prim=self))

    def results(self, leaves: Sequence[Value]) -> Any:
        """The tree of results."""
        return pytrees.tree_unflatten(self.out_tree, leaves)

    def arguments(self, leaves: Sequence[Value]) -> Any:
        """The trees of arguments, or of values for each."""
        return pytrees.tree_unflatten(self.in_tree, leaves)

    def check(self, *arg_tys: Any) -> None:
        """Raise an error unless the primitive takes arguments of these types."""

    def expand(self, *args: Any) -> Any:
        """The results, by other operations."""
        raise self._lacks("Implementation", "expand")

    def jvp(self, primals: Sequence[Value], tangents: Any) -> Any:
        """The results and their tangents."""
        raise self._lacks("Differentiation rule", "jvp")

    def lin(self, nzs_in: object, *primals: Value) -> Any:
        """The results, and residuals for `linearized`."""
        raise self._lacks("Linearization rule", "lin")

    def linearized(self, residuals: Sequence[Value], *tangents: Value) -> Any:
        """Tangents of the results, linear in the tangents of the arguments."""
        raise self._lacks("Linearization rule", "linearized")

    def vjp_fwd(self, nzs_in: object, /, *args: object) -> Any:
        """The results, and residuals for `vjp_bwd` or `vjp_bwd_retval`."""
        raise self._lacks("Differentiation rule (for reverse mode)", "vjp_fwd")

    def vjp_bwd(self, res: object, outgrad: object, /, *arg_accums: Value) -> None:
        """Give accumulators the cotangents of the arguments."""
        raise self._lacks("Differentiation rule (for reverse mode)", "vjp_bwd")

    def vjp_bwd_retval(self, res: object, outgrad: object, /) -> Any:
        """Cotangents of the arguments."""
        raise self._lacks("Differentiation rule (for reverse mode)", "vjp_bwd_retval")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Give accumulators the cotangents of the linear arguments; the others come as values."""
        raise self._lacks("Transpose rule (for reverse-mode differentiation)", "transpose")

    def batch(self, axis_data: Any, args: Sequence[Value], dims: Any) -> Any:
        """The results of a batch, and along which axes they are mapped."""
        if not _defines(self, "batch_dim_rule"):
            raise self._lacks("Batching rule (for vmap)", "batch, or batch_dim_rule")
        out_dims = self.batch_dim_rule(axis_data, dims)
        return VmapOf(self, axis_data, dims, out_dims)(*args), out_dims

    def batch_dim_rule(self, axis_data: object, dims: Dims, /) -> Any:
        """Along which axes the results of a batch are mapped; the batch itself follows from
        `expand`."""
        raise self._lacks("Batching rule (for vmap)", "batch_dim_rule")

    def _lacks(self, what: str, method: str) -> NotImplementedError:
        name = type(self).__name__
        return NotImplementedError(
            f"{what} for '{name}' not implemented.\n  Define {name}.{method}."
        )

    def _key(self) -> Any:
        return (
            type(self),
            *self.in_avals_flat,
            self.in_tree,
            *self.out_avals_flat,
            self.out_tree,
            *self.params.items(),
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        try:
            return hash(self._key())
        except TypeError:
            return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{', '.join(f'{k}={v}' for k, v in self.params.items())}]"


def _defines(prim: HiPrim, method: str) -> bool:
    """Whether the class of a library states a rule."""
    return getattr(type(prim), method) is not getattr(HiPrim, method)


@dialects.high.mark
@dialects.takes_references.mark
@final
class CallHiPrimitive(Primitive):
    """A call of a `HiPrim`."""

    __slots__ = ()
    name = "call_hi_primitive"
    multiple_results = True
    mergeable = False

    def types(self, *avals: Any, _prim: HiPrim) -> Any:
        return tuple(_prim.out_avals_flat)

    def effects(self, *avals: ShapedArray, _prim: HiPrim) -> Any:
        return frozenset(_prim.effects)

    def shard(self, *avals: ShapedArray, _prim: HiPrim) -> Any:
        """Types of results say how they are laid out."""

    def evaluate(self, *args: Any, _prim: HiPrim) -> Any:
        return tuple(_prim.out_tree.flatten_up_to(_prim.expand(*_prim.arguments(args))))

    def jvp(self, primals: Sequence[Value], tangents: Any, *, _prim: HiPrim) -> Any:
        linear_rules = _defines(_prim, "lin") or _defines(_prim, "vjp_fwd")
        if _defines(_prim, "jvp") and not (linear_rules and _linearizes(tangents)):
            outs, out_tangents = _prim.jvp(_prim.arguments(primals), _prim.arguments(tangents))
            flat = _prim.out_tree.flatten_up_to(outs)
            return tuple(flat), tuple(_prim.out_tree.flatten_up_to(out_tangents))
        if not linear_rules:
            raise _prim._lacks(
                "Differentiation rule", "jvp, lin and linearized, or vjp_fwd and vjp_bwd"
            )
        moving = tuple(type(t) is not Zero for t in tangents)
        rule = _prim.lin if _defines(_prim, "lin") else _prim.vjp_fwd
        outs, residuals = rule(_prim.arguments(moving), *_prim.arguments(primals))
        leaves, tree = pytrees.tree_flatten(residuals)
        given = [t for t in tangents if type(t) is not Zero]
        out_tangents = call_linearized_p.call(
            *leaves, *given, _prim=_prim, res_tree=tree, moving=moving
        )
        return tuple(_prim.out_tree.flatten_up_to(outs)), out_tangents

    def transpose(self, cts: Any, *args: Any, _prim: HiPrim) -> Any:
        accums = [ValAccum(x.aval.cotangent_aval()) if type(x) is Undefined else x for x in args]
        _prim.transpose(_prim.results(cts), *_prim.arguments(accums))
        return tuple(
            a.freeze() if type(x) is Undefined else None for a, x in zip(accums, args, strict=True)
        )

    def batch(self, axis: Any, args: Sequence[Array], dims: Dims, *, _prim: HiPrim) -> Any:
        outs, out_dims = _prim.batch(axis, _prim.arguments(args), _prim.arguments(dims))
        leaves = _prim.out_tree.flatten_up_to(outs)
        return tuple(leaves), tuple(
            pytrees.broadcast_prefix(out_dims, outs, is_leaf=lambda x: x is None)
        )


def _linearizes(tangents: Sequence[object]) -> bool:
    """Whether tangents belong to a linearization, which may be transposed."""
    trace = current_trace()
    return type(trace) is PartialTrace and any(trace.is_unknown(t) for t in tangents)


@dialects.high.mark
@dialects.takes_references.mark
@final
class CallLinearized(Primitive):
    """The derivative of a `HiPrim` at a point, on residuals and the tangents of the arguments that
    move."""

    __slots__ = ()
    name = "call_hi_primitive_linearized"
    multiple_results = True
    mergeable = False

    def types(self, *avals: Any, _prim: HiPrim, res_tree: object, moving: object) -> Any:
        return tuple(a.tangent_aval() for a in _prim.out_avals_flat)

    def shard(self, *avals: ShapedArray, **params: object) -> Any:
        """Types of results say how they are laid out."""

    def evaluate(self, *args: Any, _prim: HiPrim, res_tree: Any, moving: Any) -> Any:
        if not _defines(_prim, "linearized"):
            raise TypeError(
                f"{type(_prim).__name__}: it can be differentiated in reverse mode only.\n  Define "
                f"{type(_prim).__name__}.jvp, or lin and linearized."
            )
        n = res_tree.num_leaves
        rest = iter(args[n:])
        tangents = [
            next(rest) if m else a.zero for m, a in zip(moving, _prim.in_avals_flat, strict=True)
        ]
        residuals = pytrees.tree_unflatten(res_tree, args[:n])
        return tuple(
            _prim.out_tree.flatten_up_to(_prim.linearized(residuals, *_prim.arguments(tangents)))
        )

    def transpose(self, cts: Any, *args: Any, _prim: HiPrim, res_tree: Any, moving: Any) -> Any:
        n = res_tree.num_leaves
        if _defines(_prim, "lin"):  # `lin` made the residuals
            return self._transposed(cts, args, _prim=_prim, res_tree=res_tree, moving=moving)
        if _defines(_prim, "vjp_bwd"):
            accums = [
                ValAccum(a.cotangent_aval()) if m else NullAccum(a.cotangent_aval())
                for m, a in zip(moving, _prim.in_avals_flat, strict=True)
            ]
            _prim.vjp_bwd(
                pytrees.tree_unflatten(res_tree, args[:n]),
                _prim.results(cts),
                *_prim.arguments(accums),
            )
            found = [a.freeze() for a in accums]
        elif _defines(_prim, "vjp_bwd_retval"):
            residuals = pytrees.tree_unflatten(res_tree, args[:n])
            result = _prim.vjp_bwd_retval(residuals, _instantiated(_prim.results(cts)))
            found = _prim.in_tree.flatten_up_to(tuple(result))
        else:
            return self._transposed(cts, args, _prim=_prim, res_tree=res_tree, moving=moving)
        return (None,) * n + tuple(ct for ct, m in zip(found, moving, strict=True) if m)

    def _transposed(self, cts: Any, args: Any, **params: Any) -> Any:
        """By transposing `linearized`."""
        linear = [x for x in args if type(x) is Undefined]

        def on_linear(*tangents: Any) -> Any:
            rest = iter(tangents)
            return self.evaluate(
                *[next(rest) if type(x) is Undefined else x for x in args], **params
            )

        jaxpr, consts = stage_flat(on_linear, [x.aval for x in linear])
        found = iter(backward_pass(jaxpr, consts, linear, cts))
        return tuple(next(found) if type(x) is Undefined else None for x in args)


def _instantiated(cts: Tangents) -> Any:
    return pytrees.tree_map(array_ops.instantiate, cts)


call_hi_primitive_p = CallHiPrimitive()
call_linearized_p = CallLinearized()


# --- Batches --------------------------------------------------------------------------------------


@final
class VmapOf(HiPrim):
    """A batch of calls of a primitive: its rules are the primitive's own, mapped by vmap.

    in_dims, out_dim: trees of the mapped axes of arguments and results.
    """

    def __init__(self, prim: HiPrim, axis_data: Axis, in_dims: object, out_dim: object) -> None:
        self.prim, self.axis_data = prim, axis_data
        self.in_dims: Any = in_dims
        self.out_dim: Any = out_dim
        dims = prim.in_tree.flatten_up_to(in_dims)
        out_dims = pytrees.broadcast_prefix(out_dim, prim.out_aval, is_leaf=lambda x: x is None)
        size = axis_data.size
        self.in_avals = prim.arguments(
            [unmapped_aval(a, d, size) for a, d in zip(prim.in_avals_flat, dims, strict=True)]
        )
        self.out_aval = prim.results(
            [unmapped_aval(a, d, size) for a, d in zip(prim.out_avals_flat, out_dims, strict=True)]
        )
        self.params = {"prim": prim, "axis_data": axis_data, "dims": _hashable((in_dims, out_dim))}
        super().__init__()

    def _mapped(self, fun: Callable[..., Any], in_axes: Any, out_axes: Any) -> Callable[..., Any]:
        return vmap(
            fun,
            in_axes=in_axes,
            out_axes=out_axes,
            axis_size=self.axis_data.size,
            axis_name=self.axis_data.name,
        )

    def expand(self, *args: Any) -> Any:
        return self._mapped(self.prim.expand, tuple(self.in_dims), self.out_dim)(*args)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        leaves = self.in_tree.flatten_up_to(tangents)
        moving = [type(t) is not Zero for t in leaves]
        dims: list[Any] = self.prim.in_tree.flatten_up_to(self.in_dims)

        def one(primals: Any, given: Any) -> Any:
            rest = iter(given)
            tangents = [
                next(rest) if m else a.zero
                for m, a in zip(moving, self.prim.in_avals_flat, strict=True)
            ]
            outs, out_tangents = self.prim.jvp(primals, self.prim.arguments(tangents))
            return outs, _instantiated(out_tangents)

        given = [t for t in leaves if type(t) is not Zero]
        axes = (tuple(self.in_dims), [d for d, m in zip(dims, moving, strict=True) if m])
        return self._mapped(one, axes, (self.out_dim, self.out_dim))(tuple(primals), given)

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        inner = self.prim.in_tree.flatten_up_to(self.in_dims)
        outer = self.in_tree.flatten_up_to(dims)
        seen = [
            d if d is None or i is None else d - (i < d) for d, i in zip(outer, inner, strict=True)
        ]
        found = self.prim.batch_dim_rule(axis_data, self.prim.arguments(seen))
        own = pytrees.broadcast_prefix(self.out_dim, self.out_aval, is_leaf=lambda x: x is None)
        outs = pytrees.broadcast_prefix(found, self.out_aval, is_leaf=lambda x: x is None)
        return self.prim.results(
            [o if o is None or i is None else o + (o >= i) for o, i in zip(outs, own, strict=True)]
        )


def _hashable(dims: Any) -> Any:
    leaves, tree = pytrees.tree_flatten(dims, is_leaf=lambda x: x is None)
    return (*leaves, tree)

"""`vjp`: the value of a function, and its backward pass as an object that shows its saved
values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from teucer._arrays.arrays import Array
from teucer._base import tracebacks
from teucer._core import array_ops
from teucer._core import reference_types as references
from teucer._core.calls import FlatFunction, check_callable, fun_name, leaf_names
from teucer._core.provided import provided
from teucer._core.reference_types import RefType
from teucer._core.trace import Tracer, typeof
from teucer._core.types import Zero, is_valid_type
from teucer._transform.reverse import Pullback, known_part, refuse_reduce_axes
from teucer._trees import pytrees, registry
from teucer._trees.loose_prefix import spread_bools, tree_of_bools

if TYPE_CHECKING:
    from teucer._core.typing import Value


boundary = tracebacks.api_boundary


@boundary
def vjp(
    fun: Callable[..., object],
    *primals: Value,
    has_aux: bool = False,
    reduce_axes: Iterable[object] = (),
    saveable_args: object = True,
    in_nzs: object = None,
) -> Any:
    """The value of a function, and the function from cotangents of its results to cotangents of its
    arguments.

    Returns (output, vjp_fun), with has_aux (output, vjp_fun, aux). vjp_fun takes one value of the
    tree and types of the output, and returns a tuple with one cotangent an argument (dtype float0
    for integer arguments). It is an object with what the backward pass needs, `VJP`.
    saveable_args: a tree of bools, a prefix of `primals` in which only the number of children must
    agree. Arguments where it is False are not saved: assign them to `vjp_fun.args_res` before
    calling it.
    in_nzs: a tree of bools alike. Where it is False the argument's cotangent is zero. Then
    `vjp_fun.out_nzs` says which outputs depend on the others.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> y, vjp_fun = jax.vjp(jnp.square, 3.)
    >>> vjp_fun(1.)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "vjp")
    refuse_reduce_axes(reduce_axes, "vjp")
    flat, in_tree = pytrees.tree_flatten(tuple(primals))
    if references.may_alias(flat):
        from teucer._dialects.references.aliases import (
            refuse_aliases,  # for calls with references
        )

        refuse_aliases(
            [typeof(x) if is_valid_type(x) else None for x in flat],
            flat,
            (),
            fun_name(fun),
            "vjp",
            lambda: leaf_names(fun, pytrees.tree_structure((tuple(primals), {}))),
        )
    saveable = (
        None
        if saveable_args is True
        else spread_bools(saveable_args, in_tree, "saveable_args", "jax.vjp")
    )
    moving = None if in_nzs is None else spread_bools(in_nzs, in_tree, "in_nzs", "jax.vjp")
    f = FlatFunction(fun, in_tree, "vjp", has_aux)
    refs = tuple(
        [i for i, x in enumerate(flat) if _is_moving_ref(x) and (moving is None or moving[i])]
    )
    if refs:
        values = [array_ops.read_reference(x) if i in refs else x for i, x in enumerate(flat)]
        pullback = Pullback(f, values, moving, lean=True, run=_on_values(f, refs))
        for i, final in zip(refs, pullback.outs[-len(refs) :], strict=True):
            array_ops.write_reference(flat[i], final)
    else:
        pullback = Pullback(f, flat, moving, lean=True)
    out = pytrees.tree_unflatten(f.tree, pullback.outs[: len(pullback.outs) - len(refs)])
    vjp_fun = VJP.of(pullback, flat, saveable, refs)
    return (out, vjp_fun, known_part(f.aux)) if has_aux else (out, vjp_fun)


def _on_values(f: FlatFunction, refs: tuple[int, ...]) -> Callable[..., list[Any]]:
    """A function of references as a function of their arrays. Behind its results it gives the last
    arrays of the references."""

    def run(*values: Value) -> list[Any]:
        cells = [array_ops.new_reference(x) if i in refs else x for i, x in enumerate(values)]
        outs = f(*cells)
        return [*outs, *[array_ops.read_reference(cells[i]) for i in refs]]

    return run


@dataclass(frozen=True, slots=True)
class NotNeeded:
    """In the place of an argument that the backward pass does not need as it was. A pytree without
    leaves."""


@dataclass(frozen=True, slots=True)
class NotSaveable:
    """Stands for an argument that the caller must give again before the backward pass. A pytree
    without leaves."""


registry.register_static(NotNeeded)
registry.register_static(NotSaveable)


@final
class _Backward:
    """A backward pass without its residuals. Two are equal where their programs are the same.

    places: for each residual the leaf of the arguments that it is. refs: the leaves that are
    references.
    """

    __slots__ = ("places", "pullback", "refs")

    def __init__(
        self, pullback: Pullback, places: tuple[int | None, ...], refs: tuple[int, ...]
    ) -> None:
        self.pullback, self.places, self.refs = pullback, places, refs

    def _key(self) -> tuple[Any, ...]:
        return self.pullback.static(), self.places, self.refs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backward) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return repr(self._key())

    def __call__(self, args_res: list[Value], opaque_residuals: list[Value], *cts: Value) -> Any:
        return VJP(self, args_res, opaque_residuals)(*cts)


@final
class _Behind:
    """The backward pass behind another `fun`, which alone decides about equality."""

    __slots__ = ("backward",)

    def __init__(self, backward: _Backward) -> None:
        self.backward = backward

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Behind)

    def __hash__(self) -> int:
        return hash(_Behind)


@final
class VJP:
    """The function from cotangents of results to cotangents of arguments, with its saved values.

    args_res: one entry an argument, of its tree, with the arguments' arrays that the backward pass
    needs; `NotNeeded()` for others, and `NotSaveable()` for those that must be assigned first.
    opaque_residuals: what was computed for it. A pytree, whose leaves are both.
    fun: the function that calls go to, with these two before the cotangents. It may be assigned.
    The trees of two such objects are equal if their `fun` are.

    >>> import teucer as jax
    >>> x, y = jax.numpy.ones(2), jax.numpy.zeros(2)
    >>> _, pull = jax.vjp(lambda x, y: x * y, x, y, saveable_args=(False, True))
    >>> pull.args_res[0]
    NotSaveable()
    >>> pull.args_res[0] = x
    >>> pull(x)
    (Array([0., 0.], dtype=float32), Array([1., 1.], dtype=float32))
    """

    __slots__ = ("_backward", "args_res", "fun", "opaque_residuals")

    def __init__(
        self,
        backward: _Backward,
        args_res: list[Value],
        opaque_residuals: list[Value],
        fun: Any = None,
    ) -> None:
        self._backward, self.args_res, self.opaque_residuals = backward, args_res, opaque_residuals
        # The function that a call calls; as a pytree, it alone identifies the object. Libraries put
        # a function around it in its place, with an equality of their own.
        self.fun = backward if fun is None else fun

    @classmethod
    def of(
        cls,
        pullback: Pullback,
        flat: Sequence[Value],
        saveable: Sequence[bool] | None,
        refs: tuple[int, ...],
    ) -> Self:
        """The object of a pullback at flat arguments, of which some may not be saved."""
        leaves = {
            id(x): i for i, x in enumerate(flat) if isinstance(x, Array | Tracer | np.ndarray)
        }
        places = tuple([leaves.get(id(r)) for r in pullback.residuals])
        kept: list[Any] = [NotNeeded()] * len(flat)
        for i in {i for i in places if i is not None}:
            kept[i] = flat[i] if saveable is None or saveable[i] else NotSaveable()
        opaque = [r for r, i in zip(pullback.residuals, places, strict=True) if i is None]
        backward = _Backward(Pullback.of(pullback.static(), []), places, refs)
        return cls(backward, list(pullback.in_tree.unflatten(kept)), opaque)

    @property
    def _pullback(self) -> Pullback:
        return self._backward.pullback

    @property
    def _places(self) -> tuple[int | None, ...]:
        return self._backward.places

    @property
    def _refs(self) -> tuple[int, ...]:
        return self._backward.refs

    @property
    def jaxpr(self) -> Any:
        """The linear jaxpr of tangents over residuals, which the backward pass transposes."""
        return self._pullback.jaxpr

    @property
    def in_tree(self) -> Any:
        """The tree of the arguments."""
        return self._pullback.in_tree

    @property
    def out_tree(self) -> Any:
        """The tree of the results."""
        return self._pullback.out_tree

    @property
    def out_nzs(self) -> Any:
        """Which results depend on the arguments that `in_nzs` says: bools in the tree of the
        results."""
        return tree_of_bools(self.out_tree, self._pullback.moving_outs)

    def replace(self, **changes: list[Value]) -> VJP:
        """The same function with another `args_res` or `opaque_residuals`."""
        given = {"args_res": self.args_res, "opaque_residuals": self.opaque_residuals}
        if unknown := changes.keys() - given:
            raise TypeError(
                f"VJP.replace: {sorted(unknown)[0]!r} cannot be replaced.\n"
                "  Give args_res or opaque_residuals."
            )
        given |= changes
        return VJP(self._backward, given["args_res"], given["opaque_residuals"], self.fun)

    def with_refs(self, *refs: Value) -> Any:
        """The same function, which adds cotangents to the arrays of references: (grad_ref, ...) of
        the trees of the arguments.

        Where a leaf is a reference, its cotangent is added to it, and the result has a GradRef in
        its place. For `jax.ad.DontWant()` the result has a DidntWant, and for anything else the
        cotangent.
        For an argument that was itself a reference: the reference given here holds the cotangent of
        its last value, and gets the cotangent of its first value.

        >>> import teucer as jax
        >>> total = jax.new_ref(1.)
        >>> _, pull = jax.vjp(lambda x: 2. * x, 3.)
        >>> pull.with_refs(total)(1.), total
        ((GradRef(),), Ref(3., dtype=float32))
        """
        return pytrees.Partial(_pull_into, self, refs)

    @property
    def with_logs(self) -> Any:
        """The same function, returning (cotangents, logs): by name the logs of rules of
        `custom_vjp.defvjp_with_logs`. Other functions log nothing.

        In a loop a log has an axis of its steps in front. Of branches it is a record: the index of
        the branch that ran, and the logs of each. Raises ValueError where two rules log under one
        name.
        """
        return pytrees.Partial(_pull_with_logs, self)

    @boundary
    def __call__(self, *cts: Value) -> Any:
        if self.fun is not self._backward:
            return self.fun(self.args_res, self.opaque_residuals, *cts)
        return self.ready(cts)(*cts)

    def ready(self, cts: Sequence[Value]) -> Pullback:
        """The pullback, for a call with `cts` that gives cotangents as values.

        Raises TypeError for several, ValueError where arguments are references.
        """
        if len(cts) != 1:
            name = self._pullback.name
            raise TypeError(
                f"The function returned by `jax.vjp` applied to {name} was called with {len(cts)} "
                f"arguments.\n  It takes one: the cotangent of what {name} returned, which may be "
                "a tuple or another container."
            )
        if self._refs:
            raise self._no_value(self._refs[0], "no gradient ref was provided")
        return self.restored()

    def _no_value(self, leaf: int, what: str) -> ValueError:
        ((_, path),) = self._paths([leaf])
        return ValueError(
            f"{path} of {self._pullback.name} is Ref-typed, so its gradient must be accumulated "
            f"into a ref, but {what}.\n  Give one with `with_refs`, as in "
            "f_vjp.with_refs(grad_ref)(ct), or jax.ad.DontWant() in its place."
        )

    def restored(self) -> Pullback:
        """The pullback on the residuals that `args_res` and `opaque_residuals` hold now."""
        leaves, opaque = self._argument_leaves(), iter(self.opaque_residuals)
        residuals = [next(opaque) if i is None else leaves[i] for i in self._places]
        missing = [
            i
            for i in sorted({i for i in self._places if i is not None})
            if leaves[i] is None or type(leaves[i]) in (NotNeeded, NotSaveable)
        ]
        if missing:
            raise ValueError(
                "the VJP function was applied before restoring its not-saveable residuals.\n"
                + "".join(
                    f"    {path} of {self._pullback.name} is {leaves[i]!r}\n"
                    for i, path in self._paths(missing)
                )
                + "  Assign the arguments to the VJP function's `args_res` before calling it."
            )
        for i, r, v in zip(self._places, residuals, self.jaxpr.constvars, strict=True):
            if (
                i is not None
                and not v.aval.is_high
                and (typeof(r).shape, typeof(r).dtype) != (v.aval.shape, v.aval.dtype)
            ):
                ((_, path),) = self._paths([i])
                raise ValueError(
                    f"args_res: {path} of {self._pullback.name} is of type "
                    f"{typeof(r).str_short()}, but it was {v.aval.str_short()} in the forward "
                    "pass."
                )
        return Pullback.of(self._pullback.static(), residuals)

    def _argument_leaves(self) -> list[Any]:
        """The leaves of `args_res`; an argument given as None has none."""
        leaves: list[Any] = []
        children = self.in_tree.children()
        if len(self.args_res) != len(children):
            raise ValueError(
                f"args_res has {len(self.args_res)} entries, but {self._pullback.name} has "
                f"{len(children)} arguments."
            )
        for tree, entry in zip(children, self.args_res, strict=True):
            leaves += [None] * tree.num_leaves if entry is None else tree.flatten_up_to(entry)
        return leaves

    def _paths(self, leaves: Sequence[int]) -> Iterator[tuple[int, str]]:
        args = self.in_tree.unflatten(range(self.in_tree.num_leaves))
        paths, _ = pytrees.tree_flatten_with_path(args)
        return ((i, "args" + pytrees.keystr(paths[i][0])) for i in leaves)

    def __repr__(self) -> str:
        return (
            f"VJP({self._pullback}, args_res={self.args_res}, "
            f"opaque_residuals={self.opaque_residuals})"
        )


def _flatten(pull: VJP) -> tuple[Any, Any]:
    children = pull.args_res, pull.opaque_residuals
    if pull.fun is pull._backward:
        return children, pull.fun
    return children, (pull.fun, _Behind(pull._backward))


def _unflatten(static: Any, children: Any) -> VJP:
    args_res, opaque_residuals = children
    fun, behind = (None, None) if type(static) is _Backward else static
    return VJP(behind.backward if behind else static, args_res, opaque_residuals, fun)


pytrees.register_pytree_node(VJP, _flatten, _unflatten)


@dataclass(frozen=True, slots=True)
class GradRef:
    """In the place of a cotangent that was added to a reference. A pytree without leaves."""


@dataclass(frozen=True, slots=True)
class GradValue:
    """An argument of `with_refs`: the cotangent of this argument is wanted as a value."""


@dataclass(frozen=True, slots=True)
class DontWant:
    """An argument of `with_refs`: the cotangent of this argument is not wanted."""


@dataclass(frozen=True, slots=True)
class DidntWant:
    """In the place of a cotangent that was not wanted. A pytree without leaves."""


registry.register_static(GradRef)
registry.register_static(DidntWant)


@boundary
def _pull_with_logs(pull: VJP, *cts: Value) -> tuple[Any, dict[Any, Any]]:
    pullback = pull.ready(cts)
    return provided.pull_with_logs(pullback, *cts)


@boundary
def _pull_into(pull: VJP, refs: Sequence[Value], ct: Value) -> Any:
    pullback = pull.restored()
    leaves, tree = pytrees.tree_flatten(tuple(refs))
    if tree != pullback.in_tree:
        raise ValueError(
            f"unexpected tree structure of the arguments of `with_refs`: got {tree}, but expected "
            f"to match {pullback.in_tree}, the tree of the arguments of {pullback.name}.\n"
            "  Give a reference, jax.ad.GradValue(), or jax.ad.DontWant() for each array."
        )
    wanted = [type(ref) is not DontWant for ref in leaves]
    for i in pull._refs:
        if wanted[i] and not _is_ref(leaves[i]):
            raise pull._no_value(i, f"{leaves[i]!r} was given")
    held = [
        array_ops.read_reference(leaves[i])
        if wanted[i]
        else array_ops.instantiate(aval.zero_cotangent)
        for i, aval in zip(
            pull._refs, pullback.out_avals[len(pullback.out_avals) - len(pull._refs) :], strict=True
        )
    ]
    cts = pullback.cotangents(ct, None if all(wanted) else wanted, held)
    for i, (ref, c) in enumerate(zip(leaves, cts, strict=True)):
        if _is_ref(ref) and i in pull._refs:
            array_ops.write_reference(ref, array_ops.instantiate(c))
        elif _is_ref(ref) and type(c) is not Zero:
            array_ops.add_to_reference(ref, c)
    return pytrees.tree_unflatten(
        pullback.in_tree,
        [
            GradRef()
            if _is_ref(ref)
            else DidntWant()
            if type(ref) is DontWant
            else array_ops.instantiate(c)
            for ref, c in zip(leaves, cts, strict=True)
        ],
    )


def _is_ref(x: Value) -> bool:
    return is_valid_type(x) and type(typeof(x)) is RefType


def _is_moving_ref(x: Value) -> bool:
    """Whether x is a reference to numbers that have derivatives."""
    return _is_ref(x) and typeof(x).inner.tangent_aval().moves

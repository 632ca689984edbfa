"""Rooflines of functions.

The equations of a program are counted one after another, with the memory in use between them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import numpy as jnp
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base.element_types import ExtendedDType
from teucer._base.lazy import listing, refusing
from teucer._core import structure
from teucer._core.jaxpr import Eqn, Jaxpr, Literal, Var
from teucer._derived.liveness import bytes_of
from teucer._derived.staging import eval_shape, make_jaxpr
from teucer._derived.vjp import vjp as _vjp
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import PartitionSpec
from teucer._experimental.rooflines import RooflineResult, RooflineRuleContext, RooflineShape, Rule
from teucer._trees import pytrees
from teucer.experimental.roofline import rooflines

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer._devices.meshes import BaseMesh

__all__ = [
    "ShapeDtypeStructTree", "Specs", "ValidRooflineDtype", "register_roofline",
    "register_standard_roofline", "roofline", "roofline_and_grad",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

# For annotations: a tree of ShapeDtypeStruct; the specs of results; the dtypes that are counted.
ShapeDtypeStructTree = Any
Specs = Any
ValidRooflineDtype = np.dtype | ExtendedDType

_registered: dict[Any, Rule] = {}


def register_roofline(prim: object) -> Callable[[Rule], Rule]:
    """A decorator that makes a function the rule of a primitive.

    It is called with a `RooflineRuleContext`, a `RooflineShape` for each operand, and the
    parameters of the primitive; it returns a `RooflineResult`.
    """

    def register(rule: Rule) -> Rule:
        _registered[prim] = rule
        return rule

    return register


def register_standard_roofline(prim: object) -> None:
    """Say of a primitive that it costs nothing but the memory of its results."""
    _registered[prim] = lambda ctx, *operands, **params: RooflineResult()


def roofline(
    f: Callable[..., object],
    mesh: BaseMesh | None = None,
    in_specs: object = None,
    out_specs: object = None,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    vjp: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult]]:
    """A function that gives the shapes of the results of `f`, and a `RooflineResult`, without
    computing anything.

    The function takes arrays, or anything with shape and dtype.
    mesh, in_specs, out_specs: if they are given, of `f` run by `shard_map`, on one device.
    pin_lhs_in_vmem, pin_rhs_in_vmem: whether this operand of matrix products stays in fast memory.
    vjp: of the backward pass alone; the shapes are of the cotangents of the arguments.
    print_jaxpr: print the program that is counted.
    The body of a scan counts as often as it runs, the body of a `while` loop once; of a `cond` the
    branch with most operations counts.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> x = jax.ShapeDtypeStruct((4, 4), jnp.float32)
    >>> out, found = roofline(lambda x: jnp.sin(x @ x))(x)
    >>> found.flops, found.unfused_flops, found.hbm_bytes, found.unfused_hbm_bytes
    (128, 144, 192, 320)
    """

    @functools.wraps(f)
    def counted(*args: object) -> tuple[Any, RooflineResult]:
        fun = f
        if in_specs is not None or out_specs is not None:
            from teucer._sharding.shard_map import shard_map  # for programs on meshes

            fun = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
        structs = pytrees.tree_map(_struct, args)
        if vjp:
            out, pull = eval_shape(lambda *xs: _vjp(fun, *xs), *structs)
            jaxpr, shapes = make_jaxpr(lambda pull, cts: pull(cts), return_shape=True)(pull, out)
        else:
            jaxpr, shapes = make_jaxpr(fun, return_shape=True)(*structs)
            if fun is not f:
                specs = pytrees.broadcast_prefix(
                    out_specs, shapes, is_leaf=lambda x: isinstance(x, PartitionSpec)
                )
                leaves, tree = pytrees.tree_flatten(shapes)
                shapes = pytrees.tree_unflatten(
                    tree,
                    [
                        x.update(sharding=NamedSharding(mesh, spec))
                        for x, spec in zip(leaves, specs, strict=True)
                    ],
                )
        if print_jaxpr:
            print(jaxpr)
        return shapes, _Count(mesh, pin_lhs_in_vmem, pin_rhs_in_vmem).of(jaxpr.jaxpr)

    return counted


def roofline_and_grad(
    f: Callable[..., object],
    mesh: BaseMesh,
    in_specs: object,
    out_specs: object,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult, RooflineResult]]:
    """A function that gives the shapes of the results of `f`, and a `RooflineResult` each of its
    forward and backward pass.

    The backward pass is counted with arguments and cotangents in bfloat16, as networks are trained.
    The rest as for `roofline`.
    """
    options = {
        "pin_lhs_in_vmem": pin_lhs_in_vmem,
        "pin_rhs_in_vmem": pin_rhs_in_vmem,
        "print_jaxpr": print_jaxpr,
    }

    @functools.wraps(f)
    def counted(*args: object) -> tuple[Any, RooflineResult, RooflineResult]:
        shapes, forward = roofline(f, mesh, in_specs, out_specs, **options)(*args)
        halves = pytrees.tree_map(_half, args)
        _, backward = roofline(f, mesh, in_specs, out_specs, vjp=True, **options)(*halves)
        return shapes, forward, backward

    return counted


def _struct(x: Any) -> Any:
    """An argument, so that no value is in the program."""
    return (
        x
        if isinstance(x, ShapeDtypeStruct) or not hasattr(x, "shape")
        else ShapeDtypeStruct(
            x.shape,
            x.dtype,
            weak_type=getattr(x, "weak_type", False),
            sharding=getattr(x, "sharding", None),
        )
    )


def _half(x: Array) -> Any:
    return ShapeDtypeStruct(jnp.shape(x), jnp.bfloat16, sharding=getattr(x, "sharding", None))


class _Count(NamedTuple):
    """Counts the work of one device of a mesh."""

    mesh: Any
    pin_lhs: bool
    pin_rhs: bool

    def of(self, jaxpr: Jaxpr) -> RooflineResult:
        """All of a program. Values are let go after their last use."""
        last: dict[Var, int] = {}
        for i, eqn in enumerate(jaxpr.eqns):
            last.update((v, i) for v in eqn.invars if type(v) is not Literal)
        last.update((v, len(jaxpr.eqns)) for v in jaxpr.outvars if type(v) is not Literal)
        size = _sizes(jaxpr)
        live = {v: size(v) for v in (*jaxpr.constvars, *jaxpr.invars) if v in last}
        total = RooflineResult(peak_hbm_bytes=sum(live.values()))
        for i, eqn in enumerate(jaxpr.eqns):
            found = self.equation(eqn)
            operands = {v for v in eqn.invars if type(v) is not Literal}
            around = sum(n for v, n in live.items() if v not in operands)
            live.update((v, size(v)) for v in eqn.outvars if v in last)
            live = {v: n for v, n in live.items() if last[v] > i}
            peak = max(around + found.peak_hbm_bytes, sum(live.values()))
            total += dataclasses.replace(found, peak_hbm_bytes=peak)
        return total

    def equation(self, eqn: Eqn) -> RooflineResult:
        """The counts of one equation. Its peak is the peak of the programs that it runs."""
        rule = _registered.get(eqn.primitive) or rooflines.rule_of(eqn)
        if rule is not None:
            avals = [v.aval for v in eqn.invars]
            ctx = RooflineRuleContext(
                name_stack=eqn.source_info.name_stack,
                primitive=eqn.primitive,
                avals_in=avals,
                avals_out=[v.aval for v in eqn.outvars],
                jaxpr_eqn_ctx=eqn.ctx,
                mesh=self.mesh,
                pin_lhs_in_vmem=self.pin_lhs,
                pin_rhs_in_vmem=self.pin_rhs,
            )
            return rule(ctx, *map(RooflineShape.from_aval, avals), **eqn.params)
        inner = rooflines.inside(eqn)
        if not inner:
            return rooflines.default(eqn)
        view = structure.of(eqn)
        within = self._replace(mesh=view.mesh) if isinstance(view, structure.Mapped) else self
        return sum((within.of(jaxpr) * times for jaxpr, times in inner), RooflineResult())


def _sizes(jaxpr: Jaxpr) -> Callable[[Var], int]:
    """Bytes of the variables of a program on one device: for operands and results of `shard_map`,
    the device's part."""
    parts: dict[Var, int] = {}
    for eqn in jaxpr.eqns:
        view = structure.of(eqn)
        if isinstance(view, structure.Mapped):
            inside = (*view.body.invars, *view.body.outvars)
            parts.update(
                (v, bytes_of(part.aval))
                for v, part in zip((*eqn.invars, *eqn.outvars), inside, strict=True)
                if type(v) is not Literal
            )
    return lambda v: parts[v] if v in parts else bytes_of(v.aval)

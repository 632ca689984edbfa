"""Functions whose division among devices their author says: `custom_partitioning`.

Shardy divides the call by its sharding rule. Then XLA's partitioner asks, while it compiles, for
the program of each device. The author's `partition` gives it for the shardings found, and it is
lowered as a separate module.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict, Unpack, final

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._core import structure
from teucer._core.axes import extended
from teucer._core.calls import StagedCall, as_indices, check_leaves, flatten_call, stage_user
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_flat
from teucer._core.trace import EVAL, Tracer, using
from teucer._core.types import ShapedArray
from teucer._devices.chosen import GSPMDSharding, from_hlo
from teucer._devices.meshes import Mesh
from teucer._devices.shardings import NamedSharding, check_shape
from teucer._devices.specs import PartitionSpec
from teucer._dialects.meshes.manual import Manual
from teucer._lower import hlo
from teucer._lower.context import Argument, lower_module
from teucer._sharding.manual_call import inside
from teucer._sharding.sharding_rule import SdyShardingRule, parse_rule
from teucer._trees import pytrees
from teucer._xla.arrays import HloSharding, Sharding
from teucer._xla.client import PARTITIONED
from teucer._xla.platforms import partitioners

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.meshes import BaseMesh
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._xla.pytree import PyTree, PyTreeDef

    class CustomPartitioningParams(TypedDict):
        call: ClosedJaxpr
        partition: Callable[..., Any]
        decode_shardings: bool
        propagate_user_sharding: Callable[..., Any] | None
        sharding_rule: Any
        in_tree: PyTreeDef
        infer_sharding_from_operands: Callable[..., Any] | None
        out_tree: PyTreeDef
        static_args: tuple[Any, ...]


class _Call(NamedTuple):
    """The facts about a call that the partitioner needs.

    params: of the primitive. mesh: over which the call is divided. named: whether its axes have
    names inside.
    """

    params: CustomPartitioningParams
    in_avals: tuple[Any, ...]
    mesh: Mesh
    named: bool
    platforms: tuple[str, ...]


# Names of calls in the text of a program: unique among calls and among processes.
_calls: dict[str, _Call] = {}
_names: dict[Any, str] = {}
_OWN = uuid.uuid4().hex


@structure.calls("call")
@final
class CustomPartitioning(Primitive):
    """A call of `call`, which over several devices is divided as `partition` and `sharding_rule`
    say.

    in_tree: of the tuple of arguments. static_args: the first arguments of `partition`, and of a
    rule that is a function.
    """

    __slots__ = ()
    name = "custom_partitioning"
    multiple_results = True
    higher_order = True

    def types(self, *avals: ShapedArray, **params: Unpack[CustomPartitioningParams]) -> Any:
        return tuple(params["call"].out_avals)

    def effects(self, *avals: ShapedArray, **params: Unpack[CustomPartitioningParams]) -> Any:
        return params["call"].effects

    def evaluate(self, *args: Value, **params: Unpack[CustomPartitioningParams]) -> Any:
        return tuple(params["call"](*args))

    def lower(
        self, ctx: Context, *values: Written, **params: Unpack[CustomPartitioningParams]
    ) -> Any:
        mesh = ctx.module.mesh
        if mesh is None or mesh.size == 1 or ctx.all_manual():
            return ctx.inline(params["call"], *values)
        whole = ctx.manual is None
        mesh = mesh if whole else ctx.manual.free_mesh
        call = _Call(params, tuple(v.aval for v in values), mesh, whole, ctx.platforms)
        rule = _rule_text(call)
        _register()
        return hlo.custom_call(
            ctx,
            PARTITIONED,
            values,
            ctx.avals_out,
            config=f'"{_name_of(call)}"',
            api_version=2,
            attributes="" if rule is None else f"sdy.sharding_rule = {rule}",
        )


custom_partitioning_p = CustomPartitioning()


def _rule_text(call: _Call) -> str | None:
    rule, params, out_avals = (
        call.params["sharding_rule"],
        call.params,
        call.params["call"].out_avals,
    )
    if any(aval.extended for aval in (*call.in_avals, *out_avals)):
        raise NotImplementedError(
            "custom_partitioning: arguments and results are arrays of numbers, not of keys.\n"
            "  Give jax.random.key_data(key), and make keys of it by jax.random.wrap_key_data."
        )
    if rule is None:
        if (
            params["infer_sharding_from_operands"] is not None
            or params["propagate_user_sharding"] is not None
        ):
            raise NotImplementedError(
                "custom_partitioning: infer_sharding_from_operands and propagate_user_sharding "
                "are not asked by the Shardy partitioner; please provide sharding_rule to migrate "
                "to Shardy.\n  As in f.def_partition(partition, sharding_rule='i j, j k -> i k')."
            )
        return None
    if not isinstance(rule, SdyShardingRule):
        kinds = [
            [ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
            for avals in (call.in_avals, out_avals)
        ]
        found = rule(*params["static_args"], call.mesh, *kinds)
        rule = _as_rule(*found) if isinstance(found, tuple) else _as_rule(found, {})
    return rule.text([a.shape for a in call.in_avals], [a.shape for a in out_avals])


def _as_rule(rule: object, options: dict[str, Any]) -> SdyShardingRule:
    if not isinstance(rule, SdyShardingRule):
        return parse_rule(rule, **options)
    if any(options.values()):
        raise ValueError(
            f"Unknown keyword arguments: {options}.\n  An SdyShardingRule says itself what its "
            "factors are."
        )
    return rule


def _name_of(call: _Call) -> str:
    """The name of a call in the text; equal calls have one, so that their programs have one
    text."""
    key = (*sorted(call.params.items(), key=lambda item: item[0]), *call[1:])
    found = _names.get(key)
    if found is None:
        found = _names[key] = f"{_OWN}_{len(_names)}"
        _calls[found] = call
    return found


# --- What the partitioner asks, within the compiler -----------------------------------------------


@functools.cache
def _register() -> None:
    partitioners.register_partitioner(PARTITIONED, _partition)


def _partition(
    arg_shapes: object,
    arg_shardings: Sequence[HloSharding],
    result_shape: object,
    result_sharding: HloSharding,
    name: bytes,
) -> Any:
    """The program of one device as text, and the shardings that it needs of arguments and
    results."""
    call = _calls[name.decode()]
    params, out_avals = call.params, call.params["call"].out_avals
    several = len(out_avals) > 1
    given = [
        _structs(call, avals, found)
        for avals, found in (
            (call.in_avals, arg_shardings),
            (out_avals, result_sharding.tuple_elements() if several else [result_sharding]),
        )
    ]
    args, results = map(pytrees.tree_unflatten, (params["in_tree"], params["out_tree"]), given)
    with using(EVAL):
        answer = params["partition"](*params["static_args"], call.mesh, args, results)
        if not isinstance(answer, tuple) or len(answer) != 4:
            raise TypeError(
                "custom_partitioning: partition returns (mesh, lower_fn, result_shardings, "
                f"arg_shardings), got {answer!r:.200}."
            )
        mesh, lower_fn, out_shardings, in_shardings = answer
        ins = _flat_shardings("arg_shardings", in_shardings, params["in_tree"])
        outs = _flat_shardings("result_shardings", out_shardings, params["out_tree"])
        text = _module(call, mesh, lower_fn, ins, outs)
    of_results = [s._to_xla_hlo_sharding(a.ndim) for s, a in zip(outs, out_avals, strict=True)]
    return (
        text.encode(),
        [s._to_xla_hlo_sharding(a.ndim) for s, a in zip(ins, call.in_avals, strict=True)],
        HloSharding.tuple_sharding(result_shape, of_results) if several else of_results[0],
    )


def _structs(call: _Call, avals: Sequence[ShapedArray], found: Sequence[HloSharding]) -> list[Any]:
    """The types of arguments or results, with the shardings that were found for them."""
    mesh, structs = call.mesh, []
    for aval, hlo_sharding in zip(avals, found, strict=True):
        sharding: Any
        if call.params["decode_shardings"]:
            sharding = from_hlo(hlo_sharding, mesh, aval.ndim, mesh.device_list)
            if isinstance(sharding, NamedSharding) and len(sharding.spec) < aval.ndim:
                sharding = sharding.with_spec(
                    PartitionSpec(
                        *sharding.spec.partitions, *[None] * (aval.ndim - len(sharding.spec))
                    )
                )
        else:
            sharding = GSPMDSharding(mesh.device_list, hlo_sharding)
        structs.append(ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding))
    return structs


def _flat_shardings(what: str, tree_of_shardings: object, tree: PyTree) -> list[Any]:
    leaves, found = pytrees.tree_flatten(
        tree_of_shardings, is_leaf=lambda x: isinstance(x, Sharding) or x is None
    )
    for leaf in leaves:
        if not isinstance(leaf, Sharding):
            raise ValueError(
                f"custom_partitioning: partition must return Shardings as {what}, got "
                f"{leaf!r:.100}."
            )
    if found != tree:
        raise ValueError(
            f"custom_partitioning: the {what} that partition returned are of another structure.\n"
            f"    expected: {tree}\n    got: {found}"
        )
    return leaves


def _module(
    call: _Call,
    mesh: BaseMesh,
    lower_fn: Callable[..., object],
    ins: Sequence[object],
    outs: Sequence[Value],
) -> str:
    """`lower_fn` on the parts of one device, as a module."""
    params, out_avals = call.params, call.params["call"].out_avals
    parts, expected = (
        [ShapedArray(check_shape(s, a.shape), a.dtype) for a, s in zip(avals, where, strict=True)]
        for avals, where in ((call.in_avals, ins), (out_avals, outs))
    )
    if not isinstance(mesh, Mesh) or tuple(mesh.flat_devices) != tuple(call.mesh.flat_devices):
        raise ValueError(
            "custom_partitioning: the mesh that partition returned is not over the devices of "
            f"the program.\n    got: {mesh}\n    program: {call.mesh}"
        )

    def flat(*leaves: Value) -> list[Any]:
        return pytrees.tree_leaves(lower_fn(*pytrees.tree_unflatten(params["in_tree"], leaves)))

    everything = frozenset(mesh.axis_names)
    with inside(mesh, everything, False) if call.named else extended({}):
        jaxpr, consts = stage_flat(flat, parts)
    got = [ShapedArray(a.shape, a.dtype) for a in jaxpr.out_avals]
    if got != expected:
        raise ValueError(
            "custom_partitioning: Mismatch in result shapes. What lower_fn returns is not what "
            f"result_shardings say.\n    got: {got}\n    expected: {expected}"
        )
    manual = Manual(mesh, everything) if call.named else None
    text, module = lower_module(
        "partitioned",
        jaxpr,
        [Argument(a) for a in parts],
        call.platforms,
        consts=consts,
        manual=manual,
    )
    if module.host_callbacks:
        raise NotImplementedError(
            "custom_partitioning: lower_fn calls Python while it runs (a callback, or "
            "debug.print).\n  Call it outside of the function."
        )
    return text


# --- What users call ------------------------------------------------------------------------------


@final
class custom_partitioning:  # as users write it, a decorator
    """A function whose division among devices is said by hand.

    fun: of positional arguments, pytrees of arrays; arguments at static_argnums are hashable Python
    values. On one device, and within `shard_map`, the function is unchanged. It has no derivative
    and no batch: wrap it in `custom_vjp` or `custom_vmap`.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> @custom_partitioning
    ... def doubled(x):
    ...     return x * 2
    >>> def partition(mesh, args, result):
    ...     return mesh, lambda x: x * 2, result.sharding, (args[0].sharding,)
    >>> _ = doubled.def_partition(partition, sharding_rule="i -> i")
    >>> doubled(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """

    def __init__(
        self, fun: Callable[..., object], static_argnums: int | Sequence[int] = ()
    ) -> None:
        self.fun = fun
        self.static_argnums = as_indices(static_argnums, "static_argnums", "custom_partitioning")
        self.partition: Callable[..., Any] | None = None
        self.infer_sharding_from_operands: Callable[..., Any] | None = None
        self.propagate_user_sharding: Callable[..., Any] | None = None
        self.decode_shardings = True
        self.sharding_rule: Any = None
        functools.update_wrapper(self, fun)

    def def_partition(
        self,
        partition: Callable[..., object],
        infer_sharding_from_operands: Callable[..., object] | None = None,
        propagate_user_sharding: Callable[..., object] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> Callable[..., Any]:
        """Say how the function is divided; returns `partition`.

        partition(*static arguments, mesh, args, result): args and result are pytrees of
        ShapeDtypeStruct, with the shardings that were found. It returns (mesh, lower_fn,
        result_shardings, arg_shardings). lower_fn is the program of each device on its parts; the
        axes of the mesh have their names in it. The shardings say how results and arguments (a
        tuple of trees) are to lie for it.
        sharding_rule: a string such as 'i j, j k -> i k', an SdyShardingRule, or a function that
        gives one. The function takes (*static arguments, mesh, list of argument types, list of
        result types). It may also be (a string, a dictionary of the options that follow).
        infer_sharding_from_operands, propagate_user_sharding: accepted; Shardy goes by the rule
        alone. decode_shardings=False: `partition` is given GSPMDShardings. The rest: see
        `SdyShardingRule`. Raises TypeError or ValueError for a rule that is none.
        """
        self.partition, self.decode_shardings = partition, decode_shardings
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        options = {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
            **factor_sizes,
        }
        if sharding_rule is None or (
            callable(sharding_rule) and not isinstance(sharding_rule, SdyShardingRule)
        ):
            self.sharding_rule = sharding_rule
        else:
            self.sharding_rule = _as_rule(sharding_rule, options)
        return partition

    def __call__(self, *args: Value, **kwargs: object) -> Any:
        if self.partition is None:
            raise AttributeError(
                f"custom_partitioning: nobody has said how {_name(self.fun)} is divided.\n  Call "
                f"{_name(self.fun)}.def_partition(partition, sharding_rule=...) first."
            )
        signature = inspect.signature(self.fun)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                "keyword arguments could not be resolved to positions.\n    function: "
                f"{_name(self.fun)}\n    keywords: {', '.join(bound.kwargs)}"
            )
        call = flatten_call(bound.args, {}, self.static_argnums)
        statics = tuple(x for _, x in call.statics[0])
        _check_hashable(self.fun, statics)
        staged = stage_user(
            self.fun,
            call,
            check_leaves(call, self.fun, "custom_partitioning"),
            "custom_partitioning",
        )
        in_tree, _ = call.tree.children()
        outs = custom_partitioning_p.call(
            *call.leaves,
            call=_with_constants(staged, self.fun),
            partition=self.partition,
            decode_shardings=self.decode_shardings,
            propagate_user_sharding=self.propagate_user_sharding,
            sharding_rule=self.sharding_rule,
            in_tree=in_tree,
            infer_sharding_from_operands=self.infer_sharding_from_operands,
            out_tree=staged.out_tree,
            static_args=statics,
        )
        return pytrees.tree_unflatten(staged.out_tree, outs)


def _name(fun: object) -> str:
    return getattr(fun, "__name__", repr(fun))


def _check_hashable(fun: Callable[..., object], statics: Sequence[object]) -> None:
    for x in statics:
        try:
            hash(x)
        except TypeError as err:
            raise TypeError(
                f"custom_partitioning: a static argument of {_name(fun)} is not hashable: "
                f"{x!r:.100}."
            ) from err


def _with_constants(staged: StagedCall, fun: Callable[..., object]) -> ClosedJaxpr:
    """The jaxpr of a staged function, with the values that it closes over as constants."""
    for x in staged.consts:
        if isinstance(x, Tracer):
            _refuse_closed_over(x, fun)
    return ClosedJaxpr(staged.jaxpr, staged.consts)


def _refuse_closed_over(x: Tracer, fun: object) -> NoReturn:
    raise ValueError(
        f"custom_partitioning: {_name(fun)} closes over a value that is traced outside of it.\n"
        f"    value: {x.aval.str_short(short_dtypes=True)}\n"
        "  Give it as an argument, so that it is divided too."
    )

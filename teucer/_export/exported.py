"""`export`: a jitted function as a StableHLO module that outlives the process, and calling it
again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import config, tracebacks
from teucer._core import array_ops
from teucer._core.calls import fun_name
from teucer._core.trace import typeof
from teucer._core.types import float0
from teucer._derived.custom_vjp import custom_vjp
from teucer._derived.vjp import vjp
from teucer._devices import backends
from teucer._devices.meshes import AbstractMesh, Mesh
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import UNCONSTRAINED, PartitionSpec
from teucer._dimensions.dimensions import is_symbolic
from teucer._export import calls, serialization
from teucer._programs.eager import dispatcher_of
from teucer._transform.jit import jit
from teucer._trees import pytrees
from teucer._xla import mlir
from teucer._xla.client import PLATFORMS, platform_of

if TYPE_CHECKING:
    from teucer._core.typing import Tangents, Value
    from teucer._derived.stages import Traced
    from teucer._devices.meshes import BaseMesh
    from teucer._devices.shardings import Sharding
    from teucer._xla.pytree import PyTree


# 9: the first argument is the platform's number where there are several. 10: Shardy is the dialect
# of shardings.
minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10

_NO_MESH = AbstractMesh((), ())

# Foreign functions that XLA and jaxlib keep for later versions, beside those of LAPACK.
_STABLE_TARGETS = frozenset(
    {
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "annotate_device_placement",
        "shape_assertion",
        "stablehlo.dynamic_reduce_window",
        "stablehlo.dynamic_rng_bit_generator",
        "stablehlo.dynamic_top_k",
        "ApproxTopK",
        "TopK",
        "Eigh",
        "Qr",
        "ProductOfElementaryHouseholderReflectors",
        "LuDecomposition",
        "tpu_custom_call",
        "cusparse_gtsv2_ffi",
        "cpu_csr_sparse_dense_ffi",
        *(
            f"{gpu}{name}"
            for gpu in ("cu", "hip")
            for name in (
                "_threefry2x32_ffi",
                "_lu_pivots_to_permutation",
                "solver_geqrf_ffi",
                "solver_gesvd_ffi",
                "solver_gesvdj_ffi",
                "solver_getrf_ffi",
                "solver_orgqr_ffi",
                "solver_potrf_ffi",
                "solver_syevd_ffi",
                "solver_sytrd_ffi",
            )
        ),
    }
)


@final
@dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that `export` leaves out. Made by its class methods."""

    _impl: str

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Let a function be called on platforms that it was not exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Let a function call a foreign function although later versions may not have it; "ALL":
        any foreign function."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The foreign function's name, if this is about one."""
        return (
            self._impl.removeprefix("custom_call:")
            if self._impl.startswith("custom_call:")
            else None
        )

    def is_platform(self) -> bool:
        """Whether this is about the platform."""
        return self._impl == "platform"

    def __str__(self) -> str:
        return self._impl

    __repr__ = __str__


@final
@dataclass(frozen=True, eq=False)
class Exported:
    """A function as a StableHLO module, with the facts needed to call it.

    in_tree, in_avals: of (positional arguments, keyword arguments), flat. out_tree, out_avals: of
    the results.
    nr_devices: over how many devices it runs; if several, also where it is called.
    platforms: those that the module was lowered for. module_kept_var_idx: the flat arguments that
    it takes.
    mlir_module_serialized: the module as StableHLO's portable artifact.
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[Any, ...]
    out_tree: Any
    out_avals: tuple[Any, ...]
    _has_named_shardings: bool
    _in_named_shardings: tuple[Any, ...]
    _out_named_shardings: tuple[Any, ...]
    in_shardings_hlo: tuple[Any, ...]
    out_shardings_hlo: tuple[Any, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    ordered_effects: tuple[Any, ...]
    unordered_effects: tuple[Any, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _get_vjp: Callable[[Exported], Exported] | None = field(repr=False)

    def __deepcopy__(self, memo: object) -> Exported:
        return self  # nothing of it changes

    def mlir_module(self, serialized: bool = True) -> str:
        """The module's text, with the places in the exporter's program that operations come
        from."""
        module = mlir.read_portable(self.mlir_module_serialized)
        names = [f"result{pytrees.keystr(path)}" for path in pytrees.leaf_paths(self.out_tree)]
        mlir.annotate(module, names, polymorphic=self.uses_global_constants)
        return mlir.pretty(module, locations=True)

    def in_shardings_jax(self, mesh: BaseMesh) -> tuple[Any, ...]:
        """Shardings of the flat arguments on a mesh; None where the module leaves them open."""
        return tuple(map(functools.partial(_over, mesh), self._in_named_shardings))

    def out_shardings_jax(self, mesh: BaseMesh) -> tuple[Any, ...]:
        """Shardings of the flat results on a mesh; None where the module leaves them open."""
        return tuple(map(functools.partial(_over, mesh), self._out_named_shardings))

    def has_vjp(self) -> bool:
        """Whether its reverse-mode derivative is there."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The exported function of (*flat arguments, *cotangents of flat results) that gives
        cotangents of the flat arguments.

        Raises ValueError if it was not serialized with it.
        """
        if self._get_vjp is None:
            raise ValueError(
                f"No VJP is available for '{self.fun_name}'.\n  Serialize it with its derivatives: "
                "exported.serialize(vjp_order=1)."
            )
        return self._vjp

    @functools.cached_property
    def _vjp(self) -> Exported:
        assert self._get_vjp is not None
        return self._get_vjp(self)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The function as bytes, for `deserialize` in another process; docs/export.md says their
        format.

        vjp_order: how many reverse-mode derivatives go along.
        Raises ValueError if there are not so many, or a node of a tree is of a class not registered
        for serialization.
        """
        return serialization.write(self, vjp_order)

    def call(self, *args: Value, **kwargs: object) -> Any:
        """The function applied to arguments, also under `jit` and `grad`.

        Raises ValueError for arguments of another tree or type than it was exported for, or on
        another platform.
        """
        return self._callable(*args, **kwargs)

    @functools.cached_property
    def _callable(self) -> Callable[..., Any]:
        return _callable(self)

    @functools.cached_property
    def _run(self) -> Callable[..., tuple[Any, ...]]:
        """Runs the module on flat arguments; its programs go with this object."""
        return dispatcher_of(calls.call_exported_p, {"exported": self})

    @functools.cached_property
    def arg_names(self) -> tuple[str, ...]:
        """Names of the flat arguments in messages: args[0], kwargs['x']."""
        return _arg_names(self.in_tree)

    @functools.cached_property
    def functions(self) -> tuple[str, tuple[Any, ...]]:
        """The module's functions as text that goes into other modules, and the axes of its
        meshes."""
        return calls.functions_of(self.mlir_module_serialized)

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"


def _over(mesh: BaseMesh, sharding: object) -> Any:
    """A sharding of the same partition and memory over another mesh; None for any that is not of
    named axes."""
    if not isinstance(sharding, NamedSharding):
        return None
    return NamedSharding(mesh, sharding.spec, memory_kind=sharding._memory_kind)


def _abstract(sharding: Sharding) -> Any:
    """A sharding without its devices, which mean nothing elsewhere; their memory does."""
    if not isinstance(sharding, NamedSharding) or UNCONSTRAINED in sharding.spec:
        return None
    mesh = sharding.mesh
    kind = sharding._memory_kind if isinstance(mesh, AbstractMesh) else sharding.memory_kind
    return NamedSharding(mesh.abstract_mesh, sharding.spec, memory_kind=kind)


def _in_memories(kinds: Sequence[str | None], avals: Sequence[Any]) -> tuple[Any, ...]:
    """Shardings of values of one device, if they are in other memory than the device's; else
    None."""
    return tuple(
        [
            None
            if kind is None
            else NamedSharding(_NO_MESH, PartitionSpec(*[None] * aval.ndim), memory_kind=kind)
            for kind, aval in zip(kinds or (None,) * len(avals), avals, strict=True)
        ]
    )


def _arg_names(tree: PyTree) -> tuple[str, ...]:
    paths = [pytrees.keystr(path) for path in pytrees.leaf_paths(tree)]
    return tuple(
        "args" + path[3:] if path.startswith("[0]") else "kwargs" + path[3:] for path in paths
    )


def _callable(exported: Exported) -> Callable[..., Any]:
    def flat(*args: object) -> Any:
        return calls.call_exported_p.call(*args, exported=exported)

    def forward(*args: object) -> Any:
        # Differentiable again: derivatives of higher order come here.
        return differentiable(*args), args

    def backward(residuals: Sequence[Value], cts: Tangents) -> Any:
        out = exported.vjp()
        filled = [
            array_ops.zeros(typeof(ct).tangent_aval()) if a.dtype == float0 else ct
            for ct, a in zip(cts, out.in_avals[len(residuals) :], strict=True)
        ]
        return out.call(*residuals, *filled)

    flat.__name__ = exported.fun_name
    differentiable = custom_vjp(flat)
    differentiable.defvjp(forward, backward)

    @tracebacks.api_boundary
    def call(*args: Value, **kwargs: object) -> Any:
        leaves, tree = pytrees.tree_flatten((args, kwargs))
        if tree != exported.in_tree:
            told = "\n".join(
                (
                    f"   - {pytrees.keystr(path)} is a {a} in the invocation and a {b} when "
                    f"exported: {why}"
                )
                for path, a, b, why in pytrees.equality_errors_pytreedef(tree, exported.in_tree)
            )
            raise ValueError(
                "The invocation args and kwargs must have the same pytree structure as when the "
                f"function '{exported.fun_name}' was exported, but they have the following "
                f"structural differences:\n{told}"
            )
        return pytrees.tree_unflatten(exported.out_tree, differentiable(*leaves))

    return call


def default_export_platform() -> str:
    """The default platform of `export`: the platform of the default device.

    >>> default_export_platform()
    'cpu'
    """
    return platform_of(backends.target_device())


def export(
    fun_jit: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: object = None,
) -> Callable[..., Exported]:
    """A function of argument types that gives `fun_jit` as a StableHLO module for them.

    fun_jit: the result of `jit`. Of its result the arguments are arrays or ShapeDtypeStructs, whose
        shapes may be symbolic (`symbolic_shape`).
    platforms: those that the module is for: cpu, cuda, rocm, tpu; by default the one here.
    disabled_checks: checks left out. Raises ValueError if fun_jit is not the result of `jit`, or
    calls foreign functions that may change; NotImplementedError for Python callbacks.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> a, = jax.export.symbolic_shape("a")
    >>> double = jax.export.export(jax.jit(lambda x: 2 * x))(jax.ShapeDtypeStruct((a,), jnp.int32))
    >>> jax.export.deserialize(double.serialize()).call(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if not hasattr(fun_jit, "trace") or not hasattr(fun_jit, "lower"):
        raise ValueError(f"Function to be exported must be the result of `jit` but is: {fun_jit}")
    if _override_lowering_rules:
        raise NotImplementedError(
            "export: lowering rules cannot be replaced. Use lax.platform_dependent for code of a "
            "platform."
        )
    chosen = tuple(dict.fromkeys(platforms or (default_export_platform(),)))
    unknown = [p for p in chosen if p not in PLATFORMS]
    if unknown:
        raise ValueError(
            f"export: unknown platforms {unknown}.\n  Platforms are {', '.join(PLATFORMS)}, in a "
            "sequence."
        )

    version = config.export_calling_convention_version.value
    oldest, newest = (
        minimum_supported_calling_convention_version,
        maximum_supported_calling_convention_version,
    )
    if not oldest <= version <= newest:
        raise ValueError(
            f"The requested export calling convention version {version} is outside the range of "
            f"supported versions [{oldest}..{newest}].\n"
            "  The option jax_export_calling_convention_version asks for it."
        )

    @tracebacks.api_boundary
    def exporter(*args: object, **kwargs: object) -> Exported:
        given, tree = pytrees.tree_flatten((args, kwargs))
        _check_scopes(fun_name(inspect.unwrap(fun_jit)), _arg_names(tree), given)
        return _exported(fun_jit.trace(*args, **kwargs), chosen, tuple(disabled_checks), version)

    return exporter


def _exported(
    traced: Traced,
    platforms: tuple[str, ...],
    disabled: tuple[DisabledSafetyCheck, ...],
    version: int,
) -> Exported:
    names = _arg_names(traced.in_tree)
    in_avals = tuple(pytrees.tree_leaves(traced.in_avals))
    out_avals = tuple(pytrees.tree_leaves(traced.out_avals))
    lowering = traced.lower_for_export(platforms, names)
    if lowering.callbacks:
        raise NotImplementedError(
            "serialization of host_callbacks is not yet implemented.\n"
            f"  Python callbacks (pure_callback, io_callback, debug.print) of '{traced.fun_name}' "
            "live in this process only."
        )
    artifact = mlir.portable(lowering.text)
    _check_custom_calls(lowering.text, disabled)
    placement = lowering.placement
    ins = tuple(map(_abstract, placement.ins)) or _in_memories(
        placement.in_kinds or [a.memory_space.kind for a in in_avals], in_avals
    )
    outs = lowering.outs if placement.mesh is not None else ()
    return Exported(
        fun_name=traced.fun_name,
        in_tree=traced.in_tree,
        in_avals=in_avals,
        out_tree=traced.out_tree,
        out_avals=out_avals,
        _has_named_shardings=True,
        _in_named_shardings=ins,
        _out_named_shardings=tuple(map(_abstract, outs))
        or _in_memories(placement.out_kinds, out_avals),
        in_shardings_hlo=(None,) * len(in_avals),
        out_shardings_hlo=(None,) * len(out_avals),
        nr_devices=len(placement.devices),
        platforms=platforms,
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=disabled,
        mlir_module_serialized=artifact,
        calling_convention_version=version,
        module_kept_var_idx=tuple(i for i, kept in enumerate(lowering.kept) if kept),
        uses_global_constants=lowering.polymorphic or len(platforms) > 1,
        _get_vjp=functools.partial(_export_vjp, traced, lowering.outs),
    )


def _check_scopes(fun_name: str, names: Sequence[str], args: Sequence[Value]) -> None:
    """Raise ValueError if symbolic dimensions of arguments come from different scopes."""
    first: Any = None
    for name, arg in zip(names, args, strict=True):
        for size in arg.shape if isinstance(arg, ShapeDtypeStruct) else ():
            if is_symbolic(size):
                if first is not None and size.scope is not first[1].scope:
                    raise ValueError(
                        f"Invalid mixing of symbolic scopes when exporting {fun_name}.\n"
                        f"    Expected current (from {first[0]}) {first[1].scope}\n"
                        f"    and found for '{size}' ({name}) {size.scope}\n"
                        "  Make all symbolic shapes with one scope: symbolic_shape(..., "
                        "scope=...)."
                    )
                first = first or (name, size)


def _check_custom_calls(text: str, disabled: Sequence[DisabledSafetyCheck]) -> None:
    """Raise ValueError if a module calls foreign functions that may be gone or different in later
    versions."""
    allowed = _STABLE_TARGETS | {check.is_custom_call() for check in disabled}
    if "stablehlo.custom_call" not in text or "ALL" in allowed:
        return
    found = {
        target: place
        for target, place in mlir.custom_call_targets(mlir.parse(text)).items()
        if target not in allowed and not (target.startswith("lapack_") and target.endswith("_ffi"))
    }
    if found:
        raise ValueError(
            (
                "Cannot serialize code with custom calls whose targets have no compatibility "
                "guarantees:\n"
            )
            + "".join(f"    {target} at {place}\n" for target, place in found.items())
            + "  If they will be there where the function is called: "
            "export(..., disabled_checks=[DisabledSafetyCheck.custom_call(name)])."
        )


def _export_vjp(traced: Traced, outs: Sequence[Any], exported: Exported) -> Exported:
    """The derivative of a traced function, exported for the same platforms.

    outs: how the function's results lie, and so their cotangents. Those of arguments lie as these.
    """
    n = len(exported.in_avals)

    def fun_vjp(*args_and_cts: Value) -> Any:
        _, pullback = vjp(traced.jaxpr, *args_and_cts[:n])
        return pullback(list(args_and_cts[n:]))

    avals = [*exported.in_avals, *(a.cotangent_aval() for a in exported.out_avals)]
    placement = traced.job.placement
    laid = placement.ins if placement.mesh is not None else (None,) * n
    over = [None if a.partition is None else a.partition.update(mesh=placement.mesh) for a in avals]
    structs = [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, sharding=s or t)
        for a, s, t in zip(avals, (*laid, *map(_said, outs)), over, strict=True)
    ]
    told = tuple(None if t else _said(s) for s, t in zip(laid, over, strict=False))
    return export(
        jit(fun_vjp, out_shardings=told if any(told) else None),
        platforms=exported.platforms,
        disabled_checks=exported.disabled_safety_checks,
    )(*structs)


def _said(sharding: Sharding) -> Any:
    """A sharding that says the whole partition, over devices; None for any other."""
    over_devices = isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh)
    return sharding if over_devices and _abstract(sharding) is not None else None


def deserialize(blob: bytes | bytearray) -> Exported:
    """The function that `Exported.serialize` wrote.

    Raises ValueError for bytes that it did not write, that are damaged, or that are of a version
    not supported; TypeError for other objects than bytes.
    """
    found: Exported = serialization.read(blob, Exported, DisabledSafetyCheck)
    return found

"""The stages of `jit`.

Traced, lowered, compiled; for looking at a program before it runs, and for running it ahead of
time.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from teucer._arrays.arrays import ArrayImpl
from teucer._arrays.formats import Format, Layout
from teucer._arrays.structs import ShapeDtypeStruct, as_struct, described
from teucer._base import tracebacks
from teucer._core.calls import FlatCall, flatten_call
from teucer._core.debug_info import DebugInfo
from teucer._core.high import stated
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.reference_types import is_reference
from teucer._core.trace import Tracer, typeof
from teucer._core.types import Aval
from teucer._derived import jit_references
from teucer._derived.jit_references import on_arrays
from teucer._devices import backends
from teucer._devices.meshes import AbstractMesh, get_abstract_mesh
from teucer._devices.placement import on_assigned, to_be_lowered
from teucer._devices.shardings import NamedSharding, check_shape, lie_alike, typed
from teucer._dialects.high.lowering import lowered
from teucer._executables import donation
from teucer._programs.compile import compile_job
from teucer._programs.lower import Lowering
from teucer._programs.lower import lower as lower_job
from teucer._programs.program import Program
from teucer._programs.run import execute, fast_path, shard_arg_fallback
from teucer._transform.dispatching import method
from teucer._transform.jit import jit, stage_call
from teucer._transform.jit_options import JitOptions
from teucer._transform.staged import Staged, job_of, prefixed
from teucer._trees import pytrees
from teucer._xla import client as xla
from teucer._xla.dispatcher import FastPath, dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._core.types import ShapedArray
    from teucer._core.typing import Params, Value
    from teucer._lower.value import Value as Written
    from teucer._xla.client import Device
    from teucer._xla.pytree import PyTree, PyTreeDef

__all__ = ["ArgInfo", "Compiled", "Lowered", "OutInfo", "Stage", "Traced", "Wrapped", "jit"]


@dataclass(frozen=True)
class ArgInfo:
    """The type of one argument, and whether it is donated. A leaf of trees."""

    _aval: Aval
    donated: bool

    @property
    def aval(self) -> Aval:
        return self._aval

    @property
    def shape(self) -> Any:
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        return self._aval.dtype


class OutInfo(NamedTuple):
    """The type of one result."""

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool = False
    sharding: Any = None


class Stage:
    """A program on its way from Python to machine code."""

    args_info: Any
    out_tree: Any

    @property
    def in_tree(self) -> Any:
        """The tree of (positional arguments, keyword arguments)."""
        return pytrees.tree_structure(self.args_info)

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as their tree."""
        return pytrees.tree_map(lambda a: a.aval, self.args_info)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Positions, among the flat arguments, of those that are donated."""
        leaves = pytrees.tree_leaves(self.args_info)
        return tuple(i for i, a in enumerate(leaves) if a.donated)


@runtime_checkable
class Wrapped(Protocol):
    """The protocol of jitted functions."""

    def __call__(self, *args: Value, **kwargs: object) -> Any:
        """The function applied to arguments."""

    def trace(self, *args: Value, **kwargs: object) -> Traced:
        """The program for arguments of these types."""

    def lower(self, *args: Written, **kwargs: object) -> Lowered:
        """The program for arguments of these types, written for the compiler."""


def _as_told(aval: ShapedArray, sharding: object) -> Any:
    """The type of an argument with a sharding from `in_shardings`, if that is over Explicit mesh
    axes."""
    if not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit_axes:
        return aval
    return aval.update(sharding=typed(sharding, aval.ndim))


class Traced(Stage):
    """A function traced for the types of its arguments. Made by `jit(f).trace(...)`."""

    def __init__(self, staged: Staged, options: JitOptions, call: FlatCall) -> None:
        self.staged, self.out_tree = staged, staged.out_tree
        self.moves = options.device is not None
        self.fun_name = staged.debug_info.name
        n = len(staged.consts)
        told = prefixed(staged, call, options.in_shardings, None)[0]
        infos = [
            ArgInfo(_as_told(a, s), d)
            for a, s, d in zip(staged.jaxpr.in_avals[n:], told[n:], staged.donated[n:], strict=True)
        ]
        self.args_info = pytrees.tree_unflatten(call.tree, infos)
        job = job_of(staged, call, options)
        self.job = job._replace(placement=to_be_lowered(job.placement, len(job.jaxpr.invars)))
        # Whether an argument, not the mesh in force, says that there are no devices.
        self._placeless = isinstance(job.placement.mesh, AbstractMesh)
        self.on_arrays: jit_references.OnArrays | None = None
        self.low: jit_references.OnLow | None = None
        leaves: Sequence[Any] = (*staged.consts, *call.leaves)
        if jit_references.needs_low(staged.jaxpr.jaxpr):
            self.low = jit_references.on_low(self.job, leaves)
            self.job, leaves = self.low.job, self.low.operands
        if any(is_reference(a) for a in self.job.jaxpr.in_avals):
            self.on_arrays = on_arrays(self.job, leaves)
            self.job = self.on_arrays.job
        _, self._outs = prefixed(staged, call, None, options.out_shardings)
        _, self._out_layouts = prefixed(staged, call, None, options.out_layouts)
        for where, aval in zip(self._outs, staged.jaxpr.out_avals, strict=True):
            if where is not None:
                check_shape(
                    where,
                    aval.shape,
                    f"One of jit outputs is incompatible with its sharding annotation {where}: ",
                )

    @property
    def arg_names(self) -> tuple[str, ...]:
        """What the user calls the flat arguments."""
        names = tuple(self.staged.debug_info.arg_names)
        count = self.in_tree.num_leaves
        return names if len(names) == count else tuple(f"args[{i}]" for i in range(count))

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program."""
        jaxpr, n = self.staged.jaxpr.jaxpr, len(self.staged.consts)
        return ClosedJaxpr(
            jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:]), self.staged.consts
        )

    @property
    def effects(self) -> frozenset[Any]:
        """The effects of the program."""
        return frozenset(self.jaxpr.effects)

    @property
    def lojax(self) -> ClosedJaxpr:
        """The program on arrays, without types of libraries."""
        return lowered(self.staged.jaxpr).jaxpr if self.staged.jaxpr.is_high else self.staged.jaxpr

    @property
    def out_info(self) -> Any:
        """Shapes, dtypes and the shardings given to `jit` of the results, as their tree."""
        structs = [
            as_struct(a)
            if where is None or a.is_high
            else as_struct(a).update(
                sharding=Format(layout, where) if isinstance(layout, Layout) else where
            )
            for a, where, layout in zip(
                self.staged.jaxpr.out_avals, self._outs, self._out_layouts, strict=True
            )
        ]
        return pytrees.tree_unflatten(self.out_tree, structs)

    @property
    def out_avals(self) -> Any:
        """Types of the results, as their tree."""
        return pytrees.tree_unflatten(self.out_tree, self.staged.jaxpr.out_avals)

    @tracebacks.api_boundary
    def __call__(self, *args: Value, **kwargs: object) -> Any:
        """The program applied to arguments of the types that it was traced for."""
        call = flatten_call(args, kwargs)
        if call.tree != self.in_tree:
            raise TypeError(_other_tree(self.in_tree, call.tree))
        return pytrees.tree_unflatten(self.out_tree, self.jaxpr(*call.leaves))

    @tracebacks.api_boundary
    def lower(
        self, *, lowering_platforms: Sequence[str] | None = None, _private_parameters: object = None
    ) -> Lowered:
        """The program as StableHLO.

        lowering_platforms: for which platforms; by default the platform of the device on which the
        program will run, or of the mesh in force. Raises ValueError where nothing says it.
        """
        platforms = tuple(lowering_platforms or (self.job.placement.platform,))
        if not lowering_platforms:
            over = self.job.placement.mesh  # the one in force may have no devices
            if self._placeless:
                device = get_abstract_mesh().abstract_device
                if device is None:
                    raise ValueError(_NO_DEVICES.format(over))
                platforms = (device.platform,)
            named = platforms if isinstance(over, AbstractMesh) else None
            return Lowered(self, lower_job(self.job, named), platforms)
        return Lowered(self, self.lower_with(platforms), platforms)

    def lower_with(self, platforms: Sequence[str], *, locations: bool = False) -> Lowering:
        """The program's text for platforms; locations: with the names of arguments and the places
        that operations come from."""
        names = (*[""] * len(self.staged.consts), *self.arg_names)
        plain = len(names) == len(self.job.jaxpr.in_avals)  # not so with references and high values
        return lower_job(
            self.job._replace(quiet=locations),
            platforms,
            locations=locations,
            arg_names=names if locations and plain else (),
        )

    def lower_for_export(self, platforms: Sequence[str], arg_names: Sequence[str]) -> Lowering:
        """Lower the program for `platforms`. The text contains the constants of the function, and
        the places that operations come from. Its messages call the arguments `arg_names`."""
        job = self.job._replace(donated=(False,) * len(self.job.donated))
        return lower_job(
            job, platforms, locations=True, consts=self.staged.consts, arg_names=arg_names
        )


_NO_DEVICES = (
    "Passing lowering_platforms via jax.export or "
    "jit(f).trace(*args).lower(lowering_platforms=...) is required when only AbstractMesh exists "
    "in a jitted computation.\n    mesh: {}\n  To run the program, lay the arguments over a "
    "jax.sharding.Mesh, or enter one with jax.set_mesh."
)


_UNASSIGNED = (
    "device_assignment cannot be `None` during compilation. Please pass a tuple of devices to "
    "`.compile(device_assignment=)`.\n    mesh: {}, which has no devices"
)


class Lowered(Stage):
    """A program as StableHLO. Made by `jit(f).lower(...)`."""

    def __init__(self, traced: Traced, lowering: Lowering, platforms: Sequence[str]) -> None:
        self.traced, self.lowering, self.platforms = traced, lowering, platforms
        self.args_info, self.out_tree = traced.args_info, traced.out_tree

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, as their tree."""
        return pytrees.tree_map(
            lambda s: s.update(weak_type=False) if isinstance(s, ShapeDtypeStruct) else s,
            self.traced.out_info,
        )

    @tracebacks.api_boundary
    def compile(
        self,
        compiler_options: Params | None = None,
        *,
        device_assignment: Sequence[Device] | None = None,
    ) -> Compiled:
        """The program as machine code.

        compiler_options: XLA's debug options by name, its efforts and levels, as of `jit`.
        device_assignment: the devices that it is to run on, in the order of the mesh, where
        arguments do not say them.
        Raises ValueError if sizes are symbolic, it was lowered for several platforms, or the
        devices do not match; RuntimeError if nothing says them.
        """
        traced = self.traced
        symbolic = [aval for aval in traced.staged.jaxpr.in_avals if aval.symbolic]
        if symbolic or len(self.platforms) > 1:
            why = (
                f"has arguments of symbolic sizes, {symbolic[0]}"
                if symbolic
                else f"is for several platforms, {self.platforms}"
            )
            raise ValueError(
                f"compile: {traced.fun_name} {why}.\n  Lower it for known sizes and one platform; "
                "jax.export keeps it as it is, to be called at any size."
            )
        placement = traced.job.placement
        if isinstance(self.lowering.placement.mesh, AbstractMesh):
            placement = self.lowering.placement
        if isinstance(placement.mesh, AbstractMesh):
            if device_assignment is None:
                raise RuntimeError(_UNASSIGNED.format(placement.mesh))
            placement = on_assigned(placement, device_assignment)
        elif device_assignment is not None and placement.devices != tuple(device_assignment):
            if len(device_assignment) != 1 or placement.committed:
                raise ValueError(
                    "device_assignment passed to `.compile` must match the device_assignment "
                    "calculated from array shardings and out_shardings. Got device ids "
                    f"{[d.id for d in device_assignment]} passed to `.compile`, and "
                    f"{[d.id for d in placement.devices]} from arguments and results."
                )
            placement = placement._replace(devices=tuple(device_assignment), committed=True)
        job = traced.job._replace(
            placement=placement,
            quiet=True,
            options=(*traced.job.options, *sorted((compiler_options or {}).items())),
        )
        same = placement is traced.job.placement and self.platforms == (placement.platform,)
        return Compiled(
            compile_job(job, self.lowering if same else None),
            traced.staged.consts,
            self.args_info,
            self.out_tree,
            traced.staged.jaxpr.out_avals,
            traced.arg_names,
            traced.on_arrays,
            traced.low,
            moves=traced.moves,
        )

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The program's text: dialect 'stablehlo' (the default) or 'hlo'.

        debug_info: with the names and places in the user's program that operations come from.

        Raises ValueError for another dialect.
        """
        from teucer._xla import mlir  # 0.15 s to load, for readers of programs

        if dialect == "hlo":  # in which the names of operations are those of instructions
            return mlir.hlo_text(mlir.xla_computation(self._located()), locations=debug_info)
        _check_dialect(dialect)
        # Without locations the text that was lowered says the same, and is there already.
        written = self._located() if debug_info else self.lowering.text
        return mlir.pretty(mlir.readable(written, self._result_names()), locations=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The program in the compiler's form: an MLIR module, whose text is `as_text()`, or for
        dialect 'hlo' an XLA computation.

        Raises ValueError for another dialect.
        """
        from teucer._xla import mlir

        if dialect == "hlo":
            return mlir.xla_computation(self._located())
        _check_dialect(dialect)
        return mlir.readable(self._located(), self._result_names())

    def _result_names(self) -> list[str]:
        return [f"result{pytrees.keystr(path)}" for path in pytrees.leaf_paths(self.out_tree)]

    def _located(self) -> str:
        """The program's text with the names and places that operations come from."""
        return self.traced.lower_with(self.platforms, locations=True).text

    def cost_analysis(self) -> Any:
        """XLA's estimate of the program's cost before it is optimised, as a dictionary."""
        client = backends.backends().get(
            "cpu", self.traced.job.placement.device.client
        )  # plugins have no such function
        return xla.cost_analysis(client, self.compiler_ir("hlo"))


def _check_dialect(dialect: str | None) -> None:
    if dialect not in (None, "stablehlo"):
        raise ValueError(f"unknown dialect: {dialect}. Use 'stablehlo' or 'hlo'.")


class Compiled(Stage):
    """An executable. Call it with arguments of the types that it was compiled for."""

    def __init__(
        self,
        program: Program,
        consts: Sequence[Value],
        args_info: object,
        out_tree: PyTreeDef,
        out_avals: Sequence[ShapedArray],
        arg_names: Sequence[str],
        on_arrays: jit_references.OnArrays | None = None,
        low: jit_references.OnLow | None = None,
        *,
        moves: bool = False,
    ) -> None:
        # moves: whether `jit` was told a device, to which it brings the arguments.
        self._on_arrays, self._low, self._moves = on_arrays, low, moves
        self.program, self.args_info, self.out_tree, self.arg_names = (
            program,
            args_info,
            out_tree,
            tuple(arg_names),
        )
        # The values that the function closes over come before the arguments.
        self.consts, self._out_avals = tuple(consts), tuple(out_avals)
        found = weakref.WeakMethod(
            self._miss
        )  # no cycle, so that the executable goes with its last user

        @tracebacks.api_boundary
        def miss(*args: object, **kwargs: object) -> tuple[Any, FastPath | None]:
            method = found()
            assert method is not None, "called through the object"
            return method(*args, **kwargs)

        self._calls = dispatcher(
            program.name,
            lambda *args, **kwargs: miss(*args, **kwargs)[0],
            miss,
            shard_arg_fallback=shard_arg_fallback,
        )

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, and where they are, as their tree."""
        formats = pytrees.tree_leaves(self.output_formats)
        return pytrees.tree_unflatten(
            self.out_tree,
            [
                as_struct(a).update(sharding=f, weak_type=False)
                for a, f in zip(self._out_avals, formats, strict=True)
            ],
        )

    @property
    def out_avals(self) -> Any:
        """Types of the results."""
        return self._out_avals

    def as_text(self) -> str:
        """The optimised program as HLO text."""
        return "\n".join(m.to_string() for m in self.program.whole.hlo_modules())

    def cost_analysis(self) -> Any:
        """XLA's estimate of the program's cost, as a dictionary."""
        return self.program.whole.cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of code, arguments, results and temporaries."""
        return self.program.executable.get_compiled_memory_stats()

    def runtime_executable(self) -> Any:
        """The executable of the runtime."""
        return self.program.whole

    @property
    def input_shardings(self) -> Any:
        """Where the arguments must be: (of positional, of keyword arguments)."""
        taken = iter(self.program.in_shardings)
        every = [next(taken) if kept else None for kept in self.program.kept]
        return pytrees.tree_unflatten(self.in_tree, every[len(self.consts) :])

    @property
    def output_shardings(self) -> Any:
        """Where the results are."""
        return pytrees.tree_unflatten(self.out_tree, self.program.out_shardings)

    @property
    def input_formats(self) -> Any:
        """How the arguments lie in memory, and where: (of positional, of keyword arguments); None
        for those not used."""
        taken = iter(self.program.executable.get_parameter_layouts())
        layouts = [next(taken) if kept else None for kept in self.program.kept][len(self.consts) :]
        return self._formats(self.in_tree, layouts, self.input_shardings)

    @property
    def output_formats(self) -> Any:
        """The formats of the results: their layouts in memory, and their shardings."""
        return self._formats(
            self.out_tree, self.program.executable.get_output_layouts(), self.output_shardings
        )

    @staticmethod
    def _formats(tree: PyTree, layouts: Sequence[object], shardings: object) -> Any:
        flat = pytrees.tree_leaves(shardings, is_leaf=lambda s: s is None)
        return pytrees.tree_unflatten(
            tree,
            [
                None if layout is None else Format(Layout.from_pjrt_layout(layout), sharding)
                for layout, sharding in zip(layouts, flat, strict=True)
            ],
        )

    def __call__(self, *args: Value, **kwargs: object) -> Any:
        return self._calls(*args, **kwargs)

    def _miss(self, *args: object, **kwargs: object) -> tuple[Any, FastPath | None]:
        """Results of a call that C++ cannot answer yet, and a fast path for the next one."""
        call = flatten_call(args, kwargs)
        if call.tree != self.in_tree:
            raise TypeError(_other_tree(self.in_tree, call.tree))
        traced = next((x for x in call.leaves if isinstance(x, Tracer)), None)
        if traced is not None:
            raise TypeError(
                "Cannot apply JAX transformations to a function lowered and compiled for a "
                f"particular signature. Detected argument of Tracer type {type(traced)}.\n"
                "  Transform the function before it is lowered."
            )
        expected = pytrees.tree_leaves(self.in_avals)
        found = [stated(x) for x in call.leaves]
        differing = [
            f"Argument '{name}' compiled with {aval.str_short()} and called with {got.str_short()}"
            for name, aval, got in zip(self.arg_names, expected, found, strict=True)
            if got != aval
            and (aval.is_high or got.is_high or got.shape != aval.shape or got.dtype != aval.dtype)
        ]
        if differing:
            raise TypeError(
                "Argument types differ from the types for which this computation was compiled. "
                "Perhaps you are calling the compiled executable with a different enable_x64 mode "
                "than when it was AOT compiled? The mismatches are:\n" + "\n".join(differing)
            )
        leaves = (*self.consts, *call.leaves)
        if self._low is None and not self._moves:
            self._check_places(call.leaves)
        if self._low is not None:
            outs = self._run(self._low.operands_of(leaves))
            return pytrees.tree_unflatten(self.out_tree, self._low.raised(outs, leaves)), None
        plain = self._on_arrays is None and not any(x.is_high for x in expected)
        given = self.donate_argnums
        if plain and given:
            donated = [i - len(self.consts) in given for i in range(len(leaves))]
            info = DebugInfo(self.program.name, self.arg_names)
            devices = len(self.program.placement.devices)
            plain = not donation.checked(self.program.kept, devices, donated, leaves, info)
        fast = fast_path(self.program, self.out_tree, leaves, len(self.consts)) if plain else None
        return pytrees.tree_unflatten(self.out_tree, self._run(leaves)), fast

    def _check_places(self, leaves: Sequence[Value]) -> None:
        """Check that committed arguments lie as the program takes them.

        Raises ValueError which lists those that do not.
        """
        taken = iter(self.program.in_shardings)
        wanted = [next(taken) if kept else None for kept in self.program.kept][len(self.consts) :]
        differing = [
            f"Argument {name} with shape {typeof(x).str_short()}:\n"
            f"  Passed sharding: {x._sharding}\n  Required sharding: {where}"
            for name, x, where in zip(self.arg_names, leaves, wanted, strict=True)
            if where is not None
            and isinstance(x, ArrayImpl)
            and x._committed
            and not lie_alike(x._sharding, where, x.ndim)
        ]
        if differing:
            raise ValueError(
                "Computation was compiled for input shardings that disagree with the shardings of "
                f"arguments passed to it. Here are the {len(differing)} mismatches:\n"
                + "\n".join(differing)
                + "\n  Move them with jax.device_put."
            )

    def _run(self, leaves: Sequence[Value]) -> Sequence[Any]:
        """The results on low values."""
        if self._on_arrays is None or not jit_references.takes_references(leaves):
            return execute(self.program, leaves)
        return self._on_arrays.write(leaves, execute(self.program, jit_references.arrays(leaves)))

    def call(self, *args: Value, **kwargs: object) -> Any:
        """As calling the object."""
        return self(*args, **kwargs)


def _other_tree(expected: PyTreeDef, found: PyTreeDef) -> str:
    """The error for a call with arguments of another tree."""
    listed = [
        f"    * at {_place(path)}, seen {a} but now given {b}, so {why}"
        for path, a, b, why in pytrees.equality_errors_pytreedef(expected, found)
    ]
    return (
        "Function compiled with input pytree does not match the input pytree it was called with. "
        f"There are {len(listed)} mismatches, including:\n" + "\n".join(listed)
    )


def _place(path: Any) -> str:
    text = pytrees.keystr(path)
    return f"args{text[3:]}" if text.startswith("[0]") else f"kwargs{text[3:]}"


@method
@tracebacks.api_boundary
def trace(
    jitted: object, fun: Callable[..., Any], options: JitOptions, *args: Value, **kwargs: object
) -> Traced:
    """Trace the function for arguments of these types: arrays, ShapeDtypeStructs, or anything with
    shape and dtype."""
    call = described(flatten_call(args, kwargs, options.static_argnums, options.static_argnames))
    staged = stage_call(fun, call, options)
    return Traced(staged, options, call)


@method
def lower(
    jitted: object,
    fun: Callable[..., object],
    options: JitOptions,
    *args: Value,
    **kwargs: object,
) -> Lowered:
    """Lower the function for arguments of these types, as of `trace`, to StableHLO."""
    lowered: Lowered = trace(jitted, fun, options, *args, **kwargs).lower()
    return lowered


@method
def eval_shape(
    jitted: object, fun: Callable[..., object], options: JitOptions, *args: object, **kwargs: object
) -> Any:
    """Shapes and dtypes of the results for arguments of these types, as of `trace`, and where `jit`
    was told to lay them."""
    return trace(jitted, fun, options, *args, **kwargs).out_info

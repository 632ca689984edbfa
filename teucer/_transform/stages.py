"""The stages of `jit`: traced, lowered, compiled; for looking at a program before it runs, and for running it ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from teucer._base import pytrees, tracebacks
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.trace import Tracer, typeof
from teucer._core.types import Aval
from teucer._transform import programs
from teucer._transform.calls import FlatCall, flatten_call
from teucer._transform.jit import JitOptions, Staged, jit, method, placement_for, stage_call
from teucer._transform.shapes import as_struct

__all__ = ["ArgInfo", "Compiled", "Lowered", "OutInfo", "Stage", "Traced", "Wrapped", "jit"]


class ArgInfo(NamedTuple):
    """What is known of one argument: its type, and whether it is donated."""

    aval: Aval
    donated: bool

    @property
    def shape(self) -> Any:
        return self.aval.shape  # type: ignore[attr-defined]

    @property
    def dtype(self) -> Any:
        return self.aval.dtype  # type: ignore[attr-defined]


class OutInfo(NamedTuple):
    """What is known of one result."""

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
        return pytrees.tree_structure(self.args_info, is_leaf=lambda x: isinstance(x, ArgInfo))

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as their tree."""
        return pytrees.tree_map(lambda a: a.aval, self.args_info, is_leaf=lambda x: isinstance(x, ArgInfo))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Positions, among the flat arguments, of those that are donated."""
        leaves = pytrees.tree_leaves(self.args_info, is_leaf=lambda x: isinstance(x, ArgInfo))
        return tuple(i for i, a in enumerate(leaves) if a.donated)


class Wrapped:
    """The protocol of jitted functions: callable, with `trace`, `lower`, `eval_shape`, `clear_cache`."""


class Traced(Stage):
    """A function traced for the types of its arguments. Made by `jit(f).trace(...)`."""

    def __init__(self, staged: Staged, options: JitOptions, call: FlatCall) -> None:
        self.staged, self._options, self.out_tree = staged, options, staged.out_tree
        self.fun_name = staged.debug_info.name
        n = len(staged.consts)
        infos = [ArgInfo(a, d) for a, d in zip(staged.jaxpr.in_avals[n:], staged.donated[n:], strict=True)]
        self.args_info = pytrees.tree_unflatten(call.tree, infos)
        self._placement = placement_for(staged, call, options)

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program."""
        jaxpr, n = self.staged.jaxpr.jaxpr, len(self.staged.consts)
        return ClosedJaxpr(jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:]), self.staged.consts)

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, as their tree."""
        return pytrees.tree_unflatten(self.out_tree, [as_struct(a) for a in self.staged.jaxpr.out_avals])

    @property
    def out_avals(self) -> Any:
        """Types of the results, as their tree."""
        return pytrees.tree_unflatten(self.out_tree, self.staged.jaxpr.out_avals)

    @tracebacks.api_boundary
    def lower(self, *, lowering_platforms: Sequence[str] | None = None, _private_parameters: Any = None) -> Lowered:
        """The program as StableHLO.

        lowering_platforms: one platform's name; by default that of the device on which the program will run.
        """
        platforms = tuple(lowering_platforms or (self._placement.device.platform,))
        if len(platforms) != 1:
            raise NotImplementedError(f"lower: one platform at a time, got {platforms}. Use jax.export for several.")
        return Lowered(self, self.lower_with(platforms[0]), self._placement, platforms[0])

    def lower_with(self, platform: str, *, locations: bool = False, prepared: bool = False) -> programs.Lowering:
        """The program's text for a platform; locations: with the places that operations come from; prepared: as it is compiled."""
        jaxpr = self.staged.jaxpr.jaxpr
        if prepared:
            jaxpr = programs.prepared(jaxpr, self._options.outline, self._placement, platform)
        return programs.lower_program(jaxpr, self.fun_name, self.staged.donated, self._options.keep_unused, platform,
                                      locations=locations, quiet=locations or prepared, placement=self._placement)


class Lowered(Stage):
    """A program as StableHLO. Made by `jit(f).lower(...)`."""

    def __init__(self, traced: Traced, lowering: programs.Lowering, placement: programs.Placement, platform: str) -> None:
        self.traced, self.lowering, self._placement, self.platform = traced, lowering, placement, platform
        self.args_info, self.out_tree = traced.args_info, traced.out_tree

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, as their tree."""
        return self.traced.out_info

    @tracebacks.api_boundary
    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """The program as machine code.

        compiler_options: XLA's debug options by name.
        """
        options = (*self.traced._options.compiler_options, *sorted((compiler_options or {}).items()))
        lowering = self.traced.lower_with(self.platform, prepared=True)
        program = programs.compile_program(lowering, self._placement, self.traced.staged.jaxpr.out_avals, self.traced.fun_name,
                                           options)
        return Compiled(self, program)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The program's text: dialect 'stablehlo' (the default) or 'hlo'.

        debug_info: with the names and places in the user's program that operations come from (StableHLO only).

        Raises ValueError for another dialect.
        """
        if dialect in (None, "stablehlo"):
            return self.traced.lower_with(self.platform, locations=True).text if debug_info else self.lowering.text
        if dialect == "hlo":
            text: str = self.compile().as_text()
            return text
        raise ValueError(f"Unknown dialect: {dialect!r}. Use 'stablehlo' or 'hlo'.")

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The program in the compiler's form: here its text."""
        return self.as_text(dialect)

    def cost_analysis(self) -> Any:
        """XLA's estimate of what the program costs, as a dictionary."""
        return self.compile().cost_analysis()


class Compiled(Stage):
    """An executable. Call it with arguments of the types that it was compiled for."""

    def __init__(self, lowered: Lowered, program: programs.Program) -> None:
        self.lowered, self.program = lowered, program
        self.args_info, self.out_tree = lowered.args_info, lowered.out_tree

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the results, as their tree."""
        return self.lowered.out_info

    @property
    def out_avals(self) -> Any:
        """Types of the results."""
        return self.lowered.traced.staged.jaxpr.out_avals

    def as_text(self) -> str:
        """The optimised program as HLO text."""
        return "\n".join(m.to_string() for m in self.program.executable.hlo_modules())

    def cost_analysis(self) -> Any:
        """XLA's estimate of what the program costs, as a dictionary."""
        return self.program.executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of code, arguments, results and temporaries."""
        return self.program.executable.get_compiled_memory_stats()

    def runtime_executable(self) -> Any:
        """The executable of the runtime."""
        return self.program.executable

    @property
    def input_shardings(self) -> Any:
        """Where the arguments must be: (of positional, of keyword arguments)."""
        taken = iter(self.program.in_shardings)
        every = [next(taken) if kept else None for kept in self.program.kept]
        return pytrees.tree_unflatten(self.in_tree, every[len(self.lowered.traced.staged.consts):])

    @property
    def output_shardings(self) -> Any:
        """Where the results are."""
        return pytrees.tree_unflatten(self.out_tree, self.program.out_shardings)

    @tracebacks.api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = flatten_call(args, kwargs)
        expected = pytrees.tree_leaves(self.args_info, is_leaf=lambda x: isinstance(x, ArgInfo))
        if call.tree != self.in_tree:
            raise TypeError(f"Function compiled with input pytree does not match the input pytree it was called with.\n"
                            f"    compiled: {self.in_tree}\n    called: {call.tree}")
        for i, (x, info) in enumerate(zip(call.leaves, expected, strict=True)):
            got = typeof(x)
            if got.shape != info.shape or got.dtype != info.dtype:
                path = pytrees.keystr(list(pytrees.leaf_paths(call.tree))[i])
                raise TypeError("Argument types differ from the types for which this computation was compiled. The mismatches "
                                f"are:\n    argument {path}: compiled with {info.aval.str_short()}, called with "
                                f"{got.str_short()}")
        staged = self.lowered.traced.staged
        leaves = (*staged.consts, *call.leaves)
        if any(isinstance(x, Tracer) for x in leaves):
            raise TypeError("Cannot apply JAX transformations to a function lowered and compiled for a particular signature. "
                            "Detected argument of Tracer type.\n  Transform the function before it is lowered.")
        return pytrees.tree_unflatten(self.out_tree, programs.execute(self.program, leaves))



@method
@tracebacks.api_boundary
def trace(jitted: Any, fun: Any, options: JitOptions, *args: Any, **kwargs: Any) -> Traced:
    """Trace the function for arguments of these types (arrays or ShapeDtypeStructs)."""
    call = flatten_call(args, kwargs, options.static_argnums, options.static_argnames)
    staged = stage_call(fun, call, options)
    return Traced(staged, options, call)


@method
def lower(jitted: Any, fun: Any, options: JitOptions, *args: Any, **kwargs: Any) -> Lowered:
    """Lower the function for arguments of these types (arrays or ShapeDtypeStructs) to StableHLO."""
    lowered: Lowered = trace(jitted, fun, options, *args, **kwargs).lower()
    return lowered


@method
def eval_shape(jitted: Any, fun: Any, options: JitOptions, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of the results for arguments of these types."""
    return trace(jitted, fun, options, *args, **kwargs).out_info

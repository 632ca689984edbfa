"""Modules of MLIR as objects.

For programs with host callbacks, which the compiler takes as objects only; for reading; for export.

What is kept outside the process is StableHLO's portable artifact: bytecode that later versions of
StableHLO read.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, final

from jaxlib import _jax
from jaxlib._hlo import HloPrintOptions
from jaxlib.mlir import ir as ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy
from jaxlib.mlir.dialects import func as func
from jaxlib.mlir.dialects import stablehlo as stablehlo

# The dialects of MLIR itself that jaxlib brings.
upstream_dialects = ir.DialectRegistry()
_jax_mlir_ext.register_dialects(upstream_dialects)


@final
class JaxIrContext(ir.Context):
    """A context of MLIR; `load` gives it the dialects that programs are written in."""

    def load(self) -> None:
        """Give it MLIR's dialects, StableHLO's and Shardy's."""
        self.append_dialect_registry(upstream_dialects)
        self.load_all_available_dialects()
        for dialect in (stablehlo, chlo, sdy):
            dialect.register_dialect(self)


def _context() -> JaxIrContext:
    context = JaxIrContext()
    context.load()
    return context


def parse(text: str | bytes) -> Any:
    """The module that a text, or bytecode, says."""
    with _context():
        return ir.Module.parse(text)


def readable(text: str, results: Sequence[str] = ()) -> Any:
    """The module of a text, with annotations for readers (`annotate`)."""
    module = parse(text)
    annotate(module, results)
    return module


def annotate(module: Any, results: Sequence[str], *, polymorphic: bool | None = None) -> None:
    """Annotate a module with the number of its devices, and with names of the main function's
    results, if `results` has them.

    polymorphic: whether it takes sizes, or the number of a platform, beside its arguments; None
    where it does not matter.
    """
    with module.context:
        if polymorphic is not None:
            flag = ir.BoolAttr.get(polymorphic)
            module.operation.attributes["jax.uses_shape_polymorphism"] = flag
        number = ir.IntegerType.get_signless(32)
        for attribute in ("mhlo.num_partitions", "mhlo.num_replicas"):
            if attribute not in module.operation.attributes:
                module.operation.attributes[attribute] = ir.IntegerAttr.get(number, 1)
        main = _function(module, "main")
        if results:
            said = (
                main.attributes["res_attrs"]
                if "res_attrs" in main.attributes
                else [{}] * len(results)
            )
            main.attributes["res_attrs"] = ir.ArrayAttr.get(
                [
                    ir.DictAttr.get(
                        {
                            **{item.name: item.attr for item in attrs},
                            "jax.result_info": ir.StringAttr.get(name),
                        }
                    )
                    for attrs, name in zip(said, results, strict=True)
                ]
            )


def pretty(module: Any, *, locations: bool = False) -> str:
    """A module's text in the notation of its dialects, as people read it.

    locations: whether to say where operations come from.
    """
    if not locations:
        return str(module)
    shown: str = module.operation.get_asm(enable_debug_info=True)
    # Operations without a line in the user's program have their line in the text that was read.
    return re.sub(r'loc\("-":\d+:\d+\)', "loc(unknown)", shown)


def portable(text: str) -> bytes:
    """A module as StableHLO's portable artifact, of the oldest version that has all operations
    written here."""
    module = parse(text)
    with module.context:
        target = stablehlo.get_version_from_compatibility_requirement(
            stablehlo.StablehloCompatibilityRequirement.WEEK_4
        )
    artifact: bytes = _jax.mlir.serialize_portable_artifact(module, target, True)
    return artifact


def oldest(artifact: bytes) -> bytes:
    """An artifact in the oldest of some versions of StableHLO that have all of it, for readers that
    are behind."""
    module = read_portable(artifact)
    for version in ("0.9.0", "1.0.0", "1.4.0", "1.8.0"):
        with contextlib.suppress(ValueError, _jax.JaxRuntimeError):
            found: bytes = _jax.mlir.serialize_portable_artifact(module, version, True)
            return found
    return artifact


def read_portable(artifact: bytes) -> Any:
    """The module of a portable artifact. Raises ValueError if it is not one."""
    try:
        return _jax.mlir.deserialize_portable_artifact(artifact, _context())
    except Exception as err:
        raise ValueError(
            "the bytes are not a StableHLO artifact that this version of jaxlib reads."
        ) from err


def custom_call_targets(module: Any) -> dict[str, str]:
    """The foreign functions that a module calls, with a place where it does."""
    found: dict[str, str] = {}
    for op in _operations(module.operation):
        if op.name == "stablehlo.custom_call":
            found.setdefault(
                ir.StringAttr(op.attributes["call_target_name"]).value, str(op.location)
            )
    return found


def functions(artifact: bytes, prefix: str) -> tuple[str, tuple[Any, ...]]:
    """The functions of an artifact as private functions: text to be put into a module, with
    `prefix` before their names.

    Its meshes are left out, and spoken of as `mesh_of(prefix, i)`; returned are their axes, pairs
    of a name and a size.
    """
    module = read_portable(artifact)
    meshes: list[Any] = []
    with module.context:
        for op in list(module.body.operations):
            name = ir.StringAttr(op.attributes["sym_name"]).value
            if op.operation.name == "sdy.mesh":
                ir.SymbolTable.replace_all_symbol_uses(
                    name, mesh_of(prefix, len(meshes)), module.operation
                )
                axes = map(sdy.MeshAxisAttr, sdy.MeshAttr(op.attributes["mesh"]).axes)
                meshes.append(tuple((axis.name, axis.size) for axis in axes))
                op.operation.erase()
                continue
            ir.SymbolTable.replace_all_symbol_uses(name, prefix + name, module.operation)
            ir.SymbolTable.set_symbol_name(op, prefix + name)
            ir.SymbolTable.set_visibility(op, "private")
        shown = "\n".join(
            op.get_asm(print_generic_op_form=True, use_local_scope=True)
            for op in module.body.operations
        )
    return shown, tuple(meshes)


def mesh_of(prefix: str, i: int) -> str:
    """The name that `functions` gives a mesh of the artifact."""
    return f"{prefix}mesh.{i}."


def xla_computation(text: str) -> Any:
    """A module as XLA's own form, HLO."""
    return _jax.mlir.mlir_module_to_xla_computation(text)


def hlo_text(computation: Any, *, locations: bool) -> str:
    """An XLA computation as text; locations: with the names and places that operations come
    from."""
    options = HloPrintOptions.short_parsable()
    options.print_metadata, options.print_large_constants = locations, False
    shown: str = computation.get_hlo_module().to_string(options)
    return shown


def _function(module: Any, name: str) -> Any:
    return next(
        op for op in module.body.operations if isinstance(op, func.FuncOp) and op.name.value == name
    )


def _operations(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from _operations(inner.operation)

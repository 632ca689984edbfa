"""`teucer export FILE:FUNCTION --args TYPES`.

A function as StableHLO or HLO, for programs in other languages.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import teucer as jax
from teucer import export as _export
from teucer._xla import mlir
from teucer.cli._arguments import read_call
from teucer.cli._errors import CommandError


def export(
    target: str,
    types: str,
    output: Path | None,
    form: str,
    platforms: Sequence[str] | None,
    constraints: Sequence[str],
    mesh: str | None = None,
) -> int:
    """Write target, FILE:FUNCTION, on arguments of the given types, such as 'f32[batch,4],i32[]'.

    form: stablehlo (text), hlo (a serialized HloModuleProto), hlo-text, artifact (StableHLO's
    portable artifact), or exported (for `export.deserialize`). output: a file; None prints
    text.
    Raises CommandError if it cannot be read, exported, or printed.
    """
    scope = _export.SymbolicScope(constraints)
    function, args, kwargs = read_call(target, types, scope=scope, mesh=mesh)
    jitted = function if hasattr(function, "lower") else jax.jit(function)
    try:
        exported = _export.export(jitted, platforms=platforms)(*args, **kwargs)
        data = _written(exported, form)
    except (
        ValueError,
        TypeError,
        NotImplementedError,
        jax.errors.InconclusiveDimensionOperation,
    ) as err:
        raise CommandError(f"{target} cannot be exported.\n{err}") from err
    if output is not None:
        try:
            output.write_bytes(data)
        except OSError as err:
            raise CommandError(f"{output} cannot be written: {err.strerror}.") from err
    elif form in ("stablehlo", "hlo-text"):
        sys.stdout.write(data.decode())
    else:
        raise CommandError(f"form {form} is binary: say where it goes, -o FILE.")
    return 0


def _written(exported: _export.Exported, form: str) -> bytes:
    if form == "exported":
        return bytes(exported.serialize())
    if form == "artifact":
        return exported.mlir_module_serialized
    if form == "stablehlo":
        return exported.mlir_module().encode()
    if exported.uses_global_constants:
        raise ValueError(
            "HLO has no symbolic sizes, and is for one platform. Give sizes that are numbers, or "
            "the form stablehlo."
        )
    computation = mlir.xla_computation(exported.mlir_module())
    return (
        computation.as_serialized_hlo_module_proto()
        if form == "hlo"
        else computation.as_hlo_text().encode()
    )

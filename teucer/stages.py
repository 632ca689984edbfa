"""The stages of `jit`: traced, lowered, compiled."""

from typing import TypeAlias

from teucer._derived.stages import ArgInfo, Compiled, Lowered, OutInfo, Stage, Traced, Wrapped

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "OutInfo", "Stage", "Traced", "Wrapped"]

CompilerOptions: TypeAlias = dict[str, str | bool]

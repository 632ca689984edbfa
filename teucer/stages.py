"""The stages of `jit`: traced, lowered, compiled."""

from teucer._derived.stages import ArgInfo, Compiled, Lowered, OutInfo, Stage, Traced, Wrapped
from teucer._xla.client import CompileOptions as CompilerOptions

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "OutInfo", "Stage", "Traced", "Wrapped"]

"""The stages of `jit`: traced, lowered, compiled."""

from typing import TypeAlias

from teucer._base.lazy import listing
from teucer._derived.stages import ArgInfo, Compiled, Lowered, OutInfo, Stage, Traced, Wrapped

__all__ = [
    "ArgInfo", "Compiled", "CompilerOptions", "Lowered", "OutInfo", "Stage", "Traced", "Wrapped",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

CompilerOptions: TypeAlias = dict[str, str | bool]

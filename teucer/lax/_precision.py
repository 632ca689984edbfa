"""How precisely products are computed.

`Precision`, `DotAlgorithm`, `DotAlgorithmPreset`, and their canonical forms.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import config, dtypes, element_types
from teucer._lower.text import element_type

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike

__all__ = ["DotAlgorithm", "DotAlgorithmPreset", "Precision", "PrecisionLike"]

bfloat16 = dtypes.bfloat16


class Precision(enum.Enum):
    """How many bits of the operands a matrix product or convolution uses, where the hardware leaves
    a choice.

    DEFAULT is the fastest, HIGH is three passes of bfloat16 or TF32, HIGHEST is the operands' own
    type. On CPU all are HIGHEST.
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        """The precision that a word, or None, names: `Precision("float32")`."""
        if value is None:
            return cls.DEFAULT
        return _NAMES.get(value) if isinstance(value, str) else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


class DotAlgorithm(NamedTuple):
    """The arithmetic of a matrix product, in the terms of StableHLO's dot_general.

    The operands are rounded to their precision types, as sums of so many components each; products
    accumulate in accumulation_type.
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


_F8 = tuple(
    element_types.as_dtype(f"float8_{suffix}").type
    for suffix in ("e4m3fn", "e5m2", "e5m2fnuz", "e4m3fnuz", "e4m3b11fnuz")
)
_F32_OR_BF16 = (bfloat16, np.float32)


class _Preset(NamedTuple):
    """The dtypes and arithmetic of a preset.

    storage: the dtypes of operands, outputs: the dtypes of results, that need no conversion; None
    for any.
    follows_operands: its precision types are the operands' own, for any 8-bit floats.
    """

    algorithm: DotAlgorithm | None
    storage: tuple[Any, ...] | None
    outputs: tuple[Any, ...] | None
    platforms: tuple[str, ...]
    follows_operands: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Named algorithms for matrix products: types of lhs, rhs and accumulator, and the number of
    passes.

    >>> DotAlgorithmPreset.BF16_BF16_F32.accumulation_type is np.float32
    True
    """

    DEFAULT = 1
    ANY_F8_ANY_F8_F32 = 2
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 3
    ANY_F8_ANY_F8_ANY = 4
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 5
    F16_F16_F16 = 6
    F16_F16_F32 = 7
    BF16_BF16_BF16 = 8
    BF16_BF16_F32 = 9
    BF16_BF16_F32_X3 = 10
    BF16_BF16_F32_X6 = 11
    BF16_BF16_F32_X9 = 12
    TF32_TF32_F32 = 13
    TF32_TF32_F32_X3 = 14
    F32_F32_F32 = 15
    F64_F64_F64 = 16

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def supported_lhs_types(self) -> tuple[Any, ...] | None:
        """dtypes of lhs that the algorithm takes without conversion; None if it takes any."""
        return _PRESETS[self].storage

    @property
    def supported_rhs_types(self) -> tuple[Any, ...] | None:
        """dtypes of rhs that the algorithm takes without conversion; None if it takes any."""
        return _PRESETS[self].storage

    @property
    def accumulation_type(self) -> Any:
        """dtype in which products are summed; None if it follows the operands."""
        algorithm = _PRESETS[self].algorithm
        return None if algorithm is None else algorithm.accumulation_type

    def supported_output_types(self, lhs_dtype: Any, rhs_dtype: Any) -> tuple[Any, ...] | None:
        """dtypes in which the product of the given dtypes can be returned without conversion; None
        for any."""
        if self is DotAlgorithmPreset.BF16_BF16_F32:
            both = {np.dtype(lhs_dtype), np.dtype(rhs_dtype)}
            return (np.float32, bfloat16) if both == {np.dtype(bfloat16)} else (np.float32,)
        return _PRESETS[self].outputs


def _presets() -> dict[DotAlgorithmPreset, _Preset]:
    f16, f32, f64, tf32 = np.float16, np.float32, np.float64, "tf32"
    gpu = ("cuda", "rocm")
    everywhere = ("cpu", "tpu", *gpu)
    f8_out = (f32, f16, bfloat16, *_F8)

    def row(
        operand: object, accumulator: Any, storage: Any, platforms: Any, passes: int = 1
    ) -> _Preset:
        algorithm = DotAlgorithm(operand, operand, accumulator, num_primitive_operations=passes)
        return _Preset(algorithm, storage, (accumulator,), platforms)

    def f8(accumulator: object, fast: bool) -> _Preset:
        algorithm = DotAlgorithm(None, None, accumulator, allow_imprecise_accumulation=fast)
        return _Preset(algorithm, None, f8_out if accumulator else None, gpu, follows_operands=True)

    p = DotAlgorithmPreset
    return {
        p.DEFAULT: _Preset(None, None, None, everywhere),
        p.ANY_F8_ANY_F8_F32: f8(f32, False),
        p.ANY_F8_ANY_F8_F32_FAST_ACCUM: f8(f32, True),
        p.ANY_F8_ANY_F8_ANY: f8(None, False),
        p.ANY_F8_ANY_F8_ANY_FAST_ACCUM: f8(None, True),
        p.F16_F16_F16: row(f16, f16, (f16,), everywhere),
        p.F16_F16_F32: row(f16, f32, (f16,), gpu),
        p.BF16_BF16_BF16: row(bfloat16, bfloat16, _F32_OR_BF16, ("tpu", *gpu)),
        p.BF16_BF16_F32: row(bfloat16, f32, _F32_OR_BF16, everywhere),
        p.BF16_BF16_F32_X3: row(bfloat16, f32, (f32,), everywhere, 3),
        p.BF16_BF16_F32_X6: row(bfloat16, f32, (f32,), everywhere, 6),
        p.BF16_BF16_F32_X9: row(bfloat16, f32, (f32,), ("tpu", *gpu), 9),
        p.TF32_TF32_F32: row(tf32, f32, (f32,), gpu),
        p.TF32_TF32_F32_X3: row(tf32, f32, (f32,), gpu, 3),
        p.F32_F32_F32: row(f32, f32, (f32,), everywhere),
        p.F64_F64_F64: row(f64, f64, (f64,), everywhere),
    }


_PRESETS = _presets()

PrecisionLike = (
    None
    | str
    | Precision
    | tuple[str, str]
    | tuple[Precision, Precision]
    | DotAlgorithm
    | DotAlgorithmPreset
)

_NAMES = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
}


def canonical_precision(precision: object) -> Any:
    """`precision` of a public function as the parameter of its primitive: None, a pair of
    `Precision`, or an algorithm.

    None means the option jax_default_matmul_precision.
    Raises ValueError for anything else.
    """
    if precision is None:
        precision = config.default_matmul_precision.value
        if precision is None:
            return None
    if isinstance(precision, Precision):
        return precision, precision
    if isinstance(precision, DotAlgorithm | DotAlgorithmPreset):
        return precision
    if isinstance(precision, str):
        if precision in _NAMES:
            return _NAMES[precision], _NAMES[precision]
        if precision in DotAlgorithmPreset.__members__:
            return DotAlgorithmPreset[precision]
    if isinstance(precision, list | tuple) and len(precision) == 2:
        pair = tuple(_NAMES.get(p, p) if isinstance(p, str) else p for p in precision)
        if all(isinstance(p, Precision) for p in pair):
            return pair
    raise ValueError(
        f"Precision argument must be one of:\n- None,\n- a string in {[*_NAMES, None]},\n"
        "- a lax.Precision value,\n- a tuple of two lax.Precision values or strings,\n"
        "- a lax.DotAlgorithmPreset or the name of one of these presets, or\n"
        f"- a lax.DotAlgorithm value;\nbut got {precision}."
    )


def precision_text(precision: object) -> str:
    """The attribute precision_config for a canonical precision."""
    pair = precision if type(precision) is tuple else (Precision.DEFAULT, Precision.DEFAULT)
    return f"precision_config = [{', '.join(f'#stablehlo<precision {p.name}>' for p in pair)}]"


def algorithm_of(
    precision: object, lhs_dtype: object, rhs_dtype: object, platform: str
) -> DotAlgorithm | None:
    """The algorithm that a canonical precision asks for.

    Raises ValueError if the platform lacks it.
    """
    if isinstance(precision, DotAlgorithm):
        return precision
    if not isinstance(precision, DotAlgorithmPreset):
        return None
    row = _PRESETS[precision]
    if platform not in row.platforms:
        able = [p.name for p, other in _PRESETS.items() if platform in other.platforms]
        raise ValueError(
            f"The precision '{precision.name}' is not supported by dot_general on "
            f"{platform.upper()}\n  Supported there: {', '.join(able)}."
        )
    algorithm = row.algorithm
    if algorithm is not None and row.follows_operands:
        algorithm = algorithm._replace(
            lhs_precision_type=lhs_dtype,
            rhs_precision_type=rhs_dtype,
            accumulation_type=algorithm.accumulation_type or np.float32,
        )
    return algorithm


def storage_of(
    precision: Any, lhs_dtype: object, rhs_dtype: object, out_dtype: DTypeLike
) -> tuple[Any, Any, Any]:
    """The dtypes in which the operands and the result of a dot_general with an algorithm are
    held."""
    if isinstance(precision, DotAlgorithm):
        return tuple(np.dtype(t) for t in precision[:3])
    storage = _PRESETS[precision].storage
    lhs, rhs = (
        d if storage is None or d in storage else np.dtype(storage[0])
        for d in (lhs_dtype, rhs_dtype)
    )
    outputs = precision.supported_output_types(lhs, rhs)
    return lhs, rhs, out_dtype if outputs is None or out_dtype in outputs else np.dtype(outputs[0])


def algorithm_text(precision: object, lhs_dtype: object, rhs_dtype: object, platform: str) -> str:
    """The attribute algorithm for a canonical precision, or '' for none."""
    algorithm = algorithm_of(precision, lhs_dtype, rhs_dtype, platform)
    if algorithm is None:
        return ""
    lhs, rhs, accumulator = (t if t == "tf32" else element_type(np.dtype(t)) for t in algorithm[:3])
    return (
        f", algorithm = #stablehlo.dot_algorithm<lhs_precision_type = {lhs}, rhs_precision_type = "
        f"{rhs}, accumulation_type = {accumulator}, lhs_component_count = "
        f"{algorithm.lhs_component_count}, rhs_component_count = {algorithm.rhs_component_count}, "
        f"num_primitive_operations = {algorithm.num_primitive_operations}, "
        f"allow_imprecise_accumulation = {str(algorithm.allow_imprecise_accumulation).lower()}>"
    )

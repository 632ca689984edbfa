"""Promotion.

The dtype in which operands of different dtypes meet, a least upper bound in a small lattice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from teucer._base import config
from teucer._base import element_types as dt
from teucer._base.errors import TypePromotionError
from teucer._base.short_names import short_name

# Each line: a dtype, and the dtypes directly above it in the lattice. int*, float*, complex* are
# Python scalars and other weakly typed operands. A dtype without a line has nothing above it.
_ABOVE = """
bool        int*
int*        int1 int2 int4 int8 uint1 uint2 uint4 uint8
int8        int16
int16       int32
int32       int64
int64       float*
uint8       int16 uint16
uint16      int32 uint32
uint32      int64 uint64
uint64      float*
float*      float4_e2m1fn float6_e2m3fn float6_e3m2fn
float*      float8_e3m4 float8_e4m3 float8_e8m0fnu float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz
float*      float8_e5m2 float8_e5m2fnuz bfloat16 float16 complex*
bfloat16    float32
float16     float32
float32     float64 complex64
float64     complex128
complex*    complex64
complex64   complex128
"""
Node = Any
"""What an operand is to promotion: its dtype, or int, float, complex where it is weakly typed."""

_WEAK = {"int*": int, "float*": float, "complex*": complex}


def _node(name: str) -> Node:
    return _WEAK.get(name) or dt.as_dtype(name)


def _upper_sets(above: dict[Node, list[Node]]) -> dict[Node, frozenset[Node]]:
    """For each node the set of all nodes that are not below it, itself included."""
    sets: dict[Node, frozenset[Node]] = {}

    def visit(node: Node) -> frozenset[Node]:
        if node not in sets:
            sets[node] = frozenset({node}).union(*(visit(n) for n in above.get(node, ())))
        return sets[node]

    for node in (*dt.ALL, int, float, complex):
        visit(node)
    return sets


def _standard() -> dict[Node, list[Node]]:
    above: dict[Node, list[Node]] = {}
    for line in _ABOVE.strip().splitlines():
        low, *highs = map(_node, line.split())
        above.setdefault(low, []).extend(highs)
    return above


# Under strict promotion only weakly typed operands yield, and only upwards: int, float, complex.
_STRICT: dict[Node, list[Node]] = {
    int: [*dt.INTEGERS, float],
    float: [*dt.FLOATS, complex],
    complex: [*dt.COMPLEX],
}
_UPPER = {"standard": _upper_sets(_standard()), "strict": _upper_sets(_STRICT)}
_SETTINGS = [(x64, mode) for x64 in (False, True) for mode in ("standard", "strict")]
_results: dict[tuple[bool, str], dict[tuple[Node, ...], tuple[Any, bool]]] = {
    setting: {} for setting in _SETTINGS
}
_types: dict[tuple[bool, str], dict[tuple[Any, Any], Any]] = {setting: {} for setting in _SETTINGS}


def promote_nodes(nodes: tuple[Node, ...]) -> tuple[dt.DType, bool]:
    """(dtype, weak_type) of operands that are given as nodes (a dtype; int, float or complex where
    it is weak)."""
    results = _results[config.enable_x64.value, config.numpy_dtype_promotion.value]
    try:
        return results[nodes]
    except KeyError:
        result = results[nodes] = _promote(nodes)
        return result


def promote_types(a: Any, b: Any) -> dt.DType:
    """The dtype in which two dtypes meet; int, float and complex are weakly typed.

    Operands may be 64-bit dtypes even if x64 is off; so may then the result.

    >>> promote_types("int8", "uint8"), promote_types("float16", float)
    (dtype('int16'), dtype('float16'))
    """
    known = _types[config.enable_x64.value, config.numpy_dtype_promotion.value]
    try:
        return known[a, b]
    except (KeyError, TypeError):
        pass
    nodes = tuple(
        x if isinstance(x, type) and x in _WEAK.values() else dt.as_dtype(x) for x in (a, b)
    )
    node = _join(nodes)
    result = dt.python_scalar_dtypes[node] if isinstance(node, type) else _narrow(node, nodes)
    with contextlib.suppress(TypeError):  # unhashable, such as a dtype given as a list of fields
        known[a, b] = result
    return result


def _promote(nodes: tuple[Node, ...]) -> tuple[dt.DType, bool]:
    if not nodes:
        raise ValueError("result_type: at least one array or dtype is required.")
    node = _join(nodes)
    if isinstance(node, type):
        return dt.canonicalize_dtype(node), True
    return _narrow(node, nodes), False


def _narrow(dtype: dt.DType, nodes: Sequence[Node]) -> dt.DType:
    """The canonical form of a result, unless an operand is itself wider than x64 allows
    (`explicit_x64_dtypes`)."""
    if any(
        not isinstance(n, type) and dt.canonicalize_dtype(n, allow_extended_dtype=True) != n
        for n in nodes
    ):
        return dtype
    return dt.canonicalize_dtype(dtype, allow_extended_dtype=True)


def _join(nodes: Sequence[Node]) -> Node:
    """The least upper bound of the nodes in the lattice."""
    mode = config.numpy_dtype_promotion.value
    if len(set(nodes)) == 1:  # A set, because np.dtype("int64") == int; their hashes differ.
        return nodes[0]
    upper = _UPPER[mode]
    if any(node not in upper for node in nodes):
        raise _no_promotion(nodes, mode)
    common = frozenset.intersection(*(upper[node] for node in nodes))
    least = [node for node in common if upper[node] == common]
    if not least:
        raise _no_promotion(nodes, mode)
    return least[0]


def _no_promotion(nodes: Sequence[Node], mode: str) -> Exception:
    names = ", ".join(
        f"Python {n.__name__}" if isinstance(n, type) else str(n) for n in dict.fromkeys(nodes)
    )
    strong = [n for n in nodes if not isinstance(n, type)]
    alien = next((n for n in strong if n not in _UPPER["standard"]), None)
    if alien is not None:
        return TypePromotionError(
            f"result_type: {short_name(alien)} is not a valid dtype for type promotion.\n"
            f"    dtypes: {names}"
        )
    text = f"Input dtypes ({names}) have no available implicit dtype promotion path"
    if mode == "strict":
        return TypePromotionError(
            f"{text} when jax_numpy_dtype_promotion=strict.\n"
            "  Cast the inputs explicitly, with x.astype(...), or set "
            "jax_numpy_dtype_promotion=standard."
        )
    if any(n in dt.FLOATS and dt.bit_width(n) <= 8 for n in strong):
        why, target = (
            f"{min(dt.bit_width(n) for n in strong if n in dt.FLOATS)}-bit floats",
            "float32",
        )
    else:
        why, target = "1-bit, 2-bit and 4-bit integers", "int32"
    return TypePromotionError(
        f"{text}.\n  {why} do not support implicit promotion: cast explicitly, e.g. "
        f"x.astype('{target}')."
    )

"""Laws of values.

As the reference says; the same under jit, by the jaxpr, and from strided operands; of the types
said.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from optable.compare import assert_ulp
from optable.table import Op, all_ops, numpy_dtype, precision_of
from optable.trees import flat_call, strided, widened

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._core.jaxpr import eval_jaxpr
from teucer._derived.staging import eval_shape, make_jaxpr
from teucer._optimize.checker import check_jaxpr
from teucer._transform.jit import jit
from teucer._trees.pytrees import tree_leaves


def cases() -> list[Any]:
    return [
        pytest.param(op, dtype, id=f"{op}-{dtype}", marks=op.marks(quick=dtype in op.quick_dtypes))
        for op in all_ops().values()
        for dtype in op.dtypes
    ]


each_case = pytest.mark.parametrize(("op", "dtype"), cases())


@functools.cache
def evaluated(op_name: str, dtype: str) -> list[list[Any]]:
    """The results of each call, computed eagerly."""
    op = all_ops()[op_name]
    return [tree_leaves(op(*call.args, **call.kwargs)) for call in op.calls(dtype)]


def check(op: Op, dtype: str, i: int, got: Any, expected: Any, what: str) -> None:
    ulp = op.ulp_of.get(dtype, op.ulp)
    for j, (y, z) in enumerate(zip(got, expected, strict=True)):
        assert_ulp(y, z, ulp, f"{op} of {dtype}, call {i}, result {j}, {what}", each=op.elementwise)


@each_case
def test_value_is_reference(op: Op, dtype: str) -> None:
    """The operation gives what NumPy's, SciPy's or mpmath's does in higher precision."""
    with precision_of(dtype):
        found = evaluated(op.name, dtype)
        if op.reference is None:
            assert "value" in op.exceptions, (
                f"{op} has neither a reference nor a reason for having none"
            )
            return
        for i, (call, ys) in enumerate(zip(op.calls(dtype), found, strict=True)):
            with np.errstate(all="ignore"):
                expected = op.reference(*(widened(a, op.widen) for a in call.args), **call.kwargs)
            expected = list(expected) if isinstance(expected, tuple | list) else [expected]
            check(op, dtype, i, ys, expected, "against the reference")


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        pytest.param(op, op.vmap_dtype, id=f"{op}-{op.vmap_dtype}", marks=op.marks())
        for op in all_ops().values()
    ],
)
def test_each_result_alone(op: Op, dtype: str) -> None:
    """A result is the same where the others are not asked for."""
    with precision_of(dtype):
        call = op.calls(dtype)[0]
        leaves, f = flat_call(op, call)
        results = evaluated(op.name, dtype)[0]
        for j in range(len(results) if len(results) > 1 else 0):
            alone = jit(lambda *xs, j=j: f(*xs)[j])(*leaves)
            check(op, dtype, 0, [alone], [results[j]], f"result {j} alone")


@each_case
def test_jit_is_eager(op: Op, dtype: str) -> None:
    """Compiled together, interpreted from its jaxpr, or run eagerly, the operation gives the
    same."""
    with precision_of(dtype):
        flat = [flat_call(op, call) for call in op.calls(dtype)]
        jaxprs = [make_jaxpr(f)(*leaves) for leaves, f in flat]

        @jit
        def together(leaves: Any) -> Any:
            return [
                (f(*xs), eval_jaxpr(closed.jaxpr, closed.consts, *xs))
                for (_, f), closed, xs in zip(flat, jaxprs, leaves, strict=True)
            ]

        results = together([leaves for leaves, _ in flat])
        for i, (ys, (compiled, interpreted)) in enumerate(
            zip(evaluated(op.name, dtype), results, strict=True)
        ):
            check(op, dtype, i, compiled, ys, "jit against eager")
            check(op, dtype, i, interpreted, ys, "eval_jaxpr against eager")


@each_case
def test_strides_do_not_matter(op: Op, dtype: str) -> None:
    """Operands that are not contiguous are read by their elements."""
    with precision_of(dtype):
        for i, (call, ys) in enumerate(
            zip(op.calls(dtype), evaluated(op.name, dtype), strict=True)
        ):
            leaves, f = flat_call(op, call)
            check(op, dtype, i, f(*map(strided, leaves)), ys, "strided operands")


@each_case
def test_types_are_those_of_values(op: Op, dtype: str) -> None:
    """eval_shape, the jaxpr and the evaluated arrays agree on shape, dtype and weak type, and the
    jaxpr is well formed."""
    with precision_of(dtype):
        for i, (call, ys) in enumerate(
            zip(op.calls(dtype), evaluated(op.name, dtype), strict=True)
        ):
            leaves, f = flat_call(op, call)
            closed = make_jaxpr(f)(*leaves)
            check_jaxpr(closed.jaxpr)
            shapes = eval_shape(f, *leaves)
            for y, aval, struct in zip(ys, closed.out_avals, shapes, strict=True):
                said, found = (aval.shape, aval.dtype), (np.shape(y), y.dtype)
                assert said == found, (
                    f"{op} of {dtype}, call {i}: the jaxpr says {said}, the value is {found}"
                )
                assert (struct.shape, struct.dtype) == said
                assert np.asarray(y).shape == aval.shape
                assert y.aval.weak_type == aval.weak_type == struct.weak_type, (
                    f"{op} of {dtype}, call {i}: weak type"
                )
                assert not aval.weak_type or not leaves, (
                    f"{op} of {dtype}, call {i}: weak result of strong operands"
                )


def weakly_typed(op: Op) -> str | None:
    """The first dtype in which all operands of an operation may be weak."""
    for dtype in ("float32", "int32", "complex64"):
        if dtype in op.dtypes and all(
            np.asarray(x).dtype == numpy_dtype(dtype) for x in flat_call(op, op.calls(dtype)[0])[0]
        ):
            return dtype
    return None


@pytest.mark.parametrize(
    "op", [op for op in all_ops().values() if op.elementwise and weakly_typed(op)], ids=str
)
def test_weak_types(op: Op) -> None:
    """An elementwise result is weak if all operands are, booleans too; one strong operand makes it
    strong."""
    dtype = weakly_typed(op)
    leaves, f = flat_call(op, op.calls(dtype)[0])
    for strong in (None, *(range(len(leaves)) if len(leaves) > 1 else ())):
        operands = [
            ShapeDtypeStruct(np.shape(x), dtype, weak_type=i != strong)
            for i, x in enumerate(leaves)
        ]
        for aval in make_jaxpr(f)(*operands).out_avals:
            assert aval.weak_type == (strong is None), (
                f"{op} with strong operand {strong}: {aval!r}"
            )


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, id=str(op), marks=op.marks(quick=i % 10 == 0))
        for i, op in enumerate(all_ops().values())
    ],
)
def test_the_text_is_that_of_the_module(op: Op) -> None:
    """`as_text()` is `str(compiler_ir())`, which is lowered with locations."""
    dtype = op.quick_dtypes[0]
    with precision_of(dtype):
        leaves, f = flat_call(op, op.calls(dtype)[0])
        lowered = jit(f).lower(*leaves)
        assert str(lowered.compiler_ir()) == lowered.as_text()
        assert "mhlo.num_partitions = " in lowered.as_text()
        assert lowered.as_text().count("jax.result_info") == len(tree_leaves(lowered.out_info))

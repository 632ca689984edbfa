"""Every primitive has an entry in the operation table, and says rightly where it is linear."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from optable.laws import direction
from optable.primitives import primitives
from optable.table import Op, all_ops, precision_of
from optable.trees import along, flat_call, is_inexact, moving

from teucer._base import config
from teucer._core.jaxpr import Eqn, Jaxpr, subjaxprs
from teucer._core.primitive import Primitive
from teucer._derived.forward import jvp
from teucer._derived.staging import make_jaxpr
from teucer._derived.vjp import vjp

# Primitives tested elsewhere, with the reason.
ELSEWHERE: dict[str, str] = {
    "custom_lin": "only linearization makes it; tests of custom_vjp meet it",
    "remat_rule": "rules for rematerialisation make it; tests/derived/test_remat_rules.py meets it",
    "linear_program": "only eager derivatives make it: tests/derived/test_linear_programs.py",
    "io_callback": "has an effect and no reference: tests of callbacks",
    "debug_callback": "has an effect and no result: tests of callbacks",
    **dict.fromkeys(
        (
            "psum",
            "pmax",
            "pmin",
            "axis_index",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "ppermute",
            "pbroadcast",
        ),
        "the vmap of its entry makes ordinary operations of it",
    ),
    **dict.fromkeys(
        ("xla_metadata_value", "xla_metadata_call"),
        "says something to the compiler: tests/derived/test_metadata.py",
    ),
    **dict.fromkeys(("ffi_call", "buffer_callback"), "is code of others: tests/ffi"),
    **dict.fromkeys(("after_all", "create_token"), "is of tokens: tests/ffi/test_tokens.py"),
    **dict.fromkeys(("precv", "psend"), "only GPUs have them: tests/sharding/test_sends.py"),
    "dce_sink": "has an effect and no result: tests/lax/test_control_misc.py",
    "composite": "has neither derivative nor batching, as in JAX: tests/lax/test_composite.py",
    "linear_call": "its transpose is what its caller says: tests/derived/test_linear_call.py",
    "by_rows": "made on the way to the compiler of the CPU: tests of transposes",
    "hidden": "made on the way to the compiler of the CPU: tests of products with equal numbers",
    "joined_call": "made on the way to the compiler of the CPU: tests of joined loops",
    "outlined_call": "only outlining makes it, on the way to the compiler: tests of outlining",
    "dim_as_value": "is of a symbolic size: tests of export",
    **dict.fromkeys(
        ("dynamic_size", "sized_call"), "is of dynamic sizes: tests of dynamic dimensions"
    ),
    **dict.fromkeys(
        ("new_ref", "empty_ref", "get", "swap", "addupdate", "freeze", "free_ref"),
        "are on references: tests/core/test_references.py",
    ),
    **dict.fromkeys(("reshard", "sharding_constraint"), "needs a mesh: tests/sharding"),
    **dict.fromkeys(
        (
            "all_gather_reduced",
            "preduced",
            "reduced_vary_cast",
            "unreduced_pmax",
            "unreduced_pmin",
            "unreduced_psum",
            "unreduced_reduce_scatter",
            "vary_unreduced_cast",
        ),
        "is of values that are still to be summed: tests/sharding/test_sums.py",
    ),
    **dict.fromkeys(
        ("all_gather_invariant", "psum_invariant", "pvary"),
        "is of manual axes: tests/sharding/test_shard_map.py, test_collectives_of_devices.py",
    ),
}


def equations(jaxpr: Jaxpr) -> Iterator[Eqn]:
    yield from jaxpr.eqns
    for inner in subjaxprs(jaxpr):
        yield from equations(inner)


def programs(op: Op) -> Iterator[Any]:
    """Jaxprs of the calls of an operation, and of the derivatives of those that have them."""
    for dtype in (*op.quick_dtypes, *op.gradient_dtypes):
        with precision_of(dtype):
            for call in op.calls(dtype):
                leaves, f = flat_call(op, call)
                yield make_jaxpr(f)(*leaves).jaxpr
                moves = moving(op, call)
                g, xs = (
                    along(f, leaves, moves),
                    [x for x, m in zip(leaves, moves, strict=True) if m],
                )
                if dtype in op.gradient_dtypes and "forward" not in op.exceptions:
                    yield make_jaxpr(lambda *v, g=g: jvp(g, v, v))(*xs).jaxpr
                if dtype in op.gradient_dtypes and "reverse" not in op.exceptions:
                    yield make_jaxpr(lambda *v, g=g: vjp(g, *v)[1](g(*v)))(*xs).jaxpr


@functools.cache
def met() -> dict[Primitive, list[Eqn]]:
    """The equations of each primitive in all programs of the table, of as many types as operands
    have."""
    found: dict[Primitive, dict[Any, Eqn]] = {}
    for op in all_ops().values():
        try:
            for jaxpr in programs(op):
                for eqn in equations(jaxpr):
                    dtypes = tuple(getattr(x.aval, "dtype", None) for x in eqn.invars)
                    found.setdefault(eqn.primitive, {}).setdefault(dtypes, eqn)
        except Exception:  # reported by the laws of this operation
            continue
    return {p: list(eqns.values()) for p, eqns in found.items()}


def test_every_primitive_has_an_entry() -> None:
    """Each primitive occurs in the jaxpr of a call of the table, or of its derivatives."""
    missing = {
        f"{p.name} of {module}"
        for module, p in primitives()
        if p not in met() and p.name not in ELSEWHERE
    }
    assert not missing, f"primitives without an entry in tests/optable: {sorted(missing)}"


def test_a_primitive_says_whether_it_has_several_results() -> None:
    wrong = {
        p.name
        for p, eqns in met().items()
        if not p.multiple_results and any(len(eqn.outvars) != 1 for eqn in eqns)
    }
    assert not wrong, f"primitives that have several results and do not say it: {sorted(wrong)}"


# What numbers of a few bits lose, where a primitive converts to them.
ROUNDING = 0.03


def together(primitive: Primitive, n: int) -> list[list[int]]:
    """The sets of operands in which a primitive says that it is linear."""
    among = primitive.linear_in
    if among == "product":
        return [[i] for i in range(n)]
    return [list({"sum": range(n), "cases": range(1, n)}.get(among, among))]  # type: ignore[arg-type,call-overload]


def is_linear(eqn: Eqn, among: Sequence[int]) -> bool:
    """Whether the results for a sum of operands are the sum of the results, for some numbers."""
    rng = np.random.default_rng(0)
    rest = [np.zeros(x.aval.shape, x.aval.dtype) for x in eqn.invars]
    rest = [direction(rng, x) if is_inexact(x) else x for x in rest]

    def at(values: Sequence[Any]) -> Any:
        args = list(rest)
        for i, x in zip(among, values, strict=True):
            args[i] = x
        return eqn.primitive.call(*args, **eqn.params)

    xs, ys = ([direction(rng, rest[i]) for i in among] for _ in range(2))
    sums = at([x + y for x, y in zip(xs, ys, strict=True)])
    return all(
        np.allclose(z, np.asarray(x) + np.asarray(y), ROUNDING, ROUNDING)
        for z, x, y in zip(sums, at(xs), at(ys), strict=True)
    )


@pytest.mark.parametrize(
    "primitive",
    [
        pytest.param(p, id=p.name)
        for _, p in primitives()
        if p.linear_in and not p.higher_order and p.name not in ELSEWHERE
    ],
)
def test_linear_operands_are_those_said(primitive: Primitive) -> None:
    """The results are linear in the operands of `linear_in`, taken together; and no longer with
    one more."""
    for eqn in met()[primitive]:
        exact = {i for i, x in enumerate(eqn.invars) if not is_inexact(x.aval)}
        if len(exact) == len(eqn.invars) or not all(is_inexact(y.aval) for y in eqn.outvars):
            continue
        for among in together(primitive, len(eqn.invars)):
            assert exact.isdisjoint(among), f"{primitive} in operands {among}: one has no sums"
            with config.enable_x64(True):
                assert is_linear(eqn, among), f"{primitive} in operands {among}"
                for i in {*range(len(eqn.invars))} - {*among} - exact:
                    assert not is_linear(eqn, [*among, i]), f"{primitive} in operand {i} as well"

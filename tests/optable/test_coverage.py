"""Every primitive has an entry in the operation table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from optable.primitives import primitives
from optable.table import Op, all_ops, precision_of
from optable.trees import along, flat_call, moving

from teucer._core.jaxpr import Jaxpr, subjaxprs
from teucer._transform.forward import jvp
from teucer._transform.staging import make_jaxpr
from teucer._transform.vjp import vjp

# Primitives tested elsewhere, with the reason.
ELSEWHERE: dict[str, str] = {
    "custom_lin": "only linearization makes it; tests of custom_vjp meet it",
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


def used(jaxpr: Jaxpr) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield eqn.primitive
    for inner in subjaxprs(jaxpr):
        yield from used(inner)


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


def test_every_primitive_has_an_entry() -> None:
    """Each primitive occurs in the jaxpr of a call of the table, or of its derivatives."""
    met: set[Any] = set()
    for op in all_ops().values():
        try:
            for jaxpr in programs(op):
                met.update(used(jaxpr))
        except Exception:  # reported by the laws of this operation
            continue
    missing = {
        f"{p.name} of {module}"
        for module, p in primitives()
        if p not in met and p.name not in ELSEWHERE
    }
    assert not missing, f"primitives without an entry in tests/optable: {sorted(missing)}"

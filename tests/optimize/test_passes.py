"""Passes over jaxprs before lowering: each does what it says, and no bit of a result changes."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from optimize.stepwise import bits, check_each_pass, compiled_text, stepwise

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import config
from teucer._core.jaxpr import Jaxpr, Literal, subjaxprs
from teucer._optimize import passes
from teucer._optimize.checker import check_jaxpr
from teucer._optimize.dce import dce_jaxpr, remove_dead
from teucer._optimize.passes import PASSES, Rule, optimize, rewrite, share
from teucer._optimize.structure import structural_key
from teucer._transform.jit_calls import hoist_consts
from teucer.ad_checkpoint import checkpoint_name
from teucer.extend.core import Primitive
from teucer.lax._families import ELEMENTWISE

# Numbers at which identities fail that do not hold: zeros of both signs, infinities, nan, the
# smallest and largest numbers.
EDGES = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, -3e-39, 3e38], np.float32)
INTS = np.array([0, 1, -1, 7, -8, np.iinfo(np.int32).max, np.iinfo(np.int32).min], np.int32)


def traced(f: Any, *args: Any) -> Jaxpr:
    return hoist_consts(jax.make_jaxpr(f)(*args).jaxpr).jaxpr


def names(jaxpr: Jaxpr) -> list[str]:
    return [str(eqn.primitive.name) for eqn in jaxpr.eqns]


def inner(jaxpr: Jaxpr) -> Jaxpr:
    (found,) = subjaxprs(jaxpr)
    return found


def checked(jaxpr: Jaxpr, *args: Any, apply: Any = optimize) -> Jaxpr:
    """The jaxpr after a pass, which has changed no type and no bit."""
    after = apply(jaxpr)
    check_jaxpr(after)
    assert [v.aval for v in after.invars] == [v.aval for v in jaxpr.invars]
    assert [v.aval for v in after.outvars] == [v.aval for v in jaxpr.outvars]
    with config.optimize_jaxprs(False):
        expected, found = (list(map(bits, stepwise(j, *args))) for j in (jaxpr, after))
    assert found == expected
    return after


# --- Identities -----------------------------------------------------------------------------------

matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
IDENTITIES = {
    "mul 1": (lambda x: lax.mul(x, 1.0), EDGES),
    "1 mul": (lambda x: lax.mul(1.0, x), EDGES),
    "div 1": (lambda x: lax.div(x, 1.0), EDGES),
    "sub 0": (lambda x: lax.sub(x, 0.0), EDGES),
    "add -0": (lambda x: lax.add(x, -0.0), EDGES),
    "power 1": (lambda x: lax.integer_pow(x, 1), EDGES),
    "mul ones": (lambda x: lax.mul(x, lax.full_like(x, 1)), EDGES),
    "neg neg": (lambda x: lax.neg(lax.neg(x)), EDGES),
    "half": (
        lambda x: lax.mul(x, np.float16(1)),
        np.float16([0.0, -0.0, 1.5, np.inf, np.nan, 6e-8]),
    ),
    "bfloat16": (
        lambda x: lax.add(x, ml_dtypes.bfloat16(-0.0)),
        EDGES[:-1].astype(ml_dtypes.bfloat16),
    ),
    "ints add 0": (lambda x: lax.add(x, 0), INTS),
    "ints 0 add": (lambda x: lax.add(0, x), INTS),
    "ints sub 0": (lambda x: lax.sub(x, 0), INTS),
    "ints mul 1": (lambda x: lax.mul(x, 1), INTS),
    "ints div 1": (lambda x: lax.div(x, 1), INTS),
    "ints or 0": (lambda x: lax.bitwise_or(x, 0), INTS),
    "ints xor 0": (lambda x: lax.bitwise_xor(x, 0), INTS),
    "ints and -1": (lambda x: lax.bitwise_and(x, -1), INTS),
    "bytes and 255": (lambda x: lax.bitwise_and(x, np.uint8(255)), INTS.astype(np.uint8)),
    "bools and true": (lambda x: lax.bitwise_and(x, True), INTS > 0),
    "not not": (lambda x: ~~x, INTS),
    "shift 0": (
        lambda x: lax.shift_left(lax.shift_right_logical(lax.shift_right_arithmetic(x, 0), 0), 0),
        INTS,
    ),
    "transposes": (lambda x: x.T.T, matrix),
    "reshapes": (lambda x: x.reshape(3, 2).reshape(6).reshape(2, 3), matrix),
    "convert": (
        lambda x: lax.convert_element_type_p.call(
            x, new_dtype=x.dtype, weak_type=False, sharding=None
        )[0],
        EDGES,
    ),
    "broadcast": (
        lambda x: lax.broadcast_in_dim_p.call(
            x, shape=(2, 3), broadcast_dimensions=(0, 1), sharding=None
        )[0],
        matrix,
    ),
    "slice": (
        lambda x: lax.slice_p.call(x, start_indices=(0, 0), limit_indices=(2, 3), strides=None)[0],
        matrix,
    ),
    "select true": (lambda x: lax.select(True, x, lax.neg(x)), EDGES),
    "select of one": (lambda x: lax.select_n(x > 0, x, x), EDGES),
    "select by number": (lambda x: lax.select_n(np.int32(7), -x, x), EDGES),
    "stop_gradient": (lambda x: lax.stop_gradient(x), EDGES),
    "name": (lambda x: checkpoint_name(x, "a"), EDGES),
    "real of complex": (lambda x: lax.real(lax.complex(x, -x)), EDGES),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identity_leaves_no_equation(name):
    """Subnormal numbers pass through, as through XLA's own identities; an addition that XLA runs
    may take them for zeros."""
    f, x = IDENTITIES[name]
    assert not checked(
        traced(f, x), jnp.where(abs(x) < 1e-37, 0, x) if x.dtype.kind in "fV" else jnp.asarray(x)
    ).eqns
    with config.optimize_jaxprs(False):
        expected = jax.jit(f)(x)
    assert bits(jax.jit(f)(x)) == bits(expected)


NOT_IDENTITIES = {
    "add 0": lambda x: lax.add(x, 0.0),
    "0 sub": lambda x: lax.sub(-0.0, x),
    "mul 0": lambda x: lax.mul(x, 0.0),
    "sub -0": lambda x: lax.sub(x, -0.0),
    "x sub x": lambda x: lax.sub(x, x),
    "1 div": lambda x: lax.div(1.0, x),
    "narrow and back": lambda x: x.astype(np.float16).astype(np.float32),
    "max": lambda x: lax.max(x, 0.0),
    "complex mul 1": lambda x: lax.mul(lax.complex(x, x), np.complex64(1)),
    "shape": lambda x: lax.mul(x[0], jnp.ones(3)),
}


@pytest.mark.parametrize("name", NOT_IDENTITIES)
def test_what_is_no_identity_stays(name):
    jaxpr = traced(NOT_IDENTITIES[name], EDGES)
    assert names(checked(jaxpr, jnp.asarray(EDGES))) == names(remove_dead(jaxpr))


def test_identity_keeps_weak_types():
    """x * 1 of a weak x and a strong 1 is strong: another type than x."""
    x = lax.convert_element_type_p.call(
        jnp.ones(3), new_dtype=np.dtype(np.float32), weak_type=True, sharding=None
    )[0]
    assert names(checked(traced(lambda x: lax.mul(x, np.float32(1)), x), x)) == ["mul"]
    assert jax.jit(lambda x: lax.mul(x, np.float32(1)))(x).weak_type is False
    assert jax.jit(lambda x: lax.mul(x, 1.0))(x).weak_type is True


def test_rearrangements_merge():
    def f(x):
        return (
            lax.transpose(lax.transpose(x, (1, 2, 0)), (1, 2, 0)),
            x.reshape(6, 4).reshape(8, 3),
            lax.broadcast_in_dim(
                lax.broadcast_in_dim(x, (2, 3, 4, 5), (0, 1, 2)), (7, 2, 3, 4, 5), (1, 2, 3, 4)
            ),
        )

    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    assert names(checked(traced(f, x), jnp.asarray(x))) == [
        "transpose",
        "reshape",
        "broadcast_in_dim",
    ]


# --- Constants ------------------------------------------------------------------------------------

FOLDED = sorted(name for name, p in ELEMENTWISE.items() if p.fold is not None)
NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.5, -0.1, 1e-30, 3e38, np.inf, -np.inf, np.nan, 1e-45]


def literals(dtype: Any) -> list[Any]:
    if dtype == np.bool_:
        return [np.bool_(False), np.bool_(True)]
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return [
            np.dtype(dtype).type(n)
            for n in {
                0,
                1,
                2,
                7,
                info.bits - 1,
                info.bits,
                info.max,
                info.min,
                max(info.min, -1),
                max(info.min, -7),
            }
        ]
    with np.errstate(over="ignore"):
        if np.dtype(dtype).kind == "c":
            return [
                np.dtype(dtype).type(complex(a, b)) for a in NUMBERS[::2] for b in NUMBERS[1::3]
            ]
        return [np.dtype(dtype).type(n) for n in NUMBERS]


# Of complex numbers nothing is folded.
DTYPES = [
    np.complex64,
    np.uint16,
    np.uint64,
    np.bool_,
    np.int8,
    np.int32,
    np.uint8,
    np.uint32,
    np.int64,
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
    np.float64,
]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, d) for name in FOLDED for d in DTYPES if np.dtype(d) in ELEMENTWISE[name].accepts],
    ids=lambda v: v if isinstance(v, str) else np.dtype(v).name,
)
def test_folded_constants_are_what_xla_computes(name, dtype):
    p = ELEMENTWISE[name]
    with config.enable_x64(True):
        xs = literals(dtype)
        rows = [(x, y) for x in xs for y in xs] if len(p.tangents) == 2 else [(x,) for x in xs]
        with config.optimize_jaxprs(False):
            (expected,) = p.call(
                *(jnp.asarray(np.array(column)) for column in zip(*rows, strict=True))
            )
        result = np.asarray(expected)
        for row, right in zip(rows, result, strict=True):
            found = passes._fold(p, [Literal(x) for x in row], {}, result.dtype)
            assert found is None or np.dtype(dtype).kind != "c"
            if found is None:
                assert np.dtype(dtype).kind not in "biu"
            else:
                assert bits(found) == bits(right), row


@pytest.mark.parametrize(
    "target",
    [np.int8, np.int32, np.uint8, np.bool_, np.float16, ml_dtypes.bfloat16, np.float32, np.float64],
)
@pytest.mark.parametrize(
    "source", [np.int32, np.uint8, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.bool_]
)
def test_folded_conversions_are_what_xla_computes(source, target):
    with config.enable_x64(True):
        xs = literals(source)
        params = {"new_dtype": np.dtype(target), "weak_type": False, "sharding": None}
        with config.optimize_jaxprs(False):
            expected = np.asarray(
                lax.convert_element_type_p.call(jnp.asarray(np.array(xs)), **params)[0]
            )
        found = [
            passes._fold(lax.convert_element_type_p, [Literal(x)], params, np.dtype(target))
            for x in xs
        ]
    for x, y, right in zip(xs, found, expected, strict=True):
        assert y is None or bits(y) == bits(right), x
    assert sum(y is not None for y in found) >= 2


def test_constants_fold():
    def f(x):
        a = jnp.float32(2) * 3.0 - 1.0
        b = lax.full((3,), 2.0) * 4.0
        return x + a, b, lax.select(lax.lt(1, 2), x, -x), jnp.float32(3)

    assert names(checked(traced(f, EDGES), jnp.asarray(EDGES))) == ["broadcast_in_dim", "add"]


def test_what_processors_disagree_on_is_not_folded():
    """nan has a sign that no one promises, and some processors take subnormal numbers for zeros."""

    def f():
        zero, tiny = lax.full((), 0.0), lax.full((), 1e-38)
        return (
            lax.div(zero, zero),
            lax.mul(tiny, np.float32(0.5)),
            lax.mul(np.float32(1e-45), np.float32(1e20)),
            lax.sin(zero),
        )

    assert names(optimize(traced(f))) == ["div", "mul", "mul", "sin"]


# --- Common subexpressions ------------------------------------------------------------------------


def test_common_subexpressions_merge():
    def f(x):
        y = jnp.sin(x) * 2.0 + jax.jit(lambda v: jnp.cos(v) + 1)(x)
        z = jnp.sin(x) * 2.0 + jax.jit(lambda v: jnp.cos(v) + 1)(x)
        return y + z, lax.top_k(x, 2)[0], lax.top_k(x, 2)[1]

    after = checked(traced(f, EDGES[:4]), jnp.asarray(EDGES[:4]))
    assert sorted(names(after)) == ["add", "add", "jit", "mul", "sin", "top_k"]


def test_literals_that_compare_equal_are_not_the_same():
    def f(x):
        return (
            lax.div(1.0, lax.mul(x, 0.0)),
            lax.div(1.0, lax.mul(x, -0.0)),
            lax.add(x, np.float32(2)),
            lax.add(x, 2.0),
            lax.mul(lax.complex(x, x), np.complex64(0j)),
            lax.mul(lax.complex(x, x), np.complex64(complex(-0.0, 0.0))),
        )

    assert names(checked(traced(f, jnp.ones(2)), jnp.ones(2))) == [
        "mul",
        "div",
        "mul",
        "div",
        "add",
        "complex",
        "mul",
        "mul",
    ]


def test_parameters_that_compare_equal_are_not_the_same():
    p = Primitive("scaled")
    p.mergeable = True
    p.def_impl(lambda x, scale: x * scale)
    p.def_abstract_eval(lambda x, scale: x)
    jaxpr = traced(
        lambda x: (
            p.bind(x, scale=0.0),
            p.bind(x, scale=-0.0),
            p.bind(x, scale=0.0),
            p.bind(x, scale=[1.0]),
        ),
        1.0,
    )
    first, second, third, _ = rewrite(jaxpr).outvars
    assert first is third
    assert first is not second
    assert [eqn.params["scale"] for eqn in rewrite(jaxpr).eqns] == [0.0, -0.0, [1.0]]


def keeps_both(f: Any, name: str) -> None:
    jaxpr = traced(f, jnp.ones(3))
    assert names(checked(jaxpr, jnp.ones(3))).count(name) == 2


def test_not_merged():
    keeps_both(
        lambda x: lax.optimization_barrier(x) + lax.optimization_barrier(x), "optimization_barrier"
    )
    keeps_both(lambda x: (jnp.copy(x), jnp.copy(x)), "copy")
    barrier = jax.jit(lambda x: lax.optimization_barrier(jnp.sin(x)))
    keeps_both(lambda x: barrier(x) + barrier(x), "jit")
    p = Primitive("counted")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    keeps_both(lambda x: p.bind(x) + p.bind(x), "counted")
    remat = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    keeps_both(jax.grad(lambda x: (remat(x) + remat(x)).sum()), "remat2")
    jaxpr = traced(lambda: (lax.rng_uniform(0.0, 1.0, (2,)), lax.rng_uniform(0.0, 1.0, (2,))))
    assert names(optimize(jaxpr)) == ["rng_uniform"] * 2


def test_effects_are_kept_in_order():
    seen = []

    def f(x):
        for _ in range(2):
            jax.debug.callback(lambda v: seen.append(float(v)), x, ordered=True)
            jax.debug.callback(lambda v: seen.append(-float(v)), x * 1.0, ordered=True)
        return x

    assert names(optimize(traced(f, 2.0))).count("debug_callback") == 4
    jax.jit(f)(2.0)
    jax.effects_barrier()
    assert seen == [2.0, -2.0, 2.0, -2.0]


@pytest.mark.parametrize("prevent_cse", [True, False])
def test_rematerialisation_is_not_undone(prevent_cse):
    """What the backward pass computes again stays apart from what the forward pass has computed."""
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)), prevent_cse=prevent_cse)
    jaxpr = traced(jax.value_and_grad(lambda x: f(f(x)).sum()), EDGES[:3])
    after = checked(jaxpr, jnp.asarray(EDGES[:3]))
    assert names(after).count("sin") == 4
    assert names(after).count("remat2") == 2
    assert all(
        "sin" in names(eqn.params["jaxpr"].jaxpr)
        for eqn in after.eqns
        if eqn.primitive.name == "remat2"
    )
    text = jax.jit(jax.grad(lambda x: f(f(x)).sum())).lower(EDGES[:3]).as_text()
    assert ("optimization_barrier" in text) == prevent_cse


def test_merged_equation_keeps_the_first_place():
    def f(x):
        y = jnp.sin(x)
        return y + jnp.sin(x)

    jaxpr = traced(f, 1.0)
    (eqn,) = (eqn for eqn in optimize(jaxpr).eqns if eqn.primitive.name == "sin")
    assert eqn.source is jaxpr.eqns[0].source


# --- Calls and loops ------------------------------------------------------------------------------


def test_calls_with_rules_of_their_own_are_inlined():
    twice = jax.custom_jvp(lambda x: x * 2.0)
    twice.defjvp(lambda primals, tangents: (twice(*primals), tangents[0]))

    @jax.custom_vjp
    def thrice(x):
        return twice(x) + x

    thrice.defvjp(lambda x: (thrice(x), None), lambda res, ct: (ct,))
    batched = jax.custom_batching.sequential_vmap(lambda x: twice(x) + 1)

    def f(x):
        return lax.custom_linear_solve(
            lambda v: v * 4.0, thrice(twice(x)) + twice(x) + batched(x), lambda mv, b: b / 4.0
        )

    x = jnp.asarray(EDGES)
    inlined = rewrite(traced(f, x), Rule.INLINE)
    assert sorted(set(names(inlined))) == ["add", "div", "mul"]
    assert names(inlined).count("mul") > names(checked(inlined, x)).count("mul") == 2


def test_call_hands_operands_on():
    @jax.jit
    def g(x, y):
        return x, x + y, 3.0, x + y, y

    def f(x, y):
        a, b, c, d, e = g(x, y)
        return a * c, b - d, e

    x = jnp.asarray(EDGES)
    after = checked(traced(f, x, x), x, x)
    assert names(after) == ["jit", "mul", "sub"]
    assert len(inner(after).outvars) == 1
    assert after.outvars[2] is after.invars[1]
    twice = checked(traced(lambda x, y: (*f(x, y), *f(x, y)), x, x), x, x)
    assert names(twice) == ["jit", "mul", "sub"]
    assert len(inner(twice).outvars) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_narrowed(reverse):
    def body(carry, e):
        fixed, total, unread = carry
        return (fixed, total + fixed * e, unread * 2.0), (e, total, jnp.cos(e))

    closed = jax.make_jaxpr(body)((1.0,) * 3, 1.0)
    closed = jax.make_jaxpr(lambda f, t, u, e: [*body((f, t, u), e)[0], *body((f, t, u), e)[1]])(
        *[jnp.float32(1)] * 4
    )

    def f(n, xs):
        outs = lax.scan_p.call(
            n,
            n * 0,
            n,
            xs,
            jaxpr=closed,
            num_consts=0,
            num_carry=3,
            length=4,
            reverse=reverse,
            unroll=1,
        )
        return outs[0], outs[1], outs[3], outs[4]

    n, xs = jnp.float32(-0.0), jnp.asarray(EDGES[:4])
    after = checked(traced(f, n, xs), n, xs)
    (eqn,) = (eqn for eqn in after.eqns if eqn.primitive.name == "scan")
    assert (
        eqn.params["num_consts"],
        eqn.params["num_carry"],
        len(eqn.invars),
        len(eqn.outvars),
    ) == (1, 1, 3, 2)
    assert "cos" not in names(inner(after))
    assert after.outvars[0] is after.invars[0]
    assert after.outvars[2] is after.invars[1]


def test_while_is_narrowed():
    cond = jax.make_jaxpr(lambda limit, i, fixed, unread, total: i < limit)(
        3, 0, *[jnp.float32(1)] * 3
    )
    body = jax.make_jaxpr(
        lambda c, i, fixed, unread, total: [i + 1, fixed, unread + fixed, total * fixed + c]
    )(*[jnp.float32(1)], 0, *[jnp.float32(1)] * 3)

    def f(limit, c, i, x):
        outs = lax.while_p.call(
            limit, c, i, x, x, x, cond_jaxpr=cond, body_jaxpr=body, cond_nconsts=1, body_nconsts=1
        )
        return outs[1], outs[3]

    args = [
        lax.convert_element_type(3, jnp.int32),
        jnp.float32(2),
        lax.convert_element_type(0, jnp.int32),
        jnp.float32(1.5),
    ]
    jaxpr = traced(f, 3, args[1], 0, args[3])
    after = checked(jaxpr, *args)
    (eqn,) = after.eqns
    assert (eqn.params["cond_nconsts"], eqn.params["body_nconsts"], len(eqn.outvars)) == (1, 2, 2)
    assert after.outvars[0] is after.invars[3]


def test_cond_is_narrowed():
    def f(p, x, y, z):
        return lax.cond(
            p, lambda x, y, z: (x, x + y, jnp.sin(z)), lambda x, y, z: (x, y, jnp.cos(z)), x, y, z
        )[:2]

    x = jnp.asarray(EDGES)
    after = checked(traced(f, True, x, x, x), jnp.bool_(True), x, x, x)
    (eqn,) = (eqn for eqn in after.eqns if eqn.primitive.name == "cond")
    assert (len(eqn.invars), len(eqn.outvars)) == (3, 1)
    assert after.outvars[0] is after.invars[1]
    assert "cond" not in names(checked(traced(partial(f, True), x, x, x), x, x, x))


BODIES_WITH_DEAD_CODE = {
    "jit": lambda f, x, y: jax.jit(f)(x, y),
    "scan": lambda f, x, y: lax.scan(lambda c, _: (f(*c), None), (x, y), None, length=2)[0],
    "while": lambda f, x, y: lax.while_loop(lambda c: c[0] < 9, lambda c: f(*c), (x, y)),
    "cond": lambda f, x, y: lax.cond(x < y, f, lambda x, y: (y, x), x, y),
    "checkpoint": lambda f, x, y: jax.checkpoint(f)(x, y),
}


@pytest.mark.parametrize("name", BODIES_WITH_DEAD_CODE)
def test_dead_code_within_a_call_that_uses_all(name):
    def f(x, y):
        lax.neg(y)
        return y + x, x * y

    jaxpr = traced(lambda x, y: BODIES_WITH_DEAD_CODE[name](f, x, y), 1.0, 2.0)
    assert "neg" in str(jaxpr)
    after = checked(jaxpr, jnp.float32(1), jnp.float32(2), apply=remove_dead)
    assert "neg" not in str(after)


def test_remat_is_narrowed():
    f = jax.checkpoint(lambda x, y: (jnp.sin(x), jnp.cos(y)))
    jaxpr = traced(lambda x, y: jax.grad(lambda x: f(x, y)[0] + f(x, y)[1])(x), 1.0, 2.0)
    assert not any(len(eqn.invars) > 2 for eqn in optimize(jaxpr).eqns)


def test_dead_code_keeps_effects_and_inputs():
    @jax.jit
    def g(x, y):
        jax.debug.callback(lambda v: None, y)
        return jnp.sin(x), jnp.cos(x)

    jaxpr = traced(lambda x, y, z: g(x, y)[1], 1.0, 2.0, 3.0)
    after = checked(jaxpr, *map(jnp.float32, (1.0, 2.0, 3.0)), apply=remove_dead)
    assert names(inner(after)) == ["debug_callback", "cos"]
    assert len(after.invars) == 3
    assert dce_jaxpr(jaxpr, [True])[1] == [True, True, False]
    assert [names(inner(dce_jaxpr(jaxpr, [False])[0])), dce_jaxpr(jaxpr, [False])[1]] == [
        ["debug_callback"],
        [False, True, False],
    ]


# --- Equal jaxprs ---------------------------------------------------------------------------------


def layer(scale):
    return jax.jit(lambda x: jnp.tanh(x) * scale)


def test_equal_jaxprs_become_one_function():
    def f(x):
        for scale in (2.0, 2.0, 3.0, 2.0):
            x = layer(scale)(x)
        return jax.jit(lambda x: layer(3.0)(x) - layer(3.0)(x + 1))(x)

    jaxpr = traced(f, jnp.ones(3))
    assert len(set(map(id, subjaxprs(jaxpr)))) == 5
    after = checked(jaxpr, jnp.ones(3), apply=share)
    twice, _, thrice, _, last = subjaxprs(after)
    assert list(subjaxprs(after)) == [twice, twice, thrice, twice, last]
    assert list(subjaxprs(last)) == [thrice, thrice]
    assert compiled_text(f, jnp.ones(3)).count("func private") == 3


def test_structure():
    def key(f, *args):
        return structural_key(traced(f, *args))

    x = jnp.ones(3)
    same = key(lambda x, y: jnp.sin(x) + y * 2.0, x, x)
    assert same == key(lambda a, b: jnp.sin(a) + b * 2.0, x, x)
    assert hash(same) == hash(key(lambda a, b: jnp.sin(a) + b * 2.0, x, x))
    others = [
        key(lambda x, y: jnp.sin(y) + x * 2.0, x, x),
        key(lambda x, y: jnp.sin(x) + y * 2.5, x, x),
        key(lambda x, y: jnp.cos(x) + y * 2.0, x, x),
        key(lambda x, y: jnp.sin(x) + y * 2.0, x[:2], x[:2]),
        key(lambda x, y: y * 2.0 + jnp.sin(x), x, x),
        key(lambda x, y: (jnp.sin(x) + y * 2.0, x), x, x),
        key(lambda x, y: jnp.sin(x) + y * 0.0, x, x),
        key(lambda x, y: jnp.sin(x) + y * -0.0, x, x),
        key(lambda x, y: jax.jit(lambda x, y: jnp.sin(x) + y * 2.0)(x, y), x, x),
    ]
    assert len({same, *others}) == len(others) + 1
    assert (
        key(lambda x: layer(2.0)(x), x)
        == key(lambda x: layer(2.0)(x), x)
        != key(lambda x: layer(2.5)(x), x)
    )


# --- In use ---------------------------------------------------------------------------------------


def test_option_switches_passes_off():
    def f(x):
        return jnp.sin(x) * 1.0 + jnp.sin(x)

    assert compiled_text(f, 1.0).count("sine") == 1
    with config.optimize_jaxprs(False):
        assert compiled_text(f, 1.0).count("sine") == 2


def test_what_is_lowered_to_be_read_is_as_it_was_written():
    assert jax.jit(lambda x: jnp.sin(x) * 1.0 + jnp.sin(x)).lower(1.0).as_text().count("sine") == 2


def test_programs_are_kept_apart_by_the_option(monkeypatch):
    f = jax.jit(lambda x: x * 1.0)
    f(2.0)
    calls = []
    with config.optimize_jaxprs(False):
        monkeypatch.setattr(jax._programs.prepare, "optimize", calls.append)
        np.testing.assert_array_equal(f(2.0), 2.0)
    assert calls == []


def test_traces_are_not_changed():
    f = jax.jit(lambda x: jnp.sin(x) * 1.0 + jnp.sin(x))
    before = str(jax.make_jaxpr(f)(1.0))
    f(1.0)
    assert str(jax.make_jaxpr(f)(1.0)) == before
    assert before.count("sin ") == 2


def test_an_argument_that_only_dead_code_reads_is_not_passed():
    f = jax.jit(lambda x, y: jax.jit(lambda x, y: (x + 1, y + 1))(x, y)[0])
    assert f.lower(1.0, 2.0).as_text().count("%arg1") == 0
    np.testing.assert_array_equal(f(1.0, 2.0), 2.0)


def test_donated_arguments_that_are_returned():
    f = jax.jit(lambda x, y: (x * 1.0, y + x), donate_argnums=0)
    x, y = jnp.ones(3), jnp.ones(3)
    out = f(x, y)
    assert x.is_deleted()
    assert not out[0].is_deleted()
    np.testing.assert_array_equal(out, [np.ones(3), np.full(3, 2)])


def test_a_result_that_is_an_argument_is_a_buffer_of_its_own():
    """As JAX 0.10.2 has it on CPU."""
    f = jax.jit(lambda x: x + -0.0)
    x = jnp.arange(3.0)
    for _ in range(2):
        out = f(x)
        assert out is not x
        assert out.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def test_optimised_jaxprs_do_not_outlive_their_own():
    """They are kept on it, and do not refer to it, so that no garbage collection is needed."""
    jaxpr = jax.make_jaxpr(lambda x: jax.jit(lambda x: jnp.sin(x))(x) * 1.0)(1.0).jaxpr
    kept = weakref.ref(inner(jaxpr))
    gc.collect()
    gc.disable()
    try:
        optimize(jaxpr)
        jax.clear_caches()
        del jaxpr
        assert kept() is None
    finally:
        gc.enable()


def test_table_of_passes():
    assert [p.name for p in PASSES] == ["rewrite", "remove dead code", "share equal jaxprs"]
    assert len(PASSES[0].parts) == len(Rule)


# --- Any program ----------------------------------------------------------------------------------

# No subnormal ones: the processor takes them for zeros where a multiplication by 1 runs.
NUMBERS_OF_ARGUMENTS = st.lists(
    st.sampled_from([x for x in EDGES if not 0 < abs(x) < 2e-38]), min_size=8, max_size=8
)
LITERALS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, 0.5, np.inf])
UNARY = [
    lax.neg,
    lambda x: lax.integer_pow(x, 1),
    lambda x: x.T,
    lambda x: x.reshape(x.shape[::-1]),
    lax.stop_gradient,
    lambda x: x.astype(jnp.bfloat16).astype(np.float32),
    lambda x: lax.select(x > 0, x, -x),
    lambda x: x * 1.0,
    jax.jit(lambda x: lax.neg(x)),
    jax.nn.relu,
    lambda x: lax.full_like(x, 3.0),
]
BINARY = [
    lax.add,
    lax.sub,
    lax.mul,
    lax.div,
    lax.max,
    lambda x, y: lax.select(lax.lt(x, y), x, y),
    jax.jit(lambda x, y: (x, x * y, y)[1]),
    lambda x, y: jax.jit(lambda x, y: (y, x + 1.0))(x, y)[0],
    jax.jit(lambda x, y: (lax.neg(y), x * y)[1]),
    lambda x, y: lax.cond(jnp.all(x == x), lambda x, y: (x, y), lambda x, y: (x, -y), x, y)[1],
    lambda x, y: lax.fori_loop(0, 2, lambda i, c: (c[0], c[1] * c[0]), (x, y))[1],
    lambda x, y: lax.scan(
        lambda c, _: ((c[0], c[1] + c[0], c[2]), c[2]), (x, y, x), None, length=2
    )[0][1],
    jax.checkpoint(lambda x, y: x * y - y),
]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(UNARY), st.integers(0, 5)),
        st.tuples(
            st.sampled_from(BINARY), st.integers(0, 5), st.one_of(st.integers(0, 5), LITERALS)
        ),
        st.tuples(st.sampled_from(BINARY[:5]), LITERALS, st.integers(0, 5)),
    ),
    min_size=2,
    max_size=14,
)


def run(steps: Any, x: Any, y: Any) -> Any:
    values = [x, y]

    def operand(i: Any) -> Any:
        return (
            values[i % len(values)]
            if isinstance(i, int)
            else lax.full((2, 2), i)
            if i == 2.0
            else np.float32(i)
        )

    for f, *numbers in steps:
        operands = [operand(i) for i in numbers]
        shaped = [
            lax.broadcast(v, (2, 2)) if not np.shape(v) and f not in BINARY[:5] else v
            for v in operands
        ]
        values.append(f(*shaped))
    return values[-1], values[len(values) // 2]


@settings(max_examples=120)
@given(STEPS, NUMBERS_OF_ARGUMENTS)
def test_no_bit_of_any_program_changes(steps, numbers):
    """Each pass, and all together, against the program run primitive by primitive."""
    x, y = jnp.asarray(np.array(numbers, np.float32).reshape(2, 2, 2))
    jaxpr = traced(partial(run, steps), x, y)
    check_each_pass(jaxpr, x, y)


@settings(max_examples=25)
@given(STEPS, NUMBERS_OF_ARGUMENTS, st.sampled_from(["grad", "vmap", "jvp", "scan"]))
def test_no_bit_of_any_transformed_program_changes(steps, numbers, how):
    x, y = jnp.asarray(np.array(numbers, np.float32).reshape(2, 2, 2))
    f = partial(run, steps)
    transformed = {
        "grad": lambda x, y: jax.vjp(f, x, y)[1]((x, y)),
        "vmap": jax.vmap(jax.vmap(lambda v, y: f(y + v, y), (0, None)), (1, None)),
        "jvp": lambda x, y: jax.jvp(f, (x, y), (y, x)),
        "scan": lambda x, y: lax.scan(lambda c, e: (f(c, y)[0], f(c, x)[1]), x, None, length=2),
    }
    check_each_pass(traced(transformed[how], x, y), x, y)


@pytest.mark.parametrize("call", [jax.jit, jax.checkpoint])
def test_results_of_a_call_that_are_operands_or_come_twice(call: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        z = jnp.sin(x)
        return y, z, y, z, x

    jaxpr = jax.make_jaxpr(lambda x, y: call(f)(x, y))(1.0, 2.0).jaxpr
    (eqn,) = jaxpr.eqns
    x, y = jaxpr.invars
    _, found = eqn.primitive.forward(eqn)
    assert found == [y, None, y, eqn.outvars[1], x]

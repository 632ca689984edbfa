"""Random programs under random nestings of transformations.

Whatever is wrapped round a program, it computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from optimize.stepwise import check_each_pass
from sampling import some

from teucer import lax
from teucer._base import config
from teucer._core.jaxpr import eval_jaxpr
from teucer._derived.checkpoint import checkpoint
from teucer._derived.custom_jvp import custom_jvp
from teucer._derived.custom_vjp import custom_vjp
from teucer._derived.forward import jvp, linearize
from teucer._derived.staging import make_jaxpr
from teucer._derived.vjp import vjp
from teucer._optimize.checker import check_jaxpr
from teucer._transform.jit import jit
from teucer._transform.jit_calls import hoist_consts
from teucer._transform.vmap import vmap

N = 3
Function = Callable[..., Any]

# Programs: straight lines of instructions on vectors of N numbers, whose values stay bounded


def total(x: Any) -> Any:
    return lax.broadcast(lax.reduce_sum(x, (0,)), (N,))


def outer(x: Any, y: Any) -> Any:
    product = lax.dot_general(
        lax.expand_dims(x, (1,)), lax.expand_dims(y, (0,)), (((1,), (0,)), ((), ()))
    )
    return lax.reduce_max(lax.tanh(product), (0,))


def shifted(x: Any, y: Any) -> Any:
    start = lax.convert_element_type(
        lax.gt(lax.index_in_dim(y, 0, 0, keepdims=False), np.float64(0)), np.int32
    )
    return lax.dynamic_update_slice(x, lax.dynamic_slice(y, [start], (2,)), [np.int32(0)])


class Instruction(NamedTuple):
    """An operation of two vectors in lax and in NumPy."""

    name: str
    traced: Function
    plain: Function

    def __repr__(self) -> str:
        return self.name


INSTRUCTIONS = (
    Instruction("add", lambda x, y: lax.add(x, y), np.add),
    Instruction("sub_sin", lambda x, y: lax.sub(x, lax.sin(y)), lambda x, y: x - np.sin(y)),
    Instruction("mul_tanh", lambda x, y: lax.mul(lax.tanh(x), y), lambda x, y: np.tanh(x) * y),
    Instruction(
        "div",
        lambda x, y: lax.div(x, lax.add(lax.square(y), np.float64(1))),
        lambda x, y: x / (y * y + 1),
    ),
    Instruction(
        "exp",
        lambda x, y: lax.exp(lax.neg(lax.square(lax.add(x, y)))),
        lambda x, y: np.exp(-((x + y) ** 2)),
    ),
    Instruction(
        "logistic",
        lambda x, y: lax.logistic(lax.mul(x, np.float64(0.5))),
        lambda x, y: 1 / (1 + np.exp(-x / 2)),
    ),
    Instruction(
        "select",
        lambda x, y: lax.select(lax.gt(x, y), lax.sin(x), y),
        lambda x, y: np.where(x > y, np.sin(x), y),
    ),
    Instruction(
        "rev_cumsum", lambda x, y: lax.cumsum(lax.rev(x, (0,)), 0), lambda x, y: np.cumsum(x[::-1])
    ),
    Instruction("sum", lambda x, y: lax.add(total(x), y), lambda x, y: np.sum(x) + y),
    Instruction("outer_max", outer, lambda x, y: np.max(np.tanh(np.outer(x, y)), 0)),
    Instruction(
        "joined",
        lambda x, y: lax.slice(lax.concatenate([x, y], 0), (1,), (1 + 2 * N - 1,), (2,)),
        lambda x, y: np.concatenate([x, y])[1::2],
    ),
    Instruction("shifted", shifted, lambda x, y: np.concatenate([y[int(y[0] > 0) :][:2], x[2:]])),
    Instruction("ignored", lambda x, y: lax.stop_gradient(lax.cos(x)), lambda x, y: np.cos(x)),
)

Step = tuple[Instruction, int, int]


def run(program: Sequence[Step], xs: Sequence[Any], *, traced: bool) -> Any:
    """The last value of a program; an instruction reads values made before it, by their place from
    the end."""
    values = list(xs)
    for instruction, i, j in program:
        f = instruction.traced if traced else instruction.plain
        values.append(f(values[-1 - i % len(values)], values[-1 - j % len(values)]))
    return values[-1]


# Different instructions in one program: independent draws repeat a few of them.
programs = st.tuples(
    st.permutations(INSTRUCTIONS),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=6),
).map(lambda drawn: [(instruction, i, j) for instruction, (i, j) in zip(*drawn, strict=False)])

# Wrappers: functions of a function that leave what it computes as it is


def by_jvp(f: Function) -> Function:
    """d(s f(x)) / ds = f(x)."""
    return lambda *xs: jvp(
        lambda s: lax.mul(lax.broadcast(s, (N,)), f(*xs)), (np.float64(1),), (np.float64(1),)
    )[1]


def by_vjp(f: Function) -> Function:
    """The gradient of c . f(x) in c is f(x)."""

    def g(*xs: Any) -> Any:
        return vjp(lambda c: lax.dot(c, f(*xs)), np.ones(N))[1](np.float64(1))[0]

    return g


def by_linearize(f: Function) -> Function:
    def g(*xs: Any) -> Any:
        _, push = linearize(lambda c: lax.mul(c, f(*xs)), np.ones(N))
        return push(np.ones(N))

    return g


def by_vmap(axis: int) -> Function:
    def wrap(f: Function) -> Function:
        def g(*xs: Any) -> Any:
            stacked = [
                lax.concatenate([lax.expand_dims(v, (axis,)) for v in (lax.cos(x), x)], axis)
                for x in xs
            ]
            return lax.index_in_dim(
                vmap(f, in_axes=axis, out_axes=axis)(*stacked), 1, axis, keepdims=False
            )

        return g

    return wrap


def by_vmap_of_one(f: Function) -> Function:
    """The first operand mapped, the others not."""

    def g(x: Any, *xs: Any) -> Any:
        ys = vmap(f, in_axes=(0, *(None for _ in xs)))(lax.broadcast(x, (2,)), *xs)
        return lax.index_in_dim(ys, 0, 0, keepdims=False)

    return g


def with_custom_jvp(f: Function) -> Function:
    g = custom_jvp(f)
    g.defjvp(lambda primals, tangents: jvp(f, primals, tangents))
    return lambda *xs: g(*xs)


def with_custom_vjp(f: Function) -> Function:
    """The pullback itself, which is a pytree, is what is saved."""
    g = custom_vjp(f)
    g.defvjp(lambda *xs: vjp(f, *xs), lambda pullback, ct: pullback(ct))
    return lambda *xs: g(*xs)


def in_scan(f: Function) -> Function:
    """The operands are the scanned arrays."""
    return lambda *xs: lax.scan(
        lambda c, x: (f(*x), None), lax.sin(xs[0]), tuple(lax.broadcast(x, (1,)) for x in xs)
    )[0]


def in_scan_of_carries(f: Function) -> Function:
    """The first operand is the carry, the others are constants of the loop; the result is scanned
    out."""

    def g(x: Any, *xs: Any) -> Any:
        _, ys = lax.scan(lambda c, _: (lax.sin(c), f(c, *xs)), x, None, length=2)
        return lax.index_in_dim(ys, 0, 0, keepdims=False)

    return g


def in_cond(taken: bool) -> Function:
    def wrap(f: Function) -> Function:
        def g(*xs: Any) -> Any:
            pred = lax.lt(
                lax.reduce_sum(lax.abs(xs[0]), (0,)), np.float64(np.inf if taken else -1.0)
            )
            branches = (f, lambda *xs: lax.cos(xs[0])) if taken else (lambda *xs: lax.cos(xs[0]), f)
            return lax.cond(pred, *branches, *xs)

        return g

    return wrap


def in_fori(f: Function) -> Function:
    """One step of a loop of known length."""
    return lambda x, *xs: lax.fori_loop(0, 1, lambda i, c: f(c, *xs), x)


def in_while(f: Function) -> Function:
    """One step of a loop of unknown length."""

    def g(x: Any, *xs: Any) -> Any:
        return lax.while_loop(
            lambda c: lax.lt(c[0], np.int32(1)),
            lambda c: (lax.add(c[0], np.int32(1)), f(c[1], *xs)),
            (np.int32(0), x),
        )[1]

    return g


def by_jaxpr(f: Function) -> Function:
    def g(*xs: Any) -> Any:
        closed = make_jaxpr(f)(*xs)
        check_jaxpr(closed.jaxpr)
        return eval_jaxpr(closed.jaxpr, closed.consts, *xs)[0]

    return g


WRAPPERS: dict[str, Function] = {
    "jit": jit,
    "checkpoint": checkpoint,
    "jvp": by_jvp,
    "vjp": by_vjp,
    "linearize": by_linearize,
    "vmap 0": by_vmap(0),
    "vmap 1": by_vmap(1),
    "vmap of one": by_vmap_of_one,
    "custom_jvp": with_custom_jvp,
    "custom_vjp": with_custom_vjp,
    "scan": in_scan,
    "scan of carries": in_scan_of_carries,
    "cond": in_cond(True),
    "cond not": in_cond(False),
    "fori": in_fori,
    "while": in_while,
    "jaxpr": by_jaxpr,
}

# What stands round and in the wrapper that a test is about.
nestings = st.lists(st.sampled_from(sorted(WRAPPERS)), max_size=2)
each_wrapper = pytest.mark.parametrize("wrapper", some(sorted(WRAPPERS), 2))


def wrapped(f: Function, nesting: Sequence[str]) -> Function:
    for name in nesting:
        f = WRAPPERS[name](f)
    return f


def derivatives(
    f: Function, xs: Any, ts: Any, ct: Any, *, forward: bool, reverse: bool
) -> dict[str, Any]:
    """Value and derivatives: in forward and reverse mode, and forward over reverse."""
    found: dict[str, Any] = {"value": f(*xs)}
    if forward:
        found["tangent"] = jvp(f, xs, ts)[1]
    if reverse:
        found["cotangents"] = vjp(f, *xs)[1](ct)
    if forward and reverse:
        found["second"] = jvp(lambda *v: vjp(f, *v)[1](ct), xs, ts)[1]
    return found


def operands(seed: int, *shape: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    return tuple(rng.uniform(-1.5, 1.5, (*shape, N)) for _ in range(2))


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        pairs = (
            zip(found[name], value, strict=True)
            if isinstance(value, tuple | list)
            else [(found[name], value)]
        )
        for got, right in pairs:
            np.testing.assert_allclose(got, right, rtol=1e-11, atol=1e-11, err_msg=name)


@each_wrapper
@settings(max_examples=4)
@given(
    program=programs,
    inner=nestings,
    outer=nestings,
    seed=st.integers(0, 99),
    compiled=st.booleans(),
)
def test_wrapped_program_is_the_program(
    wrapper: str, program: Any, inner: Any, outer: Any, seed: int, compiled: bool
) -> None:
    """Value, tangents, cotangents and second derivatives are those of the bare program; its value
    is NumPy's."""
    check_wrapped(program, [*inner, wrapper, *outer], seed, compiled=compiled)


def check_wrapped(program: Any, nesting: Sequence[str], seed: int, *, compiled: bool) -> None:
    def f(*xs: Any) -> Any:
        return run(program, xs, traced=True)

    xs, ts, (ct, _) = operands(seed), operands(seed + 1), operands(seed + 2)
    modes = {"forward": "custom_vjp" not in nesting, "reverse": True}
    with config.enable_x64(True):
        g = wrapped(f, nesting)
        found = (
            derivatives(g, xs, ts, ct, **modes)
            if not compiled
            else jit(lambda *args: derivatives(g, *args, **modes))(xs, ts, ct)
        )
        expected = derivatives(f, xs, ts, ct, **modes)
    np.testing.assert_allclose(
        expected["value"], run(program, xs, traced=False), rtol=1e-12, atol=1e-12
    )
    assert_same(found, expected)


@each_wrapper
@settings(max_examples=3)
@given(
    program=programs,
    inner=nestings,
    seed=st.integers(0, 99),
    axes=st.sampled_from([(0, 0), (0, None), (None, 0), (1, 0), (1, 1)]),
)
def test_mapped_program_is_the_loop(
    wrapper: str, program: Any, inner: Any, seed: int, axes: Any
) -> None:
    """vmap of a wrapped program, and of its gradient, gives the results of the loop."""
    nesting = [*inner, wrapper]

    def f(*xs: Any) -> Any:
        return run(program, xs, traced=True)

    def gradient(h: Function) -> Function:
        return lambda *xs: vjp(h, *xs)[1](np.ones(N))

    batches = operands(seed, 2)
    xs = [x[0] if a is None else np.moveaxis(x, 0, a) for x, a in zip(batches, axes, strict=True)]
    rows = [
        [x[0] if a is None else x[k] for x, a in zip(batches, axes, strict=True)] for k in range(2)
    ]
    with config.enable_x64(True):
        g = wrapped(f, nesting)
        mapped = {
            "value": vmap(g, in_axes=axes)(*xs),
            "gradient": vmap(gradient(g), in_axes=axes)(*xs),
        }
        looped = [{"value": f(*row), "gradient": gradient(f)(*row)} for row in rows]
    assert_same(
        mapped,
        {
            "value": np.stack([y["value"] for y in looped]),
            "gradient": [np.stack(ys) for ys in zip(*(y["gradient"] for y in looped), strict=True)],
        },
    )


@each_wrapper
@settings(max_examples=2)
@given(program=programs, inner=nestings, outer=nestings, seed=st.integers(0, 99))
def test_passes_change_no_bit(
    wrapper: str, program: Any, inner: Any, outer: Any, seed: int
) -> None:
    """Nor those of derivatives: each pass over the traced program, run primitive by primitive
    before and after."""
    nesting = [*inner, wrapper, *outer]
    modes = {
        "forward": "custom_vjp" not in nesting,
        "reverse": "custom_vjp" not in nesting,
    }
    xs, ts, (ct, _) = operands(seed), operands(seed + 1), operands(seed + 2)
    with config.enable_x64(True):
        f = wrapped(lambda *xs: run(program, xs, traced=True), nesting)
        closed = make_jaxpr(lambda *args: derivatives(f, *args, **modes))(xs, ts, ct)
        check_each_pass(hoist_consts(closed.jaxpr).jaxpr, *closed.consts, *xs, *ts, ct)


@pytest.mark.slow
@settings(max_examples=500)
@given(
    programs,
    st.lists(st.sampled_from(sorted(WRAPPERS)), min_size=4, max_size=6),
    st.integers(0, 99),
)
def test_deeply_wrapped_program_is_the_program(program: Any, nesting: Any, seed: int) -> None:
    """As above, for deeper nestings."""
    check_wrapped(program, nesting, seed, compiled=True)

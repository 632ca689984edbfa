"""Entries of control flow: branches, loops, scans, and solvers with derivatives of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from optable.table import Draw, Op, Sample, bad, sample

from teucer import lax

F = np.float32
FLOATS = ("float32", "float64")
# A loop of a few steps rounds in each of them.
STEPS = 16


def like(x: Any, value: float) -> Any:
    return np.asarray(value, x.dtype)


def rnn_step(carry: Any, x: Any) -> Any:
    h, n = carry
    h = lax.tanh(lax.add(lax.mul(h, like(x, 0.5)), x))
    return (h, lax.add(n, np.int32(1))), lax.mul(h, h)


def scanned(init: Any, xs: Any, **options: Any) -> Any:
    (h, n), ys = lax.scan(rnn_step, (init, np.int32(0)), xs, **options)
    return h, n, ys


def scan_expected(init: Any, xs: Any, reverse: bool = False, **options: Any) -> Any:
    h, ys = init, []
    for x in xs[::-1] if reverse else xs:
        h = np.tanh(h * 0.5 + x)
        ys.append(h * h)
    ys = np.stack(ys[::-1] if reverse else ys) if ys else np.zeros((0, *np.shape(init)))
    return [h, np.array(len(xs)), ys]


def scans(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(3), draw(4, 3))
    yield sample(draw(), draw(5), reverse=True, unroll=2)
    yield sample(draw(2), draw(3, 2), unroll=True)
    yield sample(draw(2), draw(0, 2))


def closed_scan(a: Any, init: Any) -> Any:
    """The closed-over array is a constant of the loop: its cotangents are added up over the
    steps."""
    return lax.scan(lambda c, _: (lax.mul(lax.sin(c), a), None), init, None, length=3)[0]


def scan_of_parts(c: Any, a: Any, b: Any, x: Any, ys: Any) -> Any:
    """The body closes over c; of the carry a does not change, b follows from the two, and x from
    b; of what is stacked one is given, and one is the same in each step."""

    def step(carry: Any, y: Any) -> Any:
        n, a, b, x = carry
        new = lax.add(n, np.int32(1)), a, lax.mul(lax.sin(a), c), lax.add(lax.mul(x, b), y)
        return new, (y, lax.mul(c, c), lax.add(x, a))

    (n, *rest), stacked = lax.scan(step, (np.int32(2), a, b, x), ys)
    return n, *rest, *stacked


def scan_of_parts_expected(c: Any, a: Any, b: Any, x: Any, ys: Any) -> Any:
    sums = []
    for y in ys:
        sums.append(x + a)
        b, x = np.sin(a) * c, x * b + y
    return [np.array(2 + len(ys)), a, b, x, ys, np.stack([c * c] * len(ys)), np.stack(sums)]


def loop_of_parts(limit: Any, c: Any, a: Any, b: Any, x: Any) -> Any:
    """The condition closes over limit, the body over c; the carry is that of `scan_of_parts`."""

    def step(carry: Any) -> Any:
        n, a, b, x = carry
        return lax.add(n, np.int32(1)), a, lax.mul(lax.sin(a), c), lax.add(lax.mul(x, b), c)

    return lax.while_loop(lambda carry: lax.lt(carry[0], limit), step, (np.int32(2), a, b, x))


def loop_of_parts_expected(limit: Any, c: Any, a: Any, b: Any, x: Any) -> Any:
    n = 2
    while n < limit:
        n, b, x = n + 1, np.sin(a) * c, x * b + c
    return [np.array(n), a, b, x]


def branches_of_parts(p: Any, a: Any, b: Any, x: Any) -> Any:
    """The branches close over other values; one gives its operand, one what it closes over, and
    one a number."""
    return lax.cond(
        p,
        lambda u: (lax.mul(u, a), u, like(u, 2.0)),
        lambda u: (b, lax.sin(a), lax.reduce_sum(b, (0,))),
        x,
    )


def branches_of_parts_expected(p: Any, a: Any, b: Any, x: Any) -> Any:
    return [x * a, x, np.array(2.0)] if p else [b, np.sin(a), b.sum()]


def branches(p: Any, x: Any, y: Any) -> Any:
    return lax.cond(
        p,
        lambda u, v: (lax.sin(u), lax.mul(u, v)),
        lambda u, v: (lax.mul(u, like(u, 2.0)), lax.add(u, v)),
        x,
        y,
    )


def branches_expected(p: Any, x: Any, y: Any) -> Any:
    return [np.sin(x), x * y] if p else [2 * x, x + y]


def conds(draw: Draw) -> Iterable[Sample]:
    yield sample(np.array(True), draw(3), draw(3))
    yield sample(np.array(False), draw(), draw())


def switched(i: Any, x: Any) -> Any:
    return lax.switch(i, [lax.sin, lambda u: lax.mul(u, u), lambda u: lax.mul(u, like(u, 0.0))], x)


def switches(draw: Draw) -> Iterable[Sample]:
    for i in (0, 1, 7, -3):  # beyond the ends the nearest branch
        yield sample(np.int32(i), draw(3))


def switch_expected(i: Any, x: Any) -> Any:
    return (np.sin(x), x * x, 0 * x)[int(np.clip(i, 0, 2))]


def doubled_until(limit: Any, x: Any) -> Any:
    return lax.while_loop(
        lambda c: lax.lt(lax.reduce_sum(lax.abs(c[0]), tuple(range(c[0].ndim))), limit),
        lambda c: (lax.mul(c[0], like(c[0], 2.0)), lax.add(c[1], np.int32(1))),
        (x, np.int32(0)),
    )


def doubled_expected(limit: Any, x: Any) -> Any:
    n = 0
    while np.sum(np.abs(x)) < limit:
        x, n = x * 2, n + 1
    return [x, np.array(n)]


def loops(draw: Draw) -> Iterable[Sample]:
    yield sample(np.asarray(20, draw.dtype), draw(3, low=0.5, high=1))
    yield sample(np.asarray(2, draw.dtype), draw(low=0.5, high=1))


def repeated(x: Any, y: Any, n: int) -> Any:
    """A loop of known length, which has a gradient of either mode."""
    return lax.fori_loop(
        0, n, lambda i, c: lax.add(lax.sin(c), lax.mul(y, lax.convert_element_type(i, x.dtype))), x
    )


def repeated_expected(x: Any, y: Any, n: int) -> Any:
    for i in range(n):
        x = np.sin(x) + y * i
    return x


def repeated_traced(x: Any, n: Any) -> Any:
    """A loop of a length that is data: forward mode only."""
    return lax.fori_loop(np.int32(0), n, lambda i, c: lax.sin(c), x)


def sine_n(x: Any, n: Any) -> Any:
    for _ in range(int(n)):
        x = np.sin(x)
    return x


def mapped(xs: Any, **options: Any) -> Any:
    return lax.map(lambda x: lax.mul(lax.sin(x), x), xs, **options)


def affine(p: Any, q: Any) -> Any:
    return lax.mul(q[0], p[0]), lax.add(lax.mul(q[0], p[1]), q[1])


def associative(a: Any, b: Any, **options: Any) -> Any:
    return lax.associative_scan(affine, (a, b), **options)


def associative_expected(a: Any, b: Any, reverse: bool = False) -> Any:
    a, b = (a[::-1], b[::-1]) if reverse else (a, b)
    ps, qs = [a[0]], [b[0]]
    for c, d in zip(a[1:], b[1:], strict=True):
        ps.append(c * ps[-1])
        qs.append(c * qs[-1] + d)
    return [np.stack(v[::-1] if reverse else v) for v in (ps, qs)]


def matvec(a: Any) -> Callable[[Any], Any]:
    return lambda v: lax.dot(a, v)


def dense_solve(operator: Callable[[Any], Any], b: Any) -> Any:
    """Solve with the matrix that the operator has: its columns are the images of the unit
    vectors."""
    a = lax.concatenate(
        [lax.expand_dims(operator(e), (1,)) for e in np.eye(b.shape[0], dtype=b.dtype)], 1
    )
    q, r = lax.linalg.qr(a)
    solved = lax.linalg.triangular_solve(
        r, lax.expand_dims(lax.dot(lax.transpose(q, (1, 0)), b), (1,)), left_side=True
    )
    return lax.squeeze(solved, (1,))


def linear_solve(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(matvec(a), b, dense_solve, transpose_solve=dense_solve)


def systems(draw: Draw) -> Iterable[Sample]:
    yield sample((draw(3, 3, low=-0.5, high=0.5) + 3 * np.eye(3)).astype(draw.dtype), draw(3))


def cube_root(x: Any) -> Any:
    """The root of y^3 = x by Newton's method: its derivative comes from the equation, not from the
    steps."""

    def newton(f: Callable[[Any], Any], y: Any) -> Any:
        return lax.fori_loop(
            0, 40, lambda i, y: lax.sub(y, lax.div(f(y), lax.mul(like(x, 3.0), lax.mul(y, y)))), y
        )

    return lax.custom_root(
        lambda y: lax.sub(lax.mul(lax.mul(y, y), y), x),
        lax.full_like(x, 1.5),
        newton,
        lambda g, y: lax.div(y, g(lax.full_like(y, 1.0))),
    )


OPS = [
    Op(
        "scan",
        scanned,
        scans,
        FLOATS,
        reference=scan_expected,
        ulp=STEPS,
        errors=[
            bad(ValueError, r"scan.*no leading axis.*xs: f32\[\]", np.ones(3, F), np.ones((), F))
        ],
    ),
    Op(
        "scan_constants",
        closed_scan,
        lambda draw: [sample(draw(3), draw(3))],
        FLOATS,
        ulp=STEPS,
        reference=lambda a, c: np.sin(np.sin(np.sin(c) * a) * a) * a,
    ),
    Op(
        "cond",
        branches,
        conds,
        FLOATS,
        reference=branches_expected,
        errors=[
            bad(
                TypeError,
                r"Pred must be a scalar.*\(2,\)",
                np.ones(2, bool),
                np.ones(2, F),
                np.ones(2, F),
            ),
            bad(
                TypeError,
                r"add got incompatible shapes.*\(2,\), \(3,\)",
                np.array(True),
                np.ones(2, F),
                np.ones(3, F),
            ),
        ],
    ),
    Op(
        "scan_of_parts",
        scan_of_parts,
        lambda draw: [sample(draw(3), draw(3), draw(3), draw(3), draw(2, 3))],
        FLOATS,
        reference=scan_of_parts_expected,
        ulp=STEPS,
    ),
    Op(
        "loop_of_parts",
        loop_of_parts,
        lambda draw: [sample(np.int32(draw.index(3) + 3), draw(3), draw(3), draw(3), draw(3))],
        FLOATS,
        reference=loop_of_parts_expected,
        ulp=STEPS,
    ),
    Op(
        "branches_of_parts",
        branches_of_parts,
        lambda draw: [
            sample(np.array(True), draw(3), draw(3), draw(3)),
            sample(np.array(False), draw(3), draw(3), draw(3)),
        ],
        FLOATS,
        reference=branches_of_parts_expected,
    ),
    Op(
        "switch",
        switched,
        switches,
        FLOATS,
        reference=switch_expected,
        errors=[
            bad(TypeError, r"index must be scalar.*\(2,\)", np.ones(2, np.int32), np.ones(2, F)),
            bad(TypeError, "Index type must be an integer.*float32", F(0), np.ones(2, F)),
        ],
    ),
    Op(
        "while_loop",
        doubled_until,
        loops,
        FLOATS,
        reference=doubled_expected,
        constant=(0,),
    ),
    Op(
        "fori_loop",
        repeated,
        lambda draw: [sample(draw(3), draw(3), n=3), sample(draw(), draw(), n=0)],
        FLOATS,
        reference=repeated_expected,
        ulp=STEPS,
    ),
    Op(
        "fori_loop_traced",
        repeated_traced,
        lambda draw: [sample(draw(3), np.int32(4))],
        FLOATS,
        reference=sine_n,
        ulp=STEPS,
    ),
    Op(
        "map",
        mapped,
        lambda draw: [sample(draw(3, 2)), sample(draw(5, 2), batch_size=2)],
        FLOATS,
        reference=lambda xs, batch_size=None: np.sin(xs) * xs,
    ),
    Op(
        "associative_scan",
        associative,
        lambda draw: [
            sample(draw(5, low=-1, high=1), draw(5)),
            sample(draw(4, low=-1, high=1), draw(4), reverse=True),
        ],
        FLOATS,
        reference=associative_expected,
        ulp=STEPS,
    ),
    Op(
        "custom_linear_solve", linear_solve, systems, FLOATS, reference=np.linalg.solve, ulp=64
    ),  # by a factorization
    Op(
        "custom_root",
        cube_root,
        lambda draw: [sample(draw(3, low=1, high=4))],
        FLOATS,
        reference=np.cbrt,
        ulp=STEPS,
    ),
    Op(
        "optimization_barrier",
        lambda x, y: lax.optimization_barrier((x, y)),
        lambda draw: [sample(draw(3), draw(2))],
        FLOATS,
        reference=lambda x, y: [x, y],
        ulp=0,
    ),
    Op(
        "platform_dependent",
        lambda x: lax.platform_dependent(x, default=lax.cos, tpu=lax.sin),
        lambda draw: [sample(draw(3))],
        FLOATS,
        reference=np.cos,
    ),
]

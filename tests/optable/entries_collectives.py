"""Entries of collectives over the axis of a vmap, which makes ordinary operations of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from optable.table import ALL, NUMBERS, Draw, Op, Sample, bad, sample

from teucer import lax
from teucer._transform.vmap import vmap

FLOATS = ("float32", "float64")
TURN = ((0, 1), (1, 2), (2, 0))


def over(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """f(x, "i") mapped over the first axis of x."""
    return lambda x: vmap(lambda v: f(v, "i", **options), axis_name="i")(x)


def over_two(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """f(x, ("i", "j")) mapped over the first two axes of x."""
    return lambda x: vmap(
        vmap(lambda v: f(v, ("i", "j"), **options), axis_name="j"), axis_name="i"
    )(x)


def threes(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(3, 2))
    yield sample(draw(3))


def squares(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(3, 3, 2))


def wide(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(3, 6, 2))


def double(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(2, 3, 6))
    yield sample(draw(2, 3, 6, 2))


def repeated(y: Any, n: int) -> Any:
    return np.broadcast_to(y, (n, *np.shape(y)))


def parts(x: Any, n: int) -> Any:
    """Axis 1 in n parts: [element, part, ...]."""
    return x.reshape(x.shape[0], n, x.shape[1] // n, *x.shape[2:])


def tiled_all_to_all(x: Any) -> Any:
    """Element j gets part j of each, joined along axis 1 of its operand."""
    p = parts(x, 3)
    return np.stack([np.concatenate(p[:, j], 1) for j in range(3)])


def flat(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The reference over two axes, from that over both as one."""

    def both(x: Any) -> Any:
        y = f(x.reshape(6, *x.shape[2:]))
        return y.reshape(2, 3, *y.shape[1:])

    return both


def mean_free(x: Any, axis: Any) -> Any:
    centred = lax.sub(x, lax.pmean(x, axis))
    return lax.mul(
        centred,
        lax.rsqrt(lax.add(lax.pmean(lax.mul(centred, centred), axis), np.asarray(0.5, x.dtype))),
    )


def mean_free_expected(x: Any) -> Any:
    centred = x - x.mean(0)
    return centred / np.sqrt((centred**2).mean(0) + 0.5)


OPS = [
    Op(
        "psum",
        over(lax.psum),
        threes,
        NUMBERS,
        reference=lambda x: repeated(x.sum(0, dtype=x.dtype), 3),
        ulp=8,
    ),
    Op(
        "psum over two",
        over_two(lax.psum),
        double,
        FLOATS,
        reference=flat(lambda x: repeated(x.sum(0), 6)),
        ulp=8,
    ),
    Op("pmean", over(lax.pmean), threes, FLOATS, reference=lambda x: repeated(x.mean(0), 3), ulp=8),
    Op(
        "pmax",
        over(lax.pmax),
        lambda draw: [sample(draw.distinct(3, 2))],
        ALL,
        reference=lambda x: repeated(x.max(0), 3),
        widen="no",
    ),
    Op(
        "pmin",
        over(lax.pmin),
        lambda draw: [sample(draw.distinct(3, 2))],
        ALL,
        reference=lambda x: repeated(x.min(0), 3),
        widen="no",
    ),
    Op(
        "axis_index",
        over(lambda x, axis: lax.mul(x, lax.convert_element_type(lax.axis_index(axis), x.dtype))),
        lambda draw: [sample(draw(3))],
        FLOATS,
        reference=lambda x: x * np.arange(3),
    ),
    Op(
        "all_gather",
        over(lax.all_gather, axis=1),
        lambda draw: [sample(draw(3, 2))],
        ALL,
        reference=lambda x: repeated(np.moveaxis(x, 0, 1), 3),
    ),
    Op(
        "all_gather tiled",
        over(lax.all_gather, tiled=True),
        lambda draw: [sample(draw(3, 2))],
        FLOATS,
        reference=lambda x: repeated(x.reshape(-1), 3),
        errors=[bad(ValueError, "axis 0 is out of bounds", np.ones(3, "f"))],
    ),
    Op(
        "all_gather over two",
        over_two(lax.all_gather),
        double,
        FLOATS,
        reference=flat(lambda x: repeated(x, 6)),
    ),
    Op(
        "all_gather over two, tiled",
        over_two(lax.all_gather, tiled=True),
        double,
        FLOATS,
        reference=flat(lambda x: repeated(np.concatenate(x), 6)),
    ),
    Op(
        "psum_scatter",
        over(lax.psum_scatter),
        squares,
        FLOATS,
        reference=lambda x: x.sum(0),
        ulp=8,
        errors=[bad(ValueError, r"size 2 must match shard count 3", np.ones((3, 2), "f"))],
    ),
    Op(
        "psum_scatter tiled",
        over(lax.psum_scatter, tiled=True),
        wide,
        FLOATS,
        reference=lambda x: parts(x, 3).sum(0),
        ulp=8,
        errors=[
            bad(ValueError, r"size 2 must be divisible by shard count 3", np.ones((3, 2), "f"))
        ],
    ),
    Op(
        "psum_scatter over two",
        over_two(lax.psum_scatter),
        double,
        FLOATS,
        reference=flat(lambda x: x.sum(0)),
        ulp=16,
    ),
    Op(
        "all_to_all",
        over(lax.all_to_all, split_axis=0, concat_axis=1),
        squares,
        FLOATS,
        reference=lambda x: np.moveaxis(x, 0, 2),
        errors=[
            bad(
                ValueError,
                "equal x.shape.split_axis., but they are 3 and 2",
                np.ones((3, 2, 3), "f"),
            )
        ],
    ),
    Op(
        "all_to_all backwards",
        over(lax.all_to_all, split_axis=1, concat_axis=0),
        lambda draw: [sample(draw(3, 2, 3))],
        FLOATS,
        reference=lambda x: np.moveaxis(x, 2, 0),
    ),
    Op(
        "all_to_all tiled",
        over(lax.all_to_all, split_axis=0, concat_axis=1, tiled=True),
        wide,
        FLOATS,
        reference=tiled_all_to_all,
        errors=[
            bad(
                ValueError,
                r"\(2\) has to be divisible by the size of the named axis i \(3\)",
                np.ones((3, 2, 3), "f"),
            )
        ],
    ),
    Op(
        "all_to_all over two",
        over_two(lax.all_to_all, split_axis=0, concat_axis=0, tiled=True),
        double,
        FLOATS,
        reference=flat(lambda x: np.swapaxes(x, 0, 1)),
    ),
    Op(
        "pswapaxes",
        over(lax.pswapaxes, axis=1),
        lambda draw: [sample(draw(3, 2, 3))],
        FLOATS,
        reference=lambda x: np.swapaxes(x, 0, 2),
    ),
    Op("ppermute", over(lax.ppermute, perm=TURN), threes, ALL, reference=lambda x: x[[2, 0, 1]]),
    Op(
        "ppermute of some",
        over(lax.ppermute, perm=TURN[:1]),
        threes,
        FLOATS,
        reference=lambda x: np.stack([x[0] * 0, x[0], x[0] * 0]),
    ),
    Op(
        "ppermute over two",
        over_two(lax.ppermute, perm=tuple((i, (i + 1) % 6) for i in range(6))),
        double,
        FLOATS,
        reference=flat(lambda x: np.roll(x, 1, 0)),
    ),
    Op(
        "pshuffle",
        over(lax.pshuffle, perm=(2, 0, 1)),
        threes,
        FLOATS,
        reference=lambda x: x[[2, 0, 1]],
    ),
    Op(
        "pbroadcast",
        over(lax.pbroadcast, source=1),
        threes,
        FLOATS,
        reference=lambda x: repeated(x[1], 3),
    ),
    Op(
        "pbroadcast over two",
        over_two(lax.pbroadcast, source=4),
        double,
        FLOATS,
        reference=flat(lambda x: repeated(x[4], 6)),
    ),
    Op(
        "normalised over a named axis",
        over(mean_free),
        threes,
        FLOATS,
        reference=mean_free_expected,
        ulp=32,
    ),
]

"""Entries of reductions, cumulative reductions and windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from optable.table import Draw, Op, Sample, bad, sample

from teucer import lax
from teucer._derived.staging import make_jaxpr
from teucer.lax._windows import select_and_scatter_p

F = np.float32
NUMERIC = ("int32", "float32", "float64", "complex64", "complex128", "bfloat16", "uint8")
ORDERED = ("bool", "int32", "float32", "float64", "bfloat16", "uint8")
BITS = ("bool", "int32", "uint8")
REAL = ("int32", "float32", "float64")


def reduction(name: str, reference: Callable[..., Any], dtypes: Any, **options: Any) -> Op:
    def samples(draw: Draw) -> Iterable[Sample]:
        yield sample(
            draw.distinct(3, 4) if name in ("reduce_max", "reduce_min") else draw(3, 4), axes=(1,)
        )
        yield sample(
            draw.distinct(2, 3, 2) if name in ("reduce_max", "reduce_min") else draw(2, 3, 2),
            axes=(0, 2),
        )
        yield sample(draw(3, 2), axes=())
        yield sample(draw(2, 0), axes=(0,))
        yield sample(
            draw.distinct(2, 3, 2) if name in ("reduce_max", "reduce_min") else draw(2, 3, 2),
            axes=(2, 1),
        )

    shape = np.ones((3, 2), bool if "float32" not in dtypes else F)
    return Op(
        name,
        f"lax.{name}",
        samples,
        dtypes,
        reference=lambda x, axes: reference(x, axis=axes) if axes else x,
        errors=[
            bad(ValueError, "(?s)axis 2.*out of bounds|out-of-bounds.*2", shape, axes=(2,)),
            bad(ValueError, "duplicate value in 'axes'", shape, axes=(0, 0)),
        ],
        **options,
    )


def args_of(draw: Draw) -> Iterable[Sample]:
    yield sample(draw.distinct(3, 4), axis=1, index_dtype=np.dtype(np.int32))
    yield sample(draw(3, 4), axis=0, index_dtype=np.dtype(np.uint8))
    yield sample(draw.distinct(2, 3, 2), axis=0, index_dtype=np.dtype(np.int32))


def cumulative(name: str, reference: Callable[..., Any], dtypes: Any, **options: Any) -> Op:
    def samples(draw: Draw) -> Iterable[Sample]:
        extreme = name in ("cummax", "cummin")
        yield sample(draw.distinct(3, 5) if extreme else draw(3, 5, low=-2, high=2), axis=1)
        yield sample(
            draw.distinct(5, 2) if extreme else draw(5, 2, low=-2, high=2), axis=0, reverse=True
        )
        yield sample(draw(0, 2), axis=0)
        yield sample(draw(1, 2), axis=0, reverse=True)
        yield sample(
            draw.distinct(19, 2) if extreme else draw(19, 2, low=-1, high=1), axis=0, reverse=True
        )

    def scanned(x: Any, axis: int, reverse: bool = False) -> Any:
        return np.flip(reference(np.flip(x, axis), axis), axis) if reverse else reference(x, axis)

    return Op(
        name,
        f"lax.{name}",
        samples,
        dtypes,
        reference=scanned,
        errors=[
            bad(ValueError, "axis 2 is out of bounds", np.ones((2, 2), F), axis=2),
            bad(
                TypeError,
                f"{name} does not accept dtype bool. Accepted dtypes are subtypes of "
                f"{'floating, complexfloating' if name == 'cumlogsumexp' else 'number'}",
                np.ones(2, bool),
            ),
        ],
        **options,
    )


def reduced(f: str) -> Callable[..., Any]:
    """The general reduction by a function that is not one of the named ones."""

    def apply(x: Any, init: Any, dimensions: Any) -> Any:
        return lax.reduce(
            x,
            init,
            (lambda a, b: lax.add(lax.add(a, b), lax.mul(a, b)))
            if f == "made"
            else getattr(lax, f),
            dimensions,
        )

    return apply


def reduced_pairs(a: Any, b: Any) -> Any:
    """The product of the maps x -> a x + b."""
    one, zero = (np.asarray(v, a.dtype) for v in (1, 0))
    return lax.reduce(
        (a, b),
        (one, zero),
        lambda f, g: (lax.mul(f[0], g[0]), lax.add(lax.mul(f[1], g[0]), g[1])),
        (0,),
    )


def joined(x: Any, init: Any, dimensions: Any) -> Any:
    """a + b + ab = (1 + a) (1 + b) - 1."""
    return np.prod(1 + x, axis=dimensions) * (1 + init) - 1


WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {"window_dimensions": (2, 3), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))},
    "strided": {"window_dimensions": (2, 2), "window_strides": (2, 1), "padding": ((1, 0), (0, 1))},
    "dilated": {
        "window_dimensions": (2, 2),
        "window_strides": (1, 1),
        "padding": ((0, 0), (1, 1)),
        "base_dilation": (2, 1),
        "window_dilation": (1, 2),
    },
    "all": {
        "window_dimensions": (3, 2),
        "window_strides": (2, 1),
        "padding": ((2, 1), (1, 1)),
        "base_dilation": (2, 1),
        "window_dilation": (1, 2),
    },
    "least said": {"window_dimensions": (2, 2)},
}


def windows_of(
    x: Any,
    init: Any,
    window_dimensions: Any,
    window_strides: Any = (1, 1),
    padding: Any = ((0, 0), (0, 0)),
    base_dilation: Any = (1, 1),
    window_dilation: Any = (1, 1),
) -> Any:
    """All windows of a matrix: [places, elements of a window]."""
    for axis in range(2):
        n = x.shape[axis]
        shape = list(x.shape)
        shape[axis] = (n - 1) * base_dilation[axis] + 1
        spread = np.full(shape, init, x.dtype)
        spread[(slice(None),) * axis + (slice(None, None, base_dilation[axis]),)] = x
        x = spread
    x = np.pad(x, padding, constant_values=init)
    rows, columns = (
        [i * s for i in range((n - ((w - 1) * d + 1)) // s + 1)]
        for n, w, s, d in zip(
            x.shape, window_dimensions, window_strides, window_dilation, strict=True
        )
    )
    return np.array(
        [
            [
                [
                    x[i + a * window_dilation[0], j + b * window_dilation[1]]
                    for a in range(window_dimensions[0])
                    for b in range(window_dimensions[1])
                ]
                for j in columns
            ]
            for i in rows
        ]
    )


def windowed(
    name: str,
    function: str,
    init: Any,
    reference: Callable[..., Any],
    dtypes: Any,
    forms: Any = tuple(WINDOWS),
    **options: Any,
) -> Op:
    def start(x: Any) -> Any:
        if init in ("lowest", "highest"):
            if x.dtype.kind == "f":
                return x.dtype.type(-np.inf if init == "lowest" else np.inf)
            return np.iinfo(x.dtype).min if init == "lowest" else np.iinfo(x.dtype).max
        return init

    def apply(x: Any, form: str) -> Any:
        f = (
            (lambda a, b: lax.add(lax.add(a, b), lax.mul(a, b)))
            if function == "made"
            else getattr(lax, function)
        )
        return lax.reduce_window(
            x, np.asarray(start(np.zeros((), x.dtype)), x.dtype), f, **WINDOWS[form]
        )

    return Op(
        name,
        apply,
        lambda draw: [
            sample(
                draw.distinct(5, 4)
                if init in ("lowest", "highest")
                else draw(5, 4, low=-1, high=1),
                form=form,
            )
            for form in forms
        ],
        dtypes,
        reference=lambda x, form: reference(windows_of(x, start(x), **WINDOWS[form]), axis=-1),
        **options,
    )


def scattered(x: Any, source: Any) -> Any:
    """Each element of source is added to the place of the greatest element of its window."""
    scalar = np.zeros((), x.dtype)
    select, add = (make_jaxpr(f)(scalar, scalar) for f in (lax.ge, lax.add))
    return select_and_scatter_p.call(
        x,
        source,
        scalar,
        select_jaxpr=select,
        select_consts=(),
        scatter_jaxpr=add,
        scatter_consts=(),
        window_dimensions=(2,),
        window_strides=(2,),
        padding=((0, 0),),
    )[0]


def scatter_expected(x: Any, source: Any) -> Any:
    y = np.zeros_like(x)
    for i, v in enumerate(source):
        y[2 * i + np.argmax(x[2 * i : 2 * i + 2])] += v
    return y


OPS = [
    reduction("reduce_sum", np.sum, NUMERIC, ulp=8),  # eight terms, added in any order
    reduction("reduce_prod", np.prod, NUMERIC, ulp=8),  # as many factors
    reduction(
        "reduce_max", lambda x, axis: np.max(x, axis) if x.size else np.zeros(0), ORDERED, ulp=0
    ),
    reduction(
        "reduce_min", lambda x, axis: np.min(x, axis) if x.size else np.zeros(0), ORDERED, ulp=0
    ),
    reduction("reduce_and", np.bitwise_and.reduce, BITS, quick=("bool",)),
    reduction("reduce_or", np.bitwise_or.reduce, BITS, quick=("bool",)),
    reduction("reduce_xor", np.bitwise_xor.reduce, BITS, quick=("bool", "int32")),
    Op(
        "argmax",
        "lax.argmax",
        args_of,
        ORDERED,
        quick=("int32", "float32"),
        gradients=(),
        reference=lambda x, axis, index_dtype: np.argmax(x, axis),
        errors=[
            bad(
                ValueError,
                r"axis 1 for operand shape \(3,\)|argmax.*axis 1",
                np.ones(3, F),
                axis=1,
                index_dtype=np.dtype(np.int32),
            ),
            bad(
                TypeError,
                "index_dtype must be an integer type, but got float32",
                np.ones(3, F),
                axis=0,
                index_dtype=np.dtype(F),
            ),
            bad(
                ValueError,
                "argmax.*(empty|size|non-zero|at least)",
                np.ones((2, 0), F),
                axis=1,
                index_dtype=np.dtype(np.int32),
            ),
        ],
    ),
    Op(
        "argmin",
        "lax.argmin",
        args_of,
        ORDERED,
        quick=("int32", "float32"),
        gradients=(),
        reference=lambda x, axis, index_dtype: np.argmin(x, axis),
    ),
    Op(
        "reduce",
        reduced("made"),
        lambda draw: [
            sample(draw(2, 3, low=0, high=1), draw(low=0, high=1), dimensions=(1,)),
            sample(draw(2, 3, low=0, high=1), draw(low=0, high=1), dimensions=(0, 1)),
        ],
        ("float32", "float64"),
        reference=joined,
        ulp=16,
    ),
    Op(
        "reduce_by_add",
        reduced("add"),
        lambda draw: [sample(draw(2, 3), np.zeros((), draw.dtype), dimensions=(1,))],
        ("float32", "float64"),
        reference=lambda x, init, dimensions: np.sum(x, dimensions),
        ulp=8,
        constant=(1,),
    ),
    Op(
        "reduce_by_or",
        reduced("bitwise_or"),
        lambda draw: [sample(draw(3, 4), np.zeros((), draw.dtype), dimensions=(1,))],
        ("int32", "bool"),
        reference=lambda x, init, dimensions: np.bitwise_or.reduce(x, dimensions),
    ),
    Op(
        "reduce_pairs",
        reduced_pairs,
        lambda draw: [sample(draw(3, 4), draw(3, 4))],
        ("float32", "float64"),
        ulp=16,
        reference=lambda a, b: [a.prod(0), (b[0] * a[1] + b[1]) * a[2] + b[2]],
    ),
    cumulative("cumsum", np.cumsum, NUMERIC, ulp=8),
    cumulative("cumprod", np.cumprod, NUMERIC, ulp=8),
    cumulative("cummax", lambda x, axis: np.maximum.accumulate(x, axis), REAL, ulp=0),
    cumulative("cummin", lambda x, axis: np.minimum.accumulate(x, axis), REAL, ulp=0),
    cumulative(
        "cumlogsumexp",
        lambda x, axis: np.logaddexp.accumulate(x, axis),
        ("float32", "float64"),
        ulp=8,
    ),
    windowed(
        "reduce_window_sum",
        "add",
        0,
        np.sum,
        ("float32", "float64", "int32", "complex64", "bfloat16"),
        ulp=8,
    ),
    windowed("reduce_window_product", "mul", 1, np.prod, ("float32", "float64", "int32"), ulp=8),
    windowed("reduce_window_or", "bitwise_or", False, np.bitwise_or.reduce, ("bool",)),
    windowed("reduce_window_max", "max", "lowest", np.max, ("float32", "float64", "int32"), ulp=0),
    windowed("reduce_window_min", "min", "highest", np.min, ("float32", "float64", "int32"), ulp=0),
    windowed(
        "reduce_window",
        "made",
        0,
        lambda w, axis: np.prod(1 + w, axis=axis) - 1,
        ("float32", "float64"),
        ulp=16,
    ),
    Op(
        "select_and_scatter",
        scattered,
        lambda draw: [sample(draw.distinct(6), draw(3))],
        ("float32",),
        reference=scatter_expected,
        ulp=0,
        gradients=(),
        exceptions={"vmap": "has no batch rule, as in JAX"},
    ),
]

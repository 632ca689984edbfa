"""Entries of elementwise operations.

Those of the rows of the library's own table, and some more calls.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any

import mpmath
import numpy as np
from optable import formulas
from optable.table import ALL, NO_RULE, Bad, Draw, Op, Sample, bad, numpy_dtype, sample

from teucer import lax
from teucer.experimental.layout import Layout, with_layout_constraint
from teucer.lax import _structure
from teucer.lax._families import ELEMENTWISE, Elementwise

Function = Callable[..., Any]
for _module in pkgutil.walk_packages(
    lax.__path__, "teucer.lax."
):  # their import fills the library's table
    importlib.import_module(_module.name)


def reference(p: Elementwise) -> Function | None:
    """What a primitive is compared with: the function that its row names, or NumPy's of its
    name."""
    text = p.tested.reference
    if not text:
        return getattr(np, p.numpy or str(p.name), None)
    f: Function = eval(text, {"np": np, "mpmath": mpmath, "formulas": formulas})
    return formulas.precise(f) if "mpmath." in text else f


def operands(p: Elementwise, draw: Draw, *shapes: tuple[int, ...]) -> Sample:
    row = p.tested
    xs: Any = [draw(*shape, low=row.low, high=row.high) for shape in shapes]
    if row.given is not None:
        xs = [np.asarray(x, draw.dtype) for x in row.given(*xs)]
    return sample(*xs, **row.params)


def samples_of(p: Elementwise) -> Callable[[Draw], Iterable[Sample]]:
    n = p.arity

    def unary(draw: Draw) -> Iterable[Sample]:
        yield operands(p, draw, (4, 5))
        yield operands(p, draw, ())
        yield operands(p, draw, (0, 3))

    def several(draw: Draw) -> Iterable[Sample]:
        yield operands(p, draw, *[(3,) if p.tested.costly else (4, 3)] * n)
        yield operands(p, draw, (), *[(3,)] * (n - 1))
        yield operands(p, draw, *[(3,)] * (n - 1), ())
        yield operands(p, draw, *[(0,)] * n)

    return unary if n == 1 else several


def bad_calls(p: Elementwise) -> Iterable[Bad]:
    name, n, kwargs = str(p.name), p.arity, p.tested.params
    refused = next(
        (d for d in ("bool", "int32", "float32", "complex64") if numpy_dtype(d) not in p.accepts),
        None,
    )
    if refused is not None:
        yield bad(
            TypeError,
            rf"{name} does not accept dtype {refused}",
            *[np.ones(3, refused)] * n,
            **kwargs,
        )
    if n > 1:
        accepted = [d for d in ALL if numpy_dtype(d) in p.accepts]
        x = np.ones(3, next(d for d in ("float32", "int32") if d in accepted))
        rest = [x] * (n - 2)
        yield bad(TypeError, rf"{name}.*\(3,\).*\(4,\)", x, np.ones(4, x.dtype), *rest, **kwargs)
        yield bad(
            TypeError, rf"{name}.*\(3,\).*\(1, 3\)", x, np.ones((1, 3), x.dtype), *rest, **kwargs
        )
        other = "float16" if x.dtype == np.float32 else "int8"
        if other in accepted:
            yield bad(
                TypeError,
                f"(?s)same dtypes.*{x.dtype}.*{other}",
                x,
                np.ones(3, other),
                *rest,
                **kwargs,
            )


def entry(p: Elementwise, public: Function | None = None) -> Op:
    """The entry of a primitive. public: its function, by default that of lax, or its call where
    there is none."""
    name, row = str(p.name), p.tested
    accepted = [d for d in ALL if numpy_dtype(d) in p.accepts]
    fn = public or (f"lax.{p.public}" if p.public else lambda *xs: p.call(*xs)[0])
    gives_bool = p.result is not None and p.result(np.dtype(np.float64)).kind == "b"
    no_rule = {"gradient": NO_RULE} if p.tangents is None else {}
    return Op(
        name,
        fn,
        samples_of(p),
        accepted,
        gradients=() if gives_bool else None,
        vmap_calls=1 if row.costly else 4,
        gradient_calls=1 if p.arity == 1 or row.costly else 3,
        reference=reference(p),
        elementwise=True,
        ulp=row.ulp,
        ulp_of=row.ulp_of,
        widen=row.widen,
        constant=row.constant,
        errors=tuple(bad_calls(p)),
        exceptions={**no_rule, **row.exceptions},
    )


def in_shape(name: str) -> Op:
    """The incomplete gamma function as one of its shape: the first derivative has a rule, the
    second none."""
    p = ELEMENTWISE[name]
    return Op(
        f"{name}_in_a",
        f"lax.{name}",
        lambda draw: [operands(p, draw, (3,), (3,))],
        ("float32", "float64"),
        reference=reference(p),
        ulp=p.tested.ulp,
        elementwise=True,
        constant=(1,),
        vmap_calls=1,
        exceptions={"second": "igamma_grad_a has no derivative, as in JAX"},
    )


def clamp_samples(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(3, 4, low=-2, high=-1), draw(3, 4), draw(3, 4, low=1, high=2))
    yield sample(draw(low=-2, high=-1), draw(3, 4), draw(low=1, high=2))
    yield sample(draw(low=-2, high=-1), draw(), draw(low=1, high=2))


def clamped(low: Any, x: Any, high: Any) -> Any:
    return np.minimum(np.maximum(low, x), high)


def power_samples(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(3, 4, low=0.1, high=4), draw(3, 4, low=-3, high=3))
    yield sample(draw(low=0.1, high=4), draw(3, low=-3, high=3))
    yield sample(draw(3, low=0.1, high=4), draw(low=-3, high=3))
    yield sample(draw(3, low=0.1, high=4), np.array([3, 0, -2], np.int32))


def selections(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(2, 3, dtype=bool), draw(2, 3), draw(2, 3))
    yield sample(draw.index(3, 2, 3), draw(2, 3), draw(2, 3), draw(2, 3))
    yield sample(draw(dtype=bool), draw(2, 3), draw(2, 3))


def chosen(which: Any, *cases: Any) -> Any:
    return np.choose(np.broadcast_to(which, cases[0].shape).astype(int), cases)


def conversions(draw: Draw) -> Iterable[Sample]:
    for target in ("float32", "int32", "bool", "complex64", "float16", "bfloat16", "uint8"):
        if draw.kind == "c" and target != "complex64":
            continue
        yield sample(draw(2, 3, low=0, high=9), new_dtype=numpy_dtype(target))


def reinterpreted(x: Any, new_dtype: Any) -> Any:
    width, wanted = x.dtype.itemsize, np.dtype(new_dtype).itemsize
    if wanted < width:
        return np.ascontiguousarray(x)[..., None].view(new_dtype)
    return (
        np.ascontiguousarray(x).view(new_dtype)
        if wanted == width
        else np.ascontiguousarray(x).view(new_dtype)[..., 0]
    )


def reinterpretations(draw: Draw) -> Iterable[Sample]:
    width = draw.dtype.itemsize
    same = {1: np.uint8, 2: np.int16, 4: np.float32, 8: np.float64}[width]
    yield sample(draw(2, 4, low=0, high=9), new_dtype=np.dtype(same))
    yield sample(draw(2, 4, low=0, high=9), new_dtype=np.dtype(np.uint8))
    if width == 2:
        yield sample(draw(2, 4, 2), new_dtype=np.dtype(np.float32))


def halved(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    return x.astype(np.float16)


def polynomials(draw: Any) -> Any:
    yield sample(draw(2, 3, low=-2, high=2), [draw(), draw(2, 3), draw(), draw(2, 3)])
    yield sample(draw(low=-1, high=1), [draw(3), draw(3)])
    yield sample(draw(2, low=-1, high=1), [draw(2) for _ in range(10)])
    yield sample(draw(2, 3), [draw(2, 3)])
    yield sample(draw(2, 3), [])


def powers_summed(x: Any, coeffs: Any) -> Any:
    return sum((c * x**k for k, c in enumerate(coeffs)), np.zeros_like(x))


OPS = [
    *(entry(p) for p in ELEMENTWISE.values()),
    in_shape("igamma"),
    in_shape("igammac"),
    Op(
        "round_to_even",
        "lax.round",
        lambda draw: [
            sample(np.array([-2.5, -0.5, 0.5, 1.5, 2.5, 2.6]).astype(draw.dtype), rounding_method=1)
        ],
        reference=lambda x, rounding_method: np.rint(x),
        ulp=0,
        exceptions={"gradient": "as that of round"},
    ),
    Op(
        "integer_pow_negative",
        "lax.integer_pow",
        lambda draw: [sample(draw(2, 3, low=0.5, high=2), y=-2)],
        ("float32", "float64", "complex64", "complex128"),
        reference=lambda x, y: 1 / (x * x),
        elementwise=True,
        errors=[
            bad(
                TypeError,
                "Integers cannot be raised to negative powers",
                np.ones(2, np.int32),
                y=-1,
            )
        ],
    ),
    Op(
        "reciprocal",
        "lax.reciprocal",
        lambda draw: [sample(draw(2, 3, low=0.5, high=2))],
        ("float32", "float64"),
        reference=lambda x: 1 / x,
        ulp=1,
        elementwise=True,
    ),
    Op(
        "mul_out_dtype",
        "lax.mul",
        lambda draw: [sample(draw(2, 3), draw(2, 3), out_dtype=np.dtype(np.float32))],
        ("float16", "int8"),
        quick=("float16",),
        reference=lambda x, y, out_dtype: x * y,
        ulp=0.5,
        elementwise=True,
        exceptions={"gradient": "tested with mul and convert_element_type"},
    ),
    Op(
        "clamp",
        "lax.clamp",
        clamp_samples,
        ("int32", "float32", "float64"),
        reference=clamped,
        ulp=0,
        errors=[
            bad(TypeError, r"same dtypes", np.float32(0), np.ones(2, np.int32), np.float32(1)),
            bad(
                TypeError,
                r"clamp.*\(2,\).*\(3,\)",
                np.zeros(2, np.float32),
                np.ones(3, np.float32),
                np.float32(1),
            ),
        ],
    ),
    Op(
        "polynomial",
        "lax.polynomial",
        polynomials,
        ("int32", "float32", "float64", "complex128"),
        reference=powers_summed,
        ulp=8,
        errors=[
            bad(
                TypeError,
                "same dtypes",
                np.ones(2, np.float32),
                [np.ones(2, np.int32), np.ones(2, np.int32)],
            )
        ],
    ),
    Op(
        "pow",
        "lax.pow",
        power_samples,
        ("float32", "float64", "complex64", "complex128"),
        reference=np.power,
        widen="long",
        elementwise=True,
        ulp=8,  # of x^y the relative error is y log(x) times that of the logarithm
        errors=[
            bad(
                TypeError,
                "pow does not accept dtype int32 at position 0",
                np.ones(2, np.int32),
                np.ones(2, np.int32),
            ),
            bad(TypeError, r"pow.*\(2,\).*\(3,\)", np.ones(2, np.float32), np.ones(3, np.float32)),
        ],
    ),
    Op(
        "select_n",
        "lax.select_n",
        selections,
        ("bool", "int32", "float32", "float64", "complex64", "complex128"),
        reference=chosen,
        ulp=0,
        errors=[
            bad(
                TypeError,
                r"select.*\(2,\)",
                np.ones(2, bool),
                np.ones(3, np.float32),
                np.ones(3, np.float32),
            ),
            bad(
                TypeError,
                r"select.*float32.*int32",
                np.ones(2, bool),
                np.ones(2, np.float32),
                np.ones(2, np.int32),
            ),
            bad(
                TypeError,
                r"select.*float32",
                np.ones(2, np.float32),
                np.ones(2, np.float32),
                np.ones(2, np.float32),
            ),
        ],
    ),
    Op(
        "select",
        "lax.select",
        lambda draw: [sample(draw(2, 3, dtype=bool), draw(2, 3), draw(2, 3))],
        ("float32", "float64"),
        reference=np.where,
        ulp=0,
    ),
    Op(
        "convert_element_type",
        "lax.convert_element_type",
        conversions,
        ALL,
        reference=lambda x, new_dtype: x.astype(new_dtype),
        ulp=0,
        gradients=(),
    ),
    Op(
        "convert_to_float64",
        "lax.convert_element_type",
        lambda draw: [sample(draw(2, 3), new_dtype=np.dtype(np.complex128))],
        ("float64", "complex128"),
        quick=("float64",),
        reference=lambda x, new_dtype: x.astype(new_dtype),
        ulp=0,
    ),
    Op(
        "bitcast_convert_type",
        "lax.bitcast_convert_type",
        reinterpretations,
        (
            "int8",
            "uint8",
            "int16",
            "uint16",
            "float16",
            "int32",
            "uint32",
            "float32",
            "int64",
            "uint64",
            "float64",
        ),
        quick=("int32", "float32", "float16"),
        reference=reinterpreted,
        widen="no",
        ulp=0,
        gradients=(),
    ),
    Op(
        "reduce_precision",
        "lax.reduce_precision",
        lambda draw: [sample(draw(2, 3), exponent_bits=5, mantissa_bits=10)],
        ("float32", "float64"),
        reference=halved,
        ulp=0,
        exceptions={"gradient": "the derivative is 1 between the steps"},
    ),
    Op(
        "stop_gradient",
        "lax.stop_gradient",
        lambda draw: [sample(draw(2, 3))],
        ("float32", "int32"),
        reference=lambda x: x,
        ulp=0,
        gradients=(),
    ),
    Op(
        "copy",
        lambda x: lax.copy_p.call(x)[0],
        lambda draw: [sample(draw(2, 3))],
        ("bool", "int32", "float32", "float64"),
        reference=lambda x: x,
        ulp=0,
    ),
    Op(
        "layout_constraint",
        lambda x: with_layout_constraint(x, Layout((1, 0))),
        lambda draw: [sample(draw(2, 3))],
        ("bool", "int32", "float32", "complex64"),
        reference=lambda x: x,
        ulp=0,
    ),
    Op(
        "add_any",
        lambda x, y: _structure.add_any_p.call(x, y)[0],
        lambda draw: [sample(draw(2, 3), draw(2, 3))],
        ("float32", "float64", "complex64"),
        reference=np.add,
        ulp=0.5,
        elementwise=True,
    ),
]

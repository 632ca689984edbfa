"""Entries of elementwise operations: rows of the library's own table, with references added by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import mpmath
import numpy as np
from optable.table import ALL, NO_RULE, Bad, Draw, Op, Sample, bad, numpy_dtype, sample

from teucer import lax
from teucer.experimental.layout import Layout, with_layout_constraint
from teucer.lax import _elementwise, _polynomial, _special, _structure  # noqa: F401  fills the table
from teucer.lax._families import ELEMENTWISE, Elementwise

Function = Callable[..., Any]
# The rooms whose import fills the library's table of elementwise primitives.
ROOMS = (_elementwise, _special)


def precise(f: Function) -> Function:
    """A function of mpmath on elements of arrays, in 40 digits."""
    def on_elements(*xs: Any) -> Any:
        def one(*vs: Any) -> Any:
            with mpmath.workdps(40):
                y = f(*(mpmath.mpmathify(v) for v in vs))
                return np.longdouble(mpmath.nstr(y, 25))
        arrays = np.broadcast_arrays(*xs)
        return np.array([one(*(float(v) for v in vs)) for vs in zip(*(a.ravel() for a in arrays), strict=True)],
                        np.longdouble).reshape(arrays[0].shape)
    return on_elements


def lower_gamma(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, 0, x, regularized=True)


def gamma_slope(a: Any, x: Any) -> Any:
    return mpmath.diff(lambda v: lower_gamma(v, x), a)


def gamma_density(a: Any, x: Any) -> Any:
    return mpmath.exp((a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))


def bits_as_unsigned(x: Any) -> Any:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def leading_zeros(x: Any) -> Any:
    width = 8 * x.dtype.itemsize
    return np.array([width - int(v).bit_length() for v in bits_as_unsigned(x).ravel()]).reshape(x.shape)


def upper_half(x: Any, y: Any) -> Any:
    return ((x.astype(object) * y.astype(object)) >> (8 * x.dtype.itemsize)).astype(x.dtype)


def towards_zero(x: Any, y: Any) -> Any:
    return np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y) if x.dtype.kind == "i" else x // y if x.dtype.kind == "u" else x / y


def complex_angle(x: Any, y: Any) -> Any:
    return np.arctan2(x, y) if x.dtype.kind != "c" else -1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))


def unit(x: Any) -> Any:
    return x / np.abs(x) if x.dtype.kind == "c" else np.sign(x)


def extremum(pick: Function, is_first: Function) -> Function:
    def f(x: Any, y: Any) -> Any:
        return np.where(is_first(x, y), x, y) if x.dtype.kind == "c" else pick(x, y)
    return f


def half_away(x: Any, rounding_method: int) -> Any:
    return np.rint(x) if rounding_method else np.sign(x) * np.floor(np.abs(x) + np.longdouble(0.5))


# Formulas, and names of NumPy that are not the row's. For all others the row says what it is compared with.
REFERENCES: dict[str, Function] = {
    "sub": np.subtract, "mul": np.multiply, "div": towards_zero, "rem": np.fmod, "neg": np.negative,
    "sign": unit, "integer_pow": lambda x, y: x * x * x, "round": half_away, "is_finite": np.isfinite,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq_to": np.equal, "lt_to": np.less, "le_to": np.less_equal,
    "max": extremum(np.maximum, lambda x, y: (x.real > y.real) | ((x.real == y.real) & (x.imag > y.imag))),
    "min": extremum(np.minimum, lambda x, y: (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))),
    "complex": lambda x, y: x + 1j * y,
    "conj": lambda x: np.conj(x) + 0j, "not": np.invert, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift,
    "shift_right_logical": lambda x, y: np.right_shift(bits_as_unsigned(x), bits_as_unsigned(y)).view(x.dtype),
    "population_count": lambda x: np.bitwise_count(bits_as_unsigned(x)), "clz": leading_zeros, "mulhi": upper_half,
    "exp2": lambda x: np.exp(x * np.log(np.longdouble(2))) if x.dtype.kind == "c" else np.exp2(x),
    "one_minus_square": lambda x: (1 + x) * (1 - x), "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x), "atan2": complex_angle,
    "polygamma": precise(lambda m, x: mpmath.polygamma(int(m), x)),
    "bessel_i0e": precise(lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
    "bessel_i1e": precise(lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))),
    "igamma": precise(lower_gamma), "igammac": precise(lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True)),
    "igamma_grad_a": precise(gamma_slope),
    "random_gamma_grad": precise(lambda a, x: -gamma_slope(a, x) / gamma_density(a, x)),
    "regularized_incomplete_beta": precise(lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)),
}

# References that must see the operands as they are, since they ask for the spacing of their dtype.
AS_THEY_ARE = {"nextafter"}
PUBLIC = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not",
          "regularized_incomplete_beta": "betainc"}
# Primitives that no function of lax stands for.
BOUND = {"eq_to", "lt_to", "le_to"}
# Where a row's tolerance does not do for one dtype. XLA multiplies by the reciprocal of a scalar divisor, itself rounded.
ULP_OF = {"div": {"float16": 2}}
KWARGS: dict[str, dict[str, Any]] = {"integer_pow": {"y": 3}, "round": {"rounding_method": 0}}
NOT_ZERO = {"div", "rem"}
SHIFTS = {"shift_left", "shift_right_arithmetic", "shift_right_logical"}

# Operands in which an operation is not differentiable, as in JAX: the orders and shapes of special functions.
CONSTANT = {"polygamma": (0,), "zeta": (0,), "regularized_incomplete_beta": (0, 1)}
# Where rules do not hold: operation -> law -> why.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "sign": {"gradient": "is 0 by definition, as in JAX, also where complex x / |x| turns"},
    "nextafter": {"gradient": NO_RULE},
    "igamma_grad_a": {"gradient": NO_RULE},
    "random_gamma_grad": {"gradient": NO_RULE},
}
# The compilation of these takes a second a copy.
SLOW = {"igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "regularized_incomplete_beta", "polygamma", "zeta"}
SECOND_CONSTANT = {"igamma": (0,), "igammac": (0,)}


def reference(p: Elementwise) -> Function | None:
    """What a primitive is compared with: the formula above, or the function that its row names, or NumPy's of its name."""
    name = str(p.name)
    if name in REFERENCES:
        return REFERENCES[name]
    module, _, function = (p.tested.reference or f"numpy.{name}").rpartition(".")
    f = getattr(importlib.import_module(module), function, None)
    return precise(f) if module == "mpmath" else f


def operands(p: Elementwise, draw: Draw, *shapes: tuple[int, ...]) -> Sample:
    low, high = p.tested.low, p.tested.high
    xs = [draw(*shape, low=low, high=high) for shape in shapes]
    name = str(p.name)
    if name in SHIFTS:
        xs[1] = draw(*shapes[1], low=0, high=high)
    if name in NOT_ZERO and draw.kind in "iu":
        xs[1] = xs[1] + (xs[1] == 0).astype(draw.dtype)
    if name == "polygamma":
        xs[0] = np.round(xs[0].astype(np.float64)).astype(draw.dtype)
    return sample(*xs, **KWARGS.get(name, {}))


def samples_of(p: Elementwise) -> Callable[[Draw], Iterable[Sample]]:
    n = 1 if p.tangents is None else len(p.tangents)
    if str(p.name) in ("nextafter", "igamma_grad_a", "random_gamma_grad"):
        n = 2

    def unary(draw: Draw) -> Iterable[Sample]:
        yield operands(p, draw, (4, 5))
        yield operands(p, draw, ())
        yield operands(p, draw, (0, 3))

    def several(draw: Draw) -> Iterable[Sample]:
        yield operands(p, draw, *[(3,) if str(p.name) in SLOW else (4, 3)] * n)
        yield operands(p, draw, (), *[(3,)] * (n - 1))
        yield operands(p, draw, *[(3,)] * (n - 1), ())
        yield operands(p, draw, *[(0,)] * n)

    return unary if n == 1 else several


def bad_calls(p: Elementwise, n: int) -> Iterable[Bad]:
    name, kwargs = str(p.name), KWARGS.get(str(p.name), {})
    refused = next((d for d in ("bool", "int32", "float32", "complex64") if numpy_dtype(d) not in p.accepts), None)
    if refused is not None:
        yield bad(TypeError, rf"{name} does not accept dtype {refused}", *[np.ones(3, refused)] * n, **kwargs)
    if n > 1:
        accepted = [d for d in ALL if numpy_dtype(d) in p.accepts]
        x = np.ones(3, next(d for d in ("float32", "int32") if d in accepted))
        rest = [x] * (n - 2)
        yield bad(TypeError, rf"{name}.*\(3,\).*\(4,\)", x, np.ones(4, x.dtype), *rest, **kwargs)
        yield bad(TypeError, rf"{name}.*\(3,\).*\(1, 3\)", x, np.ones((1, 3), x.dtype), *rest, **kwargs)
        other = "float16" if x.dtype == np.float32 else "int8"
        if other in accepted:
            yield bad(TypeError, f"(?s)same dtypes.*{x.dtype}.*{other}", x, np.ones(3, other), *rest, **kwargs)


def entry(p: Elementwise, public: Function | None = None) -> Op:
    """The entry of a primitive. public: its function, by default that of lax."""
    name = str(p.name)
    accepted = [d for d in ALL if numpy_dtype(d) in p.accepts]
    fn = public or ((lambda *xs: p.call(*xs)[0]) if name in BOUND else f"lax.{PUBLIC.get(name, name)}")
    draw = Draw("float32")
    n = len(next(iter(samples_of(p)(draw))).args)
    gives_bool = p.result is not None and p.result(np.dtype(np.float64)).kind == "b"
    return Op(name, fn, samples_of(p), accepted, gradients=() if gives_bool else None, vmap_calls=1 if name in SLOW else 4,
              gradient_calls=1 if n == 1 or name in SLOW else 3,
              reference=reference(p), elementwise=True, ulp=p.tested.ulp,
              ulp_of=ULP_OF.get(name, {}), widen="no" if name in AS_THEY_ARE else "long",
              constant=CONSTANT.get(name, SECOND_CONSTANT.get(name, ())),
              errors=tuple(bad_calls(p, n)), exceptions=EXCEPTIONS.get(name, {}))


def in_shape(name: str) -> Op:
    """The incomplete gamma function as one of its shape: the first derivative has a rule, the second none."""
    p = ELEMENTWISE[name]
    return Op(f"{name}_in_a", f"lax.{name}", lambda draw: [operands(p, draw, (3,), (3,))], ("float32", "float64"),
              reference=REFERENCES[name], ulp=p.tested.ulp, elementwise=True, constant=(1,), vmap_calls=1,
              exceptions={"second": "igamma_grad_a has no derivative, as in JAX"})


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
    return np.ascontiguousarray(x).view(new_dtype) if wanted == width else np.ascontiguousarray(x).view(new_dtype)[..., 0]


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


def powers_summed(x: Any, coeffs: Any) -> Any:
    return sum(c * x**k for k, c in enumerate(coeffs))


OPS = [
    *(entry(p) for p in ELEMENTWISE.values()),
    in_shape("igamma"),
    in_shape("igammac"),
    Op("round_to_even", "lax.round", lambda draw: [sample(np.array([-2.5, -0.5, 0.5, 1.5, 2.5, 2.6]).astype(draw.dtype),
                                                          rounding_method=1)],
       reference=lambda x, rounding_method: np.rint(x), ulp=0, exceptions={"gradient": "as that of round"}),
    Op("integer_pow_negative", "lax.integer_pow", lambda draw: [sample(draw(2, 3, low=0.5, high=2), y=-2)],
       ("float32", "float64", "complex64", "complex128"), reference=lambda x, y: 1 / (x * x), elementwise=True,
       errors=[bad(TypeError, "Integers cannot be raised to negative powers", np.ones(2, np.int32), y=-1)]),
    Op("reciprocal", "lax.reciprocal", lambda draw: [sample(draw(2, 3, low=0.5, high=2))], ("float32", "float64"),
       reference=lambda x: 1 / x, ulp=1, elementwise=True),
    Op("mul_out_dtype", "lax.mul", lambda draw: [sample(draw(2, 3), draw(2, 3), out_dtype=np.dtype(np.float32))],
       ("float16", "int8"), quick=("float16",), reference=lambda x, y, out_dtype: x * y, ulp=0.5, elementwise=True,
       exceptions={"gradient": "tested with mul and convert_element_type"}),
    Op("clamp", "lax.clamp", clamp_samples, ("int32", "float32", "float64"), reference=clamped, ulp=0,
       errors=[bad(TypeError, r"same dtypes", np.float32(0), np.ones(2, np.int32), np.float32(1)),
               bad(TypeError, r"clamp.*\(2,\).*\(3,\)", np.zeros(2, np.float32), np.ones(3, np.float32), np.float32(1))]),
    Op("polynomial", "lax.polynomial", polynomials, ("int32", "float32", "float64", "complex128"), reference=powers_summed,
       ulp=8, errors=[bad(TypeError, "same dtypes", np.ones(2, np.float32), [np.ones(2, np.int32), np.ones(2, np.int32)])]),
    Op("pow", "lax.pow", power_samples, ("float32", "float64", "complex64", "complex128"), reference=np.power, widen="long",
       elementwise=True, ulp=8,  # of x^y the relative error is y log(x) times that of the logarithm
       errors=[bad(TypeError, "pow does not accept dtype int32 at position 0", np.ones(2, np.int32), np.ones(2, np.int32)),
               bad(TypeError, r"pow.*\(2,\).*\(3,\)", np.ones(2, np.float32), np.ones(3, np.float32))]),
    Op("select_n", "lax.select_n", selections, ("bool", "int32", "float32", "float64", "complex64", "complex128"),
       reference=chosen, ulp=0,
       errors=[bad(TypeError, r"select.*\(2,\)", np.ones(2, bool), np.ones(3, np.float32), np.ones(3, np.float32)),
               bad(TypeError, r"select.*float32.*int32", np.ones(2, bool), np.ones(2, np.float32), np.ones(2, np.int32)),
               bad(TypeError, r"select.*float32", np.ones(2, np.float32), np.ones(2, np.float32), np.ones(2, np.float32))]),
    Op("select", "lax.select", lambda draw: [sample(draw(2, 3, dtype=bool), draw(2, 3), draw(2, 3))],
       ("float32", "float64"), reference=np.where, ulp=0),
    Op("convert_element_type", "lax.convert_element_type", conversions, ALL,
       reference=lambda x, new_dtype: x.astype(new_dtype), ulp=0,
       gradients=()),
    Op("convert_to_float64", "lax.convert_element_type",
       lambda draw: [sample(draw(2, 3), new_dtype=np.dtype(np.complex128))], ("float64", "complex128"), quick=("float64",),
       reference=lambda x, new_dtype: x.astype(new_dtype), ulp=0),
    Op("bitcast_convert_type", "lax.bitcast_convert_type", reinterpretations,
       ("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64", "float64"),
       quick=("int32", "float32", "float16"), reference=reinterpreted, widen="no", ulp=0, gradients=()),
    Op("reduce_precision", "lax.reduce_precision", lambda draw: [sample(draw(2, 3), exponent_bits=5, mantissa_bits=10)],
       ("float32", "float64"), reference=halved, ulp=0, exceptions={"gradient": "the derivative is 1 between the steps"}),
    Op("stop_gradient", "lax.stop_gradient", lambda draw: [sample(draw(2, 3))], ("float32", "int32"),
       reference=lambda x: x, ulp=0, gradients=()),
    Op("copy", lambda x: lax.copy_p.call(x)[0], lambda draw: [sample(draw(2, 3))],
       ("bool", "int32", "float32", "float64"), reference=lambda x: x, ulp=0),
    Op("layout_constraint", lambda x: with_layout_constraint(x, Layout((1, 0))), lambda draw: [sample(draw(2, 3))],
       ("bool", "int32", "float32", "complex64"), reference=lambda x: x, ulp=0),
    Op("add_any", lambda x, y: _structure.add_any_p.call(x, y)[0], lambda draw: [sample(draw(2, 3), draw(2, 3))],
       ("float32", "float64", "complex64"), reference=np.add, ulp=0.5, elementwise=True),
]

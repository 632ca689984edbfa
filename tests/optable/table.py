"""The operation table: an entry an operation, from which the laws of the suite are generated."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest

from teucer._base import config

BOOLS = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
WIDE_FLOATS = ("float32", "float64")
FLOATS = ("bfloat16", "float16", *WIDE_FLOATS)
COMPLEXES = ("complex64", "complex128")
NUMBERS = INTS + FLOATS + COMPLEXES
ALL = BOOLS + NUMBERS
LINEAR_ALGEBRA = WIDE_FLOATS + COMPLEXES
# The dtypes of which the quick suite tests values: one of each kind. The others are marked slow.
QUICK = frozenset({"bool", "int32", "float32", "complex64"})
GRADIENT = ("float64", "complex128")
# The reason for which an operation is an exception to the law of gradients: to differentiate it is
# an error.
NO_RULE = "no derivative, as in JAX"


def is_64_bit(dtype: str) -> bool:
    """Whether arrays of the dtype exist only with the option enable_x64."""
    return dtype in ("int64", "uint64", "float64", "complex128")


def precision_of(dtype: str) -> Any:
    """The context in which a dtype is tested: 64-bit types are on where it is one of them."""
    return config.enable_x64(is_64_bit(dtype))


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype of a name, those of ml_dtypes included."""
    return np.dtype(getattr(ml_dtypes, dtype)) if dtype == "bfloat16" else np.dtype(dtype)


@dataclass(frozen=True)
class Sample:
    """A call: `args` are arrays or lists of arrays, `kwargs` are not traced."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def sample(*args: Any, **kwargs: Any) -> Sample:
    """The call op(*args, **kwargs)."""
    return Sample(args, kwargs)


@dataclass(frozen=True)
class Bad:
    """A call that must raise `error`, with a text that matches `match`."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    error: type[Exception] | tuple[type[Exception], ...]
    match: str


def bad(
    error: type[Exception] | tuple[type[Exception], ...], match: str, *args: Any, **kwargs: Any
) -> Bad:
    """The call op(*args, **kwargs), which must raise."""
    return Bad(args, kwargs, error, match)


class Draw:
    """Random operands of one dtype. Shapes are drawn in one order, so another seed gives like
    operands of other values."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self.rng, self.name, self.dtype = np.random.default_rng(seed), dtype, numpy_dtype(dtype)
        self.kind = "f" if dtype == "bfloat16" else self.dtype.kind

    def __call__(self, *shape: int, low: float = -4, high: float = 4, dtype: Any = None) -> Any:
        """Uniform in [low, high]; complex numbers in both parts; integers from low to high;
        booleans of either value."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        kind = self.kind if dtype == self.dtype else dtype.kind
        if kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if kind in "iu":
            low = max(0, low) if kind == "u" else low
            return self.rng.integers(int(np.ceil(low)), int(np.floor(high)) + 1, shape).astype(
                dtype
            )
        x = self.rng.uniform(low, high, shape)
        if kind == "c":
            x = x + 1j * self.rng.uniform(low, high, shape)
        return np.asarray(x).astype(dtype)

    def distinct(self, *shape: int) -> Any:
        """Elements that differ by a half and more: for what is not smooth where elements are
        equal."""
        n = int(np.prod(shape))
        steps = np.arange(n) if self.kind in "biu" else np.arange(n) * 0.5 - n / 4
        x = self.rng.permutation(steps).reshape(shape)
        if self.kind == "c":
            x = x + 1j * self.rng.uniform(-1, 1, shape)
        return x.astype(self.dtype)

    def index(self, n: int, *shape: int) -> Any:
        """Integers from 0 to n - 1."""
        return self.rng.integers(0, n, shape).astype(np.int32)

    def places(self, n: int, *shape: int) -> Any:
        """Different integers from 0 to n - 1."""
        return self.rng.permutation(n)[: int(np.prod(shape))].reshape(shape).astype(np.int32)


@dataclass(frozen=True)
class Op:
    """An operation and what is known of it.

    fn: its path below `teucer`, or a function.
    samples: Draw -> the calls to test; the same shapes for every Draw of one dtype.
    dtypes: those that it accepts. quick: those whose values the quick suite tests.
    reference: the same function in NumPy, SciPy or mpmath on operands widened to float64 or
    complex128.
    ulp: error of the values allowed, in units in the last place of the greatest element
    (elementwise: of each element).
    ulp_of: where one dtype needs another. Above the default a reason stands beside it.
    widen: what the reference gets for floats: "double" at least float64, "long" long doubles, "no"
    the operands as they are.
    gradients: the dtypes in which gradients are tested. constant: positions of operands that are
    not differentiated.
    vmap_calls, gradient_calls: of how many of the calls vmap and gradients are tested.
    gradient_rtol: how closely derivatives agree with differences; above the default a reason stands
    beside it.
    slow: whether all of its tests are of the thorough suite.
    exceptions: law -> why it does not hold.
    """

    name: str
    fn: str | Callable[..., Any]
    samples: Callable[[Draw], Iterable[Sample]]
    dtypes: Sequence[str] = FLOATS
    quick: Sequence[str] | None = None
    reference: Callable[..., Any] | None = None
    elementwise: bool = False
    ulp: float = 4
    ulp_of: Mapping[str, float] = field(default_factory=dict)
    widen: Literal["no", "double", "long"] = "double"
    gradients: Sequence[str] | None = None
    constant: Sequence[int] = ()
    vmap_calls: int = 4
    gradient_calls: int = 4
    gradient_rtol: float = 1e-6
    errors: Sequence[Bad] = ()
    slow: bool = False
    exceptions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = set(self.exceptions) - LAWS
        assert not unknown, f"{self.name}: exceptions from unknown laws {unknown}"

    def __str__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return resolve(self.fn)(*args, **kwargs)

    def calls(self, dtype: str, seed: int = 0) -> list[Sample]:
        """The calls to test in a dtype."""
        return list(self.samples(Draw(dtype, seed)))

    @property
    def quick_dtypes(self) -> Sequence[str]:
        found = [d for d in self.dtypes if d in QUICK] if self.quick is None else self.quick
        return found or self.dtypes[:1]

    def marks(self, *, quick: bool = True) -> Any:
        """The marks of a test of this operation."""
        return () if quick and not self.slow else pytest.mark.slow

    @property
    def gradient_dtypes(self) -> Sequence[str]:
        if "gradient" in self.exceptions:
            return ()
        if self.gradients is not None:
            return self.gradients
        return [d for d in GRADIENT if d in self.dtypes]

    @property
    def vmap_dtype(self) -> str:
        """The dtype in which vmap is tested quickly."""
        return next(
            (d for d in ("float32", "complex64", "int32", "bool") if d in self.dtypes),
            self.dtypes[0],
        )


LAWS = frozenset(
    {"value", "gradient", "forward", "reverse", "second", "vmap", "sharding", "dynamic"}
)


def resolve(fn: str | Callable[..., Any]) -> Callable[..., Any]:
    """A function by its path below `teucer`; raises AttributeError or ModuleNotFoundError where it
    is missing."""
    return _resolve(fn) if isinstance(fn, str) else fn


@functools.cache
def _resolve(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"teucer.{module}"), name)  # type: ignore[no-any-return]


MODULES = (
    "elementwise",
    "shapes",
    "indexing",
    "gather",
    "reductions",
    "contractions",
    "linalg",
    "control",
    "transforms",
    "collectives",
)


@functools.cache
def all_ops() -> dict[str, Op]:
    """Every entry by name."""
    table: dict[str, Op] = {}
    for module in MODULES:
        for op in importlib.import_module(f"optable.entries_{module}").OPS:
            assert op.name not in table, f"two entries are called {op.name}"
            table[op.name] = op
    return table

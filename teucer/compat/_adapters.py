"""Private names of JAX for which Teucer has nothing of the same form."""

from __future__ import annotations

import functools
import inspect
import math
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final, runtime_checkable

import numpy as np

import teucer as jax
from teucer import numpy as jnp
from teucer import profiler
from teucer._base import dtypes, source, tracebacks
from teucer._core.trace import EVAL, current_trace
from teucer._experimental.checks import CheckifyError as JaxException
from teucer._jax.primitive import LibraryPrimitive
from teucer._xla.pytree import is_node
from teucer.random._keys import as_keys, one_key

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Aval, Value
    from teucer._devices.shardings import NamedSharding
    from teucer._devices.specs import PartitionSpec
    from teucer._trees.pytrees import PyTree

__all__ = [
    "DType", "DTypeLike", "JaxException", "HashablePartial", "Out", "Shape", "SupportsDType",
    "TypedComplex", "TypedFloat", "TypedInt", "TypedNdArray", "_check_prng_key", "_jax_types",
    "_profile_state", "canonicalize_sharding", "check_close", "create_mesh", "cuda_versions",
    "dtype", "filter_traceback", "full_lower", "get_backend", "include_frame",
    "infer_argnums_and_argnames", "merge_lists", "partition_list", "physical_aval",
    "register_exclusion", "safe_map", "safe_zip", "split_list", "stop_gradient_p", "supports_inf",
    "text", "to_complex_dtype", "trace_state_clean", "unzip2", "unzip3",
]  # fmt: skip


def _check_prng_key(name: str, key: Any, *, allow_batched: bool = False) -> tuple[Any, bool]:
    """Typed keys of a function's argument, and whether it was words; one key, unless several are
    allowed."""
    return as_keys(key) if allow_batched else one_key(name, key)


Out = TypeVar("Out")
T, U, V = TypeVar("T"), TypeVar("U"), TypeVar("V")
# A number, one for each dtype, or None for the dtype's default.
Tolerance = float | Mapping[np.dtype, float] | None
DType = np.dtype
DTypeLike = Any
Shape = Sequence[int]


@runtime_checkable
class SupportsDType(Protocol):
    """An object with a dtype."""

    @property
    def dtype(self) -> np.dtype[Any]: ...


# lax.stop_gradient needs no primitive here; libraries register rules for JAX's.
stop_gradient_p = LibraryPrimitive("stop_gradient")


class _Never:
    """A class of JAX that has no instances here; libraries ask whether values are of it."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TypeError(f"Teucer has no values of the class {type(self).__name__}.")


class TypedInt(_Never):
    """A Python int that has a dtype."""


class TypedFloat(_Never):
    """A Python float that has a dtype."""


class TypedComplex(_Never):
    """A Python complex number that has a dtype."""


class TypedNdArray(_Never):
    """A NumPy array whose dtype is kept."""


def check_close(
    xs: PyTree, ys: PyTree, atol: Tolerance = None, rtol: Tolerance = None, err_msg: str = ""
) -> None:
    """Check that two trees have the same structure and shapes, and values that are as close as
    their dtypes allow.

    atol, rtol: a number, or a dictionary by dtype. Integers must be equal. Raises AssertionError,
    ValueError for different trees.
    """

    def within(given: Tolerance, kinds: Sequence[np.dtype]) -> float:
        chosen = (
            {np.dtype(kind): value for kind, value in given.items()}
            if isinstance(given, Mapping)
            else {}
        )
        found = given if given is not None and not isinstance(given, Mapping) else None
        return max(
            (chosen.get(kind, _closeness(kind)) if found is None else found for kind in kinds),
            default=0,
        )

    def check(x: ArrayLike, y: ArrayLike) -> None:
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, f"{err_msg}: shapes {x.shape} and {y.shape} differ"
        kinds = [array.dtype for array in (x, y) if jnp.issubdtype(array.dtype, np.inexact)]
        if kinds:  # NumPy knows little of bfloat16 and its like
            wide = np.complex128 if any(kind.kind == "c" for kind in kinds) else np.float64
            x, y = x.astype(wide), y.astype(wide)
        np.testing.assert_allclose(
            x, y, rtol=within(rtol, kinds), atol=within(atol, kinds), err_msg=err_msg
        )

    jax.tree.map(check, xs, ys)


def _closeness(kind: np.dtype) -> float:
    eps = float(jnp.finfo(jax.dtypes.canonicalize_dtype(kind)).eps)
    return next(
        value
        for bound, value in ((1e-15, 1e-15), (1e-6, 1e-6), (1e-3, 1e-3), (1e-2, 1e-2), (2, 1e-1))
        if eps <= bound
    )


def create_mesh(
    mesh_shape: Sequence[int],
    axis_names: Sequence[str],
    iota_order: bool = False,
    axis_types: Any = None,
) -> Any:
    """A mesh of the first devices; its axes are Auto ones unless their types are given.

    iota_order: the devices in the order of `jax.devices()`. Raises unittest's SkipTest where there
    are too few devices.
    """
    n = math.prod(mesh_shape)
    if len(jax.devices()) < n:
        raise unittest.SkipTest(f"Test requires {n} global devices.")
    types = axis_types or (jax.sharding.AxisType.Auto,) * len(mesh_shape)
    if not iota_order:
        return jax.make_mesh(mesh_shape, axis_names, axis_types=types)
    devices = np.array(jax.devices()[:n]).reshape(mesh_shape)
    return jax.sharding.Mesh(devices, axis_names, axis_types=types)


def trace_state_clean() -> bool:
    """Whether no transformation is under way."""
    return current_trace() is EVAL


def full_lower(x: Value) -> Any:
    """A tracer's value for the transformations beneath, if its class gives one; else the value
    itself."""
    lower = getattr(type(x), "full_lower", None)
    return x if lower is None else lower(x)


def physical_aval(aval: Aval) -> Aval:
    """The type of the buffer that holds values of a type."""
    return aval


def dtype(x: ArrayLike, *, align_and_canonicalize: bool = False) -> Any:
    """The dtype of an array or scalar."""
    return jnp.result_type(x)


def supports_inf(kind: DTypeLike) -> bool:
    """Whether a dtype of floating-point numbers has infinities."""
    return bool(np.isinf(np.array(np.inf, kind).astype(np.float64)))


def to_complex_dtype(kind: DTypeLike) -> np.dtype[Any]:
    """The complex dtype of a real one: complex128 for numbers of eight bytes, else complex64."""
    kind = np.dtype(kind)
    return (
        kind
        if kind.kind == "c"
        else np.dtype(np.complex128 if kind.itemsize == 8 else np.complex64)
    )


def canonicalize_sharding(
    sharding: NamedSharding | PartitionSpec | None,
    api_name: str,
    check_mesh_consistency: bool = True,
) -> NamedSharding | None:
    """A sharding over the abstract mesh in force, of a PartitionSpec or a NamedSharding; None of
    None.

    Raises ValueError for a PartitionSpec where no mesh is in force.
    """
    if sharding is None:
        return None
    if isinstance(sharding, jax.sharding.PartitionSpec):
        mesh = jax.sharding.get_abstract_mesh()
        if mesh.empty:
            raise ValueError(
                f"{api_name}: a PartitionSpec needs a mesh in force, set by jax.set_mesh, and "
                f"there is none.\n  got: {sharding}\nSet a mesh, or pass a NamedSharding."
            )
        return jax.sharding.NamedSharding(mesh, sharding)
    return jax.sharding.NamedSharding(
        getattr(sharding.mesh, "abstract_mesh", sharding.mesh), sharding.spec
    )


def infer_argnums_and_argnames(
    signature: inspect.Signature,
    argnums: int | Iterable[int] | None,
    argnames: str | Iterable[str] | None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the same arguments, where one of the two is given."""
    numbers = () if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = (
        () if argnames is None else (argnames,) if isinstance(argnames, str) else tuple(argnames)
    )
    parameters = list(signature.parameters.values())
    positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if argnums is None:
        numbers = tuple(positional.index(n) for n in names if n in positional)
    if argnames is None:
        names = tuple(
            parameters[i].name
            for i in numbers
            if -len(parameters) <= i < len(parameters)
            and parameters[i].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
    return numbers, names


def include_frame(frame: FrameType) -> bool:
    """Whether a frame is shown to users: it is neither Teucer's nor of a file that a library
    excludes."""
    return not source.is_internal(frame.f_code.co_filename) and not tracebacks.is_excluded(
        frame.f_code.co_filename
    )


def register_exclusion(path: str) -> None:
    """Leave frames of files that begin so out of tracebacks."""
    tracebacks.excluded.append(path)


@final
class _Registry(Mapping[type, Any]):
    """The classes that are pytrees: whether one is, not how."""

    def __contains__(self, cls: object) -> bool:
        return isinstance(cls, type) and is_node(cls)

    def __getitem__(self, cls: type) -> Any:
        raise KeyError(cls)

    def __iter__(self) -> Iterator[type]:
        raise TypeError("the classes that are pytrees are not listed.")

    def __len__(self) -> int:
        raise TypeError("the classes that are pytrees are not listed.")


_registry = _Registry()


def get_backend(platform: str | None = None) -> Any:
    """The backend of a platform, the default one if None."""
    return jax.devices(platform)[0].client


# The versions of CUDA's libraries that JAX was built with; None for none, as here.
cuda_versions = None
# The dtypes of arrays.
_jax_types = sorted(dtypes.ALL_SET, key=lambda kind: (kind.kind, kind.itemsize, kind.name))


class HashablePartial(functools.partial[Any]):
    """A partial function, equal to another of the same function and arguments."""

    def _parts(self) -> tuple[object, ...]:
        return self.func, self.args, tuple(sorted(self.keywords.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashablePartial) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())


@final
class text:  # made as JAX's function of the name makes one
    """A piece of text that is laid out as it stands."""

    def __init__(self, said: str) -> None:
        self.said = said

    def format(self, **layout: object) -> str:
        """The text."""
        return self.said

    __str__ = __repr__ = format


@final
class _ProfileState:
    """The trace that is being taken of this process."""

    def reset(self) -> None:
        """Forget it, unwritten."""
        profiler._running.session = None


_profile_state = _ProfileState()


def filter_traceback(tb: TracebackType) -> TracebackType | None:
    """A traceback without the frames that are not shown to users."""
    return tracebacks.without_own_frames(tb)


def safe_zip(*xs: Iterable[object]) -> list[tuple[Any, ...]]:
    """zip as a list, of sequences of one length."""
    return list(zip(*xs, strict=True))


def safe_map(f: Callable[..., T], *xs: Iterable[object]) -> list[T]:
    """map as a list, over sequences of one length."""
    return [f(*x) for x in zip(*xs, strict=True)]


def unzip2(pairs: Iterable[tuple[T, U]]) -> tuple[tuple[T, ...], tuple[U, ...]]:
    """The first elements of pairs, and the second elements."""
    first, second = [], []
    for x, y in pairs:
        first.append(x)
        second.append(y)
    return tuple(first), tuple(second)


def unzip3(triples: Iterable[tuple[T, U, V]]) -> tuple[tuple[T, ...], tuple[U, ...], tuple[V, ...]]:
    """The first, second and third elements."""
    columns: tuple[list[Any], list[Any], list[Any]] = [], [], []
    for triple in triples:
        for column, x in zip(columns, triple, strict=True):
            column.append(x)
    return tuple(columns[0]), tuple(columns[1]), tuple(columns[2])


def split_list(xs: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """Lists of the given sizes, and the rest."""
    rest, parts = list(xs), []
    for n in sizes:
        parts.append(rest[:n])
        rest = rest[n:]
    return [*parts, rest]


def partition_list(which: Sequence[bool], xs: Sequence[T]) -> tuple[list[T], list[T]]:
    """The unmarked elements, and the marked ones."""
    pairs = list(zip(which, xs, strict=True))
    return [x for w, x in pairs if not w], [x for w, x in pairs if w]


def merge_lists(which: Sequence[bool], unmarked: Iterable[T], marked: Iterable[T]) -> list[T]:
    """The inverse of `partition_list`: one list of two."""
    first, second = iter(unmarked), iter(marked)
    return [next(second) if w else next(first) for w in which]

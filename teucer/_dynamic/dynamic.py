"""One compilation for many sizes.

Axes of arguments that have a bound, and results whose size depends on values.

`jit(dynamic_dims=...)` traces with symbolic dimensions in the place of the sizes of such axes,
`jit(dynamic_results=...)` lets functions whose result has a size that depends on values introduce
new ones. The program runs on padded arrays (`padding`): here arguments are padded, results are cut
to their true size.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer._arrays.arrays import ArrayImpl, to_numpy
from teucer._base import errors, memo
from teucer._core.calls import FlatCall, leaf_arguments, leaf_names, static_by_name
from teucer._core.jaxpr import ClosedJaxpr, Eqn, interpret
from teucer._core.provided import provided
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import current_trace
from teucer._core.types import ShapedArray
from teucer._devices import shardings
from teucer._dimensions import dimensions
from teucer._dynamic import padding
from teucer._trees import pytrees
from teucer._xla import arrays as xla

if TYPE_CHECKING:
    from teucer._core.types import Aval
    from teucer._core.typing import Value
    from teucer._xla.pytree import PyTree


POWER_OF_TWO = "power of two"
# The ranges of the axes of an argument, by its position or name.
Ranges = tuple[tuple[Any, tuple[tuple[int, Any], ...]], ...]


class _Ambient(threading.local):
    # The scope in which sizes that depend on values may be introduced, and the bound of sizes
    # without another.
    scope: dimensions.Scope | None = None
    bound: int | None = None


_ambient = _Ambient()


@final
class using_scope:
    """Allow sizes that depend on values in a `with` block: they belong to `scope`."""

    __slots__ = ("bound", "saved", "scope")

    def __init__(self, scope: dimensions.Scope | None, bound: int | None) -> None:
        self.scope, self.bound = scope, bound

    def __enter__(self) -> None:
        self.saved = _ambient.scope, _ambient.bound
        _ambient.scope, _ambient.bound = self.scope, self.bound

    def __exit__(self, *exc: object) -> None:
        _ambient.scope, _ambient.bound = self.saved


def scope_key() -> Any:
    """A part of the key of traces: the scope, and the bound of sizes that depend on values."""
    return _ambient.scope, _ambient.bound


def new_size(bound: object = None) -> Any:
    """A symbolic dimension for a size that depends on values, at most `bound`; None where the
    program allows no such size.

    bound: a size; by default the one that `jit(dynamic_results=...)` gives.
    """
    scope, high = _ambient.scope, _ambient.bound if bound is None else padding.bound_of(bound)
    if scope is None or high is None or not results_allowed():
        return None
    return scope.variable(f"s{len(scope.ranges)}", 0, high)


def results_allowed() -> bool:
    """Whether the program being traced allows sizes that depend on values."""
    return _ambient.scope is not None and current_trace().staging()


def finds_sizes(closed: ClosedJaxpr) -> bool:
    """Whether results of a function traced inside another have sizes that it found itself."""
    if not results_allowed():
        return False
    ins, outs = (
        dimensions.variables_of([getattr(a, "shape", ()) for a in avals])
        for avals in (closed.in_avals, closed.out_avals)
    )
    return not set(outs) <= set(ins)


def ranges_of(fun: Callable[..., object], dynamic_dims: object) -> Ranges:
    """`dynamic_dims` of jit as pairs of an argument, by position or name, and the ranges of its
    axes.

    Raises TypeError or ValueError if it is not as described there.
    """
    if not isinstance(dynamic_dims, Mapping):
        raise TypeError(
            "jit: dynamic_dims must be a dict from arguments, by position or name, to their axes "
            f"and bounds: {{'x': {{0: 1024}}}}, got {dynamic_dims!r:.200}."
        )
    found = []
    for key, axes in dynamic_dims.items():
        if not isinstance(key, int | str):
            raise TypeError(
                "jit: a key of dynamic_dims is the position or the name of an argument, got "
                f"{key!r}."
            )
        by_axis = axes if isinstance(axes, Mapping) else {0: axes}
        ranges = tuple(sorted((_axis(axis), _range(size)) for axis, size in by_axis.items()))
        nums, names = static_by_name(
            fun,
            (key,) if isinstance(key, int) else None,
            None if isinstance(key, int) else (key,),
            "dynamic",
        )
        found += [(k, ranges) for k in (*nums, *names)]
    return tuple(found)


def _axis(axis: int) -> int:
    if not isinstance(axis, int):
        raise TypeError(f"jit: an axis in dynamic_dims is an int, got {axis!r}.")
    return axis


def _range(size: Any) -> Any:
    if size == POWER_OF_TWO:
        return size
    low, high = size if isinstance(size, tuple) and len(size) == 2 else (1, size)
    if not isinstance(low, int) or not isinstance(high, int) or isinstance(high, bool):
        raise TypeError(
            "jit: the size of an axis in dynamic_dims is its bound, an int; (least, greatest); or "
            f"{POWER_OF_TWO!r}; got {size!r}."
        )
    if not 0 <= low <= high:
        raise ValueError(
            f"jit: a range in dynamic_dims is not empty and not negative, got {size!r}."
        )
    return low, high


class Symbolic(NamedTuple):
    """The types of a call's leaves with symbolic dimensions, their scope, and the sizes of the
    variables in this call."""

    avals: tuple[Any, ...]
    scope: dimensions.Scope
    sizes: tuple[tuple[str, int], ...]

    @contextlib.contextmanager
    def explained(self, fun: Callable[..., object], call: FlatCall) -> Iterator[None]:
        """Add the names of arguments to the error for a question about their sizes."""
        try:
            yield
        except errors.InconclusiveDimensionOperation as err:
            for i, aval in enumerate(self.avals):
                for axis, n in enumerate(getattr(aval, "shape", ())):
                    if dimensions.is_symbolic(n):
                        low, high = dimensions.bounds(n)
                        err.add_note(
                            f"    {n} is the size of axis {axis} of {_name(fun, call, i)}, from "
                            f"{low} to {high}."
                        )
            err.add_note(
                "  If the answer is known for a smaller range, give that: dynamic_dims={x: {axis: "
                "(least, greatest)}}."
            )
            raise


_signatures: dict[Any, tuple[tuple[Any, ...], dimensions.Scope]] = {}


def symbolic_call(
    fun: Callable[..., Any], call: FlatCall, avals: Sequence[Any], ranges: Ranges
) -> Symbolic:
    """The types of a call with variables for the sizes of dynamic axes: axes of one range and one
    size share a variable.

    A size below the range stays a number, and has a program of its own. Raises ValueError if one
    is above it.
    """
    by_leaf = _leaf_ranges(call.tree, tuple(i for i, _ in call.statics[0]), ranges)
    variables: dict[Any, int] = {}
    signature = []
    for i, (aval, axes) in enumerate(zip(avals, by_leaf, strict=True)):
        if not axes:
            signature.append(aval)
            continue
        shape = list(aval.shape)
        for axis, allowed in axes:
            if not -aval.ndim <= axis < aval.ndim:
                name = _name(fun, call, i)
                raise ValueError(
                    f"jit: axis {axis} in dynamic_dims is not an axis of {name}.\n    {name}: "
                    f"{aval.str_short(short_dtypes=True)}"
                )
            size = shape[axis]
            low, high = _up_to_power_of_two(size) if allowed == POWER_OF_TWO else allowed
            if size > high:
                name = _name(fun, call, i)
                raise ValueError(
                    f"jit: {name} is longer than dynamic_dims allow.\n"
                    f"    {name}: {aval.str_short(short_dtypes=True)}, axis {axis} has size "
                    f"{size}, bound {high}\n  Give a greater bound, or {POWER_OF_TWO!r} for one "
                    "compilation each power of two."
                )
            if low <= size and low < high:
                shape[axis] = _Variable(
                    variables.setdefault((size, low, high), len(variables)), low, high
                )
        signature.append((tuple(shape), aval))
    key = tuple((s[0], s[1].update(shape=())) if type(s) is tuple else s for s in signature)
    found = _signatures.get(key)
    if found is None:
        scope = dimensions.Scope(strict=True)
        made = tuple(
            s[1].update(
                shape=tuple(_variable(scope, d) if type(d) is _Variable else d for d in s[0])
            )
            if type(s) is tuple
            else s
            for s in signature
        )
        found = memo.remember(_signatures, key, (made, scope))
    made, scope = found
    return Symbolic(made, scope, tuple((f"n{i}", size) for (size, _, _), i in variables.items()))


def _up_to_power_of_two(size: int) -> tuple[int, int]:
    """The sizes that have the same next power of two as a size."""
    high = 1 << max(size - 1, 0).bit_length()
    return high // 2 + 1, high


class _Variable(NamedTuple):
    """An axis of dynamic size in a signature: the number of its variable, and the range."""

    number: int
    low: int
    high: int


def _variable(scope: dimensions.Scope, axis: _Variable) -> Any:
    made = scope.variable(f"n{axis.number}", axis.low, axis.high)
    # Axes of one range and one size have one variable, so variables of one range differ in every
    # call of the signature.
    scope.groups[f"n{axis.number}"] = axis.low, axis.high
    return made


def _name(fun: Callable[..., Any], call: FlatCall, i: int) -> str:
    return leaf_names(fun, call.tree, [j for j, _ in call.statics[0]])[i]


@functools.lru_cache(1024)
def _leaf_ranges(tree: PyTree, static: tuple[int, ...], ranges: Ranges) -> tuple[Any, ...]:
    """For each leaf of a call the ranges of its dynamic axes, counted as the user does."""
    asked = dict(ranges)
    n = len(static) + len(pytrees.treedef_children(pytrees.treedef_children(tree)[0]))
    asked.update({i + n: asked[i] for i in range(-n, 0) if i in asked and i + n not in asked})
    return tuple(asked.get(arg, ()) for arg in leaf_arguments(tree, static))


def to_buffers(args: Sequence[Value], avals: Sequence[ShapedArray]) -> list[Any]:
    """Arrays of true size padded to the bounds of their types."""
    return [
        _to_buffer(x, aval) if aval.symbolic else x for x, aval in zip(args, avals, strict=True)
    ]


def _to_buffer(x: Any, aval: Aval) -> Any:
    shape = padding.bounded_aval(aval).shape
    size = np.shape(x)
    if size == shape:
        return x
    if _on_host(x):
        # Copied on the host: a program that pads would be compiled for each size.
        physical = aval.update(shape=shape).physical
        value = x._key_data() if aval.extended else to_numpy(x) if isinstance(x, ArrayImpl) else x
        buffer = _blank(physical.shape, physical.dtype)
        buffer[tuple(map(slice, size))] = value
        return buffer
    return padding.extend(x, shape)


# Any values would do; zeros are quick to make, and slow no kernel down.
_blank = np.zeros


def _on_host(x: Any) -> bool:
    return not isinstance(x, ArrayImpl) or (
        x._sharding.num_devices == 1
        and provided.target(x._sharding._device.platform).in_host_memory
    )


def true_arrays(
    outs: Sequence[Value], avals: Sequence[ShapedArray], sizes: Mapping[str, int]
) -> list[Any]:
    """Results cut to their true size."""
    return [
        _true_array(y, aval, sizes) if aval.symbolic else y
        for y, aval in zip(outs, avals, strict=True)
    ]


def _true_array(y: Any, aval: ShapedArray, sizes: Mapping[str, int]) -> Any:
    shape = tuple(dimensions.substitute(n, sizes) for n in aval.shape)
    if shape == np.shape(y):
        return y
    part = tuple(map(slice, shape))
    if not isinstance(y, ArrayImpl):
        return y[part]
    if not _on_host(y):
        return padding.cut(y, shape)
    value = y._key_data() if aval.extended else to_numpy(y)
    devices = list(shardings.devices_of(y._sharding))
    return xla.put(
        aval.update(shape=shape).carrier,
        y._sharding,
        [np.ascontiguousarray(value[part])],
        devices,
        committed=y._committed,
    )


def found_sizes(found: Sequence[dimensions.Dimension], values: Sequence[Any]) -> dict[str, int]:
    """The sizes that a program found, by name, which it returned.

    Raises ValueError for one beyond its bound, and for a negative one.
    """
    sizes = {}
    for variable, value in zip(found, values, strict=True):
        size = sizes[str(variable)] = int(value)
        high = dimensions.bounds(variable).high
        if size < 0:
            raise ValueError(
                "jit: repeat: repeats may not be negative, and one is.\n"
                "  Give jnp.maximum(repeats, 0) if none is meant there."
            )
        if size > high:
            raise ValueError(
                f"jit: a result has {size} elements, beyond the bound {int(high)} of "
                f"dynamic_results.\n  Give a greater bound: jit(..., dynamic_results={size})."
            )
    return sizes


def sizes_of_results(
    avals: Sequence[Aval], values: Sequence[Any], sizes: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    """The sizes of variables, and of variables that are lengths of the given results."""
    known = dict(sizes)
    for aval, value in zip(avals, values, strict=True):
        for size, n in zip(getattr(aval, "shape", ()), np.shape(value), strict=True):
            if dimensions.is_symbolic(size) and size == size.scope.variable(
                dimensions.variables_of([[size]])[0]
            ):
                known.setdefault(dimensions.variables_of([[size]])[0], n)
    return tuple(known.items())


def specialize(closed: ClosedJaxpr, sizes: Mapping[str, int], *args: object) -> list[Any]:
    """Evaluate a jaxpr under the current trace with sizes in the place of its symbolic
    dimensions."""
    process = current_trace().process

    def handle(eqn: Eqn, operands: tuple[object, ...]) -> Sequence[Any]:
        return process(
            eqn.primitive, operands, {k: specialized(p, sizes) for k, p in eqn.params.items()}
        )

    return interpret(closed, args, handle)


def specialized(param: object, sizes: Mapping[str, int]) -> Any:
    """A type or a parameter of an equation with sizes in the place of symbolic dimensions."""
    if isinstance(param, dimensions.Dimension):
        return dimensions.substitute(param, sizes)
    if isinstance(param, ShapedArray):
        return param.update(shape=tuple(dimensions.substitute(n, sizes) for n in param.shape))
    if isinstance(param, ClosedJaxpr):
        avals = [specialized(a, sizes) for a in param.in_avals]
        return stage_jaxpr(lambda *xs: specialize(param, sizes, *xs), avals, param.jaxpr.debug_info)
    if isinstance(param, tuple):
        items = [specialized(p, sizes) for p in param]
        return type(param)(*items) if hasattr(param, "_fields") else tuple(items)
    return param

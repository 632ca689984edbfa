"""Metadata on operations for the compiler: `set_xla_metadata`, calls that carry metadata, and
places of computation.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, final

from teucer._base import config, memo, tracebacks
from teucer._core import array_ops, axes, dialects, names
from teucer._core.array_ops import moveaxis
from teucer._core.calls import check_callable, check_leaves, flatten_call, stage_user
from teucer._core.jaxpr import ClosedJaxpr, Eqn
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._devices.partition import aligned
from teucer._lower import text
from teucer._optimize.dce import dce_closed, narrowed
from teucer._optimize.unchanged import forward_call
from teucer._transform.jit_calls import JaxprCall, ProgramCall, hoist_consts
from teucer._trees import pytrees
from teucer._xla import config as cells
from teucer._xla.dispatcher import PjitFunction

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Arrays, Cotangent, Params, Tangents, Value, Values
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written


Tags = tuple[tuple[str, str], ...]


@final
class XlaMetadataValue(Primitive):
    """x, where the compiler is told something of the operation that makes it: pairs of strings."""

    __slots__ = ()
    name = "xla_metadata_value"
    mergeable = False
    shard = aligned

    def types(self, x: ShapedArray, *, xla_metadata_kvs: Tags) -> Any:
        return (x,)

    def evaluate(self, x: Value, *, xla_metadata_kvs: Tags) -> Any:
        return (x,)

    def lower(self, ctx: Context, x: Written, *, xla_metadata_kvs: Tags) -> Any:
        for i in range(len(ctx.lines) - 1, -1, -1):
            results, equals, _ = ctx.lines[i].partition(" = ")
            if equals and x.name in results.split(", "):
                ctx.lines[i] = _told(ctx.lines[i], xla_metadata_kvs)
                break
        return (x,)

    def jvp(self, primals: Arrays, tangents: Tangents, *, xla_metadata_kvs: Tags) -> Any:
        (t,) = tangents
        moved = t if type(t) is Zero else self.call(t, xla_metadata_kvs=xla_metadata_kvs)[0]
        return self.call(*primals, xla_metadata_kvs=xla_metadata_kvs), (moved,)

    def transpose(self, cts: Sequence[Cotangent], x: Value, *, xla_metadata_kvs: Tags) -> Any:
        return (cts[0],)

    def batch(self, axis: Axis, args: Values, dims: Sequence[int], **params: object) -> Any:
        return self.call(moveaxis(args[0], dims[0], 0), **params), (0,)

    padded = dialects.through


xla_metadata_value_p = XlaMetadataValue()


def _told(line: str, tags: Tags) -> str:
    """A line of MLIR, in its generic form, with metadata added; constants are left as they are."""
    end = line.rfind(" : (")
    if end < 0 or '"stablehlo.constant"' in line:
        return line
    head, kinds = line[:end], line[end:]
    start = head.rfind(" {") if head.endswith("}") else -1
    attributes = head[start + 2 : -1] if start >= 0 else ""
    if start >= 0 and attributes.count("{") != attributes.count(
        "}"
    ):  # a dictionary within the attributes
        start = head.rfind(" {mhlo.frontend_attributes")
        attributes = head[start + 2 : -1]
    head = head[:start] if start >= 0 else head
    return f"{head} {{{text.with_metadata(attributes, tags)}}}{kinds}"


@final
class XlaMetadataCall(ProgramCall):
    """Evaluates a jaxpr as a function of the module. Its calls carry metadata for the compiler."""

    __slots__ = ()
    name = "xla_metadata_call"
    multiple_results = True
    mergeable = False

    def for_operands(self, params: Params, sources: Sequence[int | None]) -> dict[str, Any]:
        return params

    def for_staged(
        self, params: Params, avals: Sequence[ShapedArray], outs: Sequence[Value]
    ) -> dict[str, Any]:
        told = params["ad_metadata"]
        return params if told is None else {**params, "xla_metadata": told, "ad_metadata": None}

    def evaluate(self, *args: Value, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(jaxpr(*args))

    def lower(
        self,
        ctx: Context,
        *values: Written,
        jaxpr: ClosedJaxpr,
        xla_metadata: Tags,
        ad_metadata: Tags | None,
    ) -> Any:
        if jaxpr.effects:
            return ctx.inline(jaxpr, *values)
        return ctx.call(
            "xla_metadata_call", jaxpr, *values, attributes=text.with_metadata("", xla_metadata)
        )

    def forward(self, eqn: Eqn) -> Any:
        return forward_call(eqn, "jaxpr")

    def dce(self, eqn: Eqn, used: Sequence[bool]) -> Eqn:
        closed, taken = dce_closed(eqn.params["jaxpr"], used)
        return narrowed(eqn, used, taken, jaxpr=closed)

    padded = dialects.padded.rule(JaxprCall.on_buffers)


xla_metadata_call_p = XlaMetadataCall()


def _tags(said: Params) -> Tags:
    return tuple((k, _value(v)) for k, v in said.items() if v is not None)


def _value(value: Value) -> str:
    """A value as the compiler is told it: true and false, and everything else as its text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# Metadata for the operations that are traced now. It is part of the keys of traces and programs.
_said_now = cells.Config(
    "xla_metadata", None, include_in_jit_key=True, include_in_trace_context=True
)


@final
class Metadata(ContextDecorator):
    """Give the operations in a `with` block or a function metadata for the compiler. None removes
    metadata that an outer block gives."""

    def __init__(self, said: dict[str, str | None]) -> None:
        self.said = said
        self.saved: list[tuple[Any, tuple[str, ...]]] = []

    def _recreate_cm(self) -> Metadata:
        return Metadata(self.said)

    def __enter__(self) -> None:
        names.Used.ever = True
        outer = names._names.scope
        joined = {**dict(outer.tags if type(outer) is names.Tagged else ()), **self.said}
        tags = tuple((k, v) for k, v in joined.items() if v is not None)
        self.saved.append((_said_now.swap_local(tags), outer))
        names._names.scope = names.Tagged(tuple(outer), tags)

    def __exit__(self, *exc: object) -> None:
        local, names._names.scope = self.saved.pop()
        _said_now.set_local(local)

    def __call__(self, func: Callable[..., Any]) -> Any:
        """The function in such a block. A jitted function stays one, and can be lowered."""
        wrapped: Any = super().__call__(func)
        if isinstance(func, PjitFunction):
            for stage in ("trace", "lower", "eval_shape"):
                setattr(wrapped, stage, super().__call__(getattr(func, stage)))
        return wrapped


@final
class _Nothing:
    """Stands for the value that is not given."""


def set_xla_metadata(x: Value = _Nothing, **kwargs: object) -> Any:
    """Tell the compiler something of operations, as attributes of the program, by name.

    Without x: of those in a `with` block, or of a function that it decorates. None as a value
    removes metadata that an outer block gives. With x, a pytree of arrays: of the operations that
    make them; the arrays are returned. Values are written as strings.

    >>> import teucer as jax
    >>> from teucer.experimental.xla_metadata import set_xla_metadata
    >>> def f(x):
    ...     with set_xla_metadata(tier="hot"):
    ...         return x + 1
    >>> 'mhlo.frontend_attributes = {tier = "hot"}' in jax.jit(f).lower(1.).as_text()
    True
    """
    if x is _Nothing:
        return Metadata({k: None if v is None else _value(v) for k, v in kwargs.items()})
    tags = _tags(kwargs)
    return pytrees.tree_map(lambda y: xla_metadata_value_p.call(y, xla_metadata_kvs=tags)[0], x)


def xla_metadata_call(
    f: Callable[..., object] | None = None, /, **meta: object
) -> Callable[..., Any]:
    """f as a function of the program, with metadata for the compiler on its calls.

    `inlineable="false"` keeps it a call. Usable as a decorator with options. `xla_metadata_call2`
    also takes metadata for derivatives. Raises TypeError for values that are no strings, bools or
    numbers.

    >>> import teucer as jax
    >>> from teucer.experimental.scheduling_groups import xla_metadata_call
    >>> xla_metadata_call(lambda x: x * 2, inlineable="false")(3)
    Array(6, dtype=int32, weak_type=True)
    """
    _check_values(meta)
    if f is None:
        return functools.partial(_metadata_call, meta=meta)
    return _metadata_call(f, meta=meta)


def xla_metadata_call2(
    f: object = None, /, metadata: dict[str, Any] | None = None, *, ad_metadata: object = "same"
) -> Callable[..., Any]:
    """f as a function of the program, with metadata for the compiler on its calls; a decorator
    where f is not given.

    metadata: names and values (strings, numbers, booleans), which are written as strings. Given
    alone it makes a decorator.
    ad_metadata: metadata for the linear part of derivatives, and for its transposes: "same" for the
    same, "drop" for nothing, or a dict.
    Raises TypeError for other arguments.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental.xla_metadata import xla_metadata_call2
    >>> f = xla_metadata_call2({"group": "a"}, ad_metadata={"group": "b"})(jnp.sin)
    >>> 'group = "b"' in jax.jit(jax.grad(f)).lower(1.).as_text()
    True
    """
    if isinstance(f, dict) and metadata is None:
        f, metadata = None, f
    if metadata is not None and not isinstance(metadata, dict):
        raise TypeError(f"xla_metadata_call2: metadata must be a dict, got {metadata!r}")
    if f is not None and not callable(f):
        raise TypeError(f"xla_metadata_call2: expected a callable to wrap, got {f!r}")
    if ad_metadata not in ("same", "drop") and not isinstance(ad_metadata, dict):
        raise TypeError(
            "xla_metadata_call2: ad_metadata must be 'same', 'drop', or a dict of metadata, got "
            f"{ad_metadata!r}"
        )
    for said in (metadata or {}, ad_metadata if isinstance(ad_metadata, dict) else {}):
        _check_values(said)
    of_derivatives = (
        {"same": None, "drop": ()}[ad_metadata]
        if isinstance(ad_metadata, str)
        else _tags(ad_metadata)
    )
    if f is None:
        return functools.partial(_metadata_call, meta=metadata or {}, of_derivatives=of_derivatives)
    return _metadata_call(f, meta=metadata or {}, of_derivatives=of_derivatives)


def _check_values(meta: Params) -> None:
    """Raise TypeError for metadata with values that cannot be written."""
    for name, value in meta.items():
        if not isinstance(value, str | bool | int | float):
            raise TypeError(
                "xla_metadata_call metadata values must be str, bool, int, or float, got "
                f"{type(value)} for key {name!r}"
            )


def _metadata_call(
    fun: Callable[..., object], *, meta: Params, of_derivatives: Tags | None = None
) -> Callable[..., Any]:
    check_callable(fun, "xla_metadata_call")
    # A function that is called twice on the same types is one function of the program.
    traced: dict[Any, Any] = {}

    @tracebacks.boundary_of(fun)
    def wrapped(*args: Value, **kwargs: object) -> Any:
        call = flatten_call(args, kwargs, (), ())
        avals = check_leaves(call, fun, "xla_metadata_call")
        key = (call.tree, tuple(avals), config.trace_context(), axes.axis_key())
        closed, out_tree = traced.get(key, (None, None))
        consts: Sequence[Any] = ()
        if closed is None:
            jaxpr, consts, out_tree, _ = stage_user(fun, call, avals, "xla_metadata_call")
            closed = hoist_consts(jaxpr)
            if not consts:  # closed-over values may change
                memo.remember(traced, key, (closed, out_tree))
        outs = xla_metadata_call_p.call(
            *consts,
            *call.leaves,
            jaxpr=closed,
            xla_metadata=_tags(meta),
            ad_metadata=of_derivatives,
        )
        return pytrees.tree_unflatten(out_tree, outs)

    return wrapped


def fuse_limit() -> Metadata:
    """A limit of fusion: the compiler fuses no operation in a `with` block, or of a function that
    it decorates, with one outside.

    The compilers of TPUs know it (FUSE_LIMIT).
    """
    return Metadata({"FUSE_LIMIT": "true"})


def must_fuse_call(identifier: str) -> Callable[..., Any]:
    """A decorator: the compiler must make one fusion of all operations of the function, or refuse
    the program.

    identifier: the number of the fusion. The compilers of TPUs know it (MUST_FUSE).

    >>> import teucer.numpy as jnp
    >>> from teucer.experimental.xla_metadata import must_fuse_call
    >>> must_fuse_call("1")(lambda x: jnp.square(x).sum())(jnp.arange(3.))
    Array(5., dtype=float32)
    """
    return xla_metadata_call(MUST_FUSE=identifier)


def scheduling_group(name: str) -> Callable[..., Any]:
    """A decorator: the operations of the function are scheduled as a group of this name."""
    return xla_metadata_call(scheduling_group=name)


_COMPUTE = {"device_host": "host", "device": None, "tpu_sparsecore": "sparse"}


def compute_on(
    f: Callable[..., object] | str | None = None,
    *,
    compute_type: str | None = None,
    out_memory_spaces: object = None,
    compiler_options: Params | None = None,
) -> Any:
    """Compute the operations in a `with` block, or of a decorated function, in a given place.

    compute_type: 'device', 'device_host', the host of the device; 'tpu_sparsecore'; 'gpu_stream:N'.
    It may be the first argument, as before JAX 0.11.
    f, out_memory_spaces, compiler_options: as of `compute_on2`, of which this is another name where
    out_memory_spaces is given.
    Raises TypeError where no compute_type is given, ValueError for one that is not known.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental.compute_on import compute_on
    >>> jax.jit(compute_on("device_host")(jnp.sin))(0.)
    Array(0., dtype=float32, weak_type=True)
    """
    if isinstance(f, str) and compute_type is None:
        f, compute_type = None, f
    if compute_type is None or (f is not None and out_memory_spaces is None):
        raise TypeError(
            "compute_on: give compute_type, and with a function out_memory_spaces too.\n"
            '  compute_on("device_host") is a decorator.'
        )
    if out_memory_spaces is not None:
        return compute_on2(
            f,  # type: ignore[arg-type]  # no str: see above
            compute_type=compute_type,
            out_memory_spaces=out_memory_spaces,
            compiler_options=compiler_options,
        )
    return _computed_on(compute_type)


def _computed_on(compute_type: str) -> Metadata:
    stream = re.fullmatch(r"gpu_stream:(\d+)", compute_type)
    if stream is not None:
        return Metadata({"_xla_stream_annotation": stream[1], "inlineable": "false"})
    if compute_type not in _COMPUTE:
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, "
            "`device`, `tpu_sparsecore`, and `gpu_stream:#`."
        )
    return Metadata({"_xla_compute_type": _COMPUTE[compute_type]})


def compute_on2(
    f: Callable[..., object] | None = None,
    *,
    compute_type: str,
    out_memory_spaces: object,
    compiler_options: Params | None = None,
) -> Callable[..., Any]:
    """f as a function of the program that is computed elsewhere, as of `compute_on`; a decorator
    where f is not given.

    out_memory_spaces: of results, `jax.memory.Space`s or a tree prefix of them.
    Raises ValueError for another compute_type, or if out_memory_spaces is no prefix of the results;
    NotImplementedError for compiler_options, which only compilers of TPUs know.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental.compute_on import compute_on2
    >>> on_host = compute_on2(compute_type="device_host", out_memory_spaces=jax.memory.Space.Device)
    >>> jax.jit(on_host(jnp.sin))(0.)
    Array(0., dtype=float32, weak_type=True)
    """
    if f is None:
        return functools.partial(
            compute_on2,
            compute_type=compute_type,
            out_memory_spaces=out_memory_spaces,
            compiler_options=compiler_options,
        )
    if compiler_options is not None:
        raise NotImplementedError(
            f"compute_on2: compiler_options are of compilers of TPUs, got {compiler_options}.\n"
            "  Leave them out; options of the whole program are those of `jax.jit`."
        )
    called = _metadata_call(f, meta=_computed_on(compute_type).said)

    @tracebacks.boundary_of(f)
    def wrapped(*args: Value, **kwargs: object) -> Any:
        outs, tree = pytrees.tree_flatten(called(*args, **kwargs))
        spaces = pytrees.flatten_axes("compute_on2 out_memory_spaces", tree, out_memory_spaces)
        return tree.unflatten(
            [
                y if typeof(y).memory_space is space else array_ops.lay_out(y, space)
                for y, space in zip(outs, spaces, strict=True)
            ]
        )

    return wrapped

"""Vectorisation: each value carries a batch dimension."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._base import memo
from teucer._core import array_ops, axes, dialects
from teucer._core.jaxpr import ClosedJaxpr, eval_jaxpr, refers
from teucer._core.leaks import check_alive, check_leaks
from teucer._core.primitive import Axis
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import Trace, Tracer, current_trace, end, typeof, using
from teucer._core.types import ShapedArray, float0
from teucer._devices.specs import PartitionSpec, entry_names

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Partition, Size, Value


@functools.lru_cache(memo.RECENT)  # types are interned; tracers ask at every look at their shape
def mapped_aval(aval: Aval, dim: int | None) -> Any:
    """The type of one element of a batch."""
    return aval.dec_rank(None, dim)


def unmapped_aval(
    aval: Aval, dim: int | None, size: Size, explicit: Partition | None = None
) -> Any:
    """The type of a batch of values; `explicit` is the partition of the batch axis."""
    if explicit is None or dim is None or aval.is_high:
        return aval.inc_rank(size, aval.leading_axis_spec() if dim == 0 else dim)
    own = aval.partition or explicit.with_spec(())
    return aval.update(
        shape=(*aval.shape[:dim], size, *aval.shape[dim:]),
        sharding=own.inserted(aval.ndim, dim, explicit.spec[0]),
    )


def laid_over(y: Value, dim: int | None, explicit: Partition | None) -> Any:
    """A batch, with its axis laid over the given Explicit mesh axes; a value without a partition as
    it is."""
    if explicit is None or dim is None:
        return y
    aval, entry = typeof(y), explicit.spec[0]
    if not isinstance(aval, ShapedArray) or aval.dtype == float0:
        return y
    if aval.partition is not None and aval.partition.spec[dim] == entry:
        return y
    own = aval.partition or explicit.with_spec(PartitionSpec(*[None] * aval.ndim))
    # Another axis that lies over these mesh axes, as one that a collective has gathered, is laid
    # out otherwise.
    entries = [
        None if set(entry_names(e)) & set(entry_names(entry)) else e for e in own.spec.partitions
    ]
    return array_ops.lay_out(
        y, own.with_spec(own.spec.update(partitions=(*entries[:dim], entry, *entries[dim + 1 :])))
    )


@final
class BatchTracer(Tracer):
    """A batch of values along one dimension of `val`."""

    __slots__ = ("val", "dim")

    def __init__(self, trace: Trace, val: Value, dim: int) -> None:
        self._trace, self.val, self.dim = trace, val, dim

    @property
    def aval(self) -> Any:
        aval = typeof(self.val)
        if not aval.is_high:
            return mapped_aval(aval, self.dim)
        trace: Any = self._trace  # a BatchTrace
        return aval.dec_rank(trace.axis.size, self.dim)

    def origin(self) -> str:
        x = self.val
        return x.origin() if isinstance(x, Tracer) else ""

    def __repr__(self) -> str:
        return f"VmapTracer(aval={self.aval}, batched={typeof(self.val)})"


@final
class BatchTrace(Trace):
    """Runs each primitive's batch rule in the parent."""

    __slots__ = ("axis",)

    def __init__(self, parent: Trace, axis: Axis) -> None:
        super().__init__(parent)
        self.axis = axis

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        values: list[Any] = []
        dims: list[int | None] = []
        batched = False
        for x in args:
            if type(x) is BatchTracer and (x._trace is self or self.continues(x)):
                values.append(x.val)
                dims.append(x.dim)
                batched = True
            else:
                if isinstance(x, Tracer):
                    check_alive(x)
                values.append(x)
                dims.append(None)
        parent = self.parent
        assert parent is not None
        if batched and primitive.higher_order and refers(args, params):
            # For functions that change references.
            from teucer._dialects.references.discharge import without_references

            found = without_references(self, primitive, args, params)
            if found is not None:
                return found
        with using(parent):
            if not (
                batched
                or dialects.makes_references[type(primitive)]
                or (primitive.uses_axis and primitive.uses_axis(self.axis.name, params))
            ):
                return parent.process(primitive, tuple(values), params)
            outs, out_dims = primitive.batch(self.axis, values, tuple(dims), **params)
            if self.axis.explicit is not None:
                outs = [
                    laid_over(y, d, self.axis.explicit) for y, d in zip(outs, out_dims, strict=True)
                ]
        return tuple(
            [
                y if d is None else BatchTracer(self, y, d)
                for y, d in zip(outs, out_dims, strict=True)
            ]
        )

    def continues(self, x: BatchTracer) -> bool:
        """Whether x is a batch over this trace's axis, made by an earlier trace. Custom functions
        and rules run in traces of their own, and may close over such values."""
        trace = x._trace
        if type(trace) is not BatchTrace or trace.axis is not self.axis:
            return False
        check_alive(x)
        return True

    def split(self, x: Value) -> tuple[Any, int | None]:
        """The values and the batch dimension of a function's result."""
        if type(x) is BatchTracer and (x._trace is self or self.continues(x)):
            return x.val, x.dim
        check_alive(x)
        return x, None

    def __repr__(self) -> str:
        return "a function being vectorised (vmap)"


def batch_flat(
    f: Callable[..., Sequence[Value]], axis: Axis, args: Sequence[Value], dims: Sequence[int | None]
) -> tuple[list[Any], list[int | None]]:
    """Results of a function of flat values on a batch, and their batch dimensions."""
    parent = current_trace()
    trace = BatchTrace(parent, axis)
    tracers = [
        x if d is None else BatchTracer(trace, x, d) for x, d in zip(args, dims, strict=True)
    ]
    with using(trace), axes.extended({} if axis.name is None else {axis.name: axis.size}):
        outs = f(*tracers)
    pairs = [trace.split(y) for y in outs]
    end(trace)
    del tracers, outs
    check_leaks(trace)
    return [y for y, _ in pairs], [d for _, d in pairs]


def batch_jaxpr(
    closed: ClosedJaxpr, axis: Axis, batched: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr on batches: batch dimensions are in front, of the inputs marked and of the results
    returned as marked.

    instantiate: which results shall be batched even if they need not be. Kept on the jaxpr.
    """
    wanted = (
        (instantiate,) * len(closed.jaxpr.outvars)
        if isinstance(instantiate, bool)
        else tuple(instantiate)
    )
    made: tuple[ClosedJaxpr, list[bool]] = closed.kept(
        ("batch", axis, tuple(batched), wanted), lambda: _batch_jaxpr(closed, axis, batched, wanted)
    )
    return made


def _batch_jaxpr(
    closed: ClosedJaxpr, axis: Axis, batched: Sequence[bool], wanted: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    out_batched: list[bool] = []

    def on_batch(*args: Value) -> list[Any]:
        outs, dims = batch_flat(
            lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs),
            axis,
            args,
            [0 if b else None for b in batched],
        )
        out_batched[:] = [d is not None or w for d, w in zip(dims, wanted, strict=True)]
        return [
            laid_over(array_ops.to_axis(y, d, axis.size, 0), 0, axis.explicit) if b else y
            for y, d, b in zip(outs, dims, out_batched, strict=True)
        ]

    avals = [
        unmapped_aval(a, 0, axis.size, axis.explicit) if b else a
        for a, b in zip(closed.in_avals, batched, strict=True)
    ]
    return stage_jaxpr(on_batch, avals, closed.jaxpr.debug_info), out_batched

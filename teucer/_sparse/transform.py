"""`sparsify`: functions of dense arrays made into functions of sparse ones.

A function is traced as if all its arguments were dense. A rule for each primitive then does the
same to the buffers of sparse values (`rules`, and here for primitives that carry jaxprs).
`SparseTrace` does the same while the function runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer import lax
from teucer._base import tracebacks
from teucer._core.calls import FlatFunction
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, interpret
from teucer._core.leaks import check_alive
from teucer._core.primitive import MissingRule, Primitive
from teucer._core.stage import stage_flat
from teucer._core.trace import Trace, Tracer, current_trace, end, typeof, using
from teucer._core.types import ShapedArray
from teucer._sparse.api import todense_p
from teucer._sparse.base import JAXSparse
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcsr_array import BCSR
from teucer._sparse.calls import CALLS
from teucer._sparse.rules import DENSE_RESULT, elementwise, sparse_rules_bcoo, sparse_rules_bcsr
from teucer._sparse.spenv import (
    SparsifyEnv,
    SparsifyValue,
    array_of,
    arrays_to_spvalues,
    spvalue_of,
    spvalues_to_avals,
)
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Params, Value
    from teucer._xla.pytree import PyTree


Array = Any
ArrayOrSparse = Any


def eval_sparse(
    jaxpr: Jaxpr, consts: Sequence[Value], spvalues: Sequence[SparsifyValue], spenv: SparsifyEnv
) -> list[SparsifyValue]:
    """Results of a jaxpr on values of spenv."""
    # A dense array that is repeated along axes is kept as it was until something but a product
    # needs it.
    small: dict[int, SparsifyValue] = {}

    def on_values(x: ArrayLike) -> SparsifyValue:
        return x if isinstance(x, SparsifyValue) else spenv.dense(x)

    def handle(eqn: Eqn, operands: Sequence[Any]) -> Sequence[SparsifyValue]:
        primitive, values = eqn.primitive, list(map(on_values, operands))
        if (
            primitive in (lax.mul_p, lax.div_p)
            and values[0].is_sparse() is not values[1].is_sparse()
        ):
            values = [v if v.data_ref is None else small.get(v.data_ref, v) for v in values]
        outs = apply(primitive, spenv, values, eqn.params)
        if primitive is lax.broadcast_in_dim_p and values[0].is_dense():
            small[outs[0].data_ref] = _unrepeated(spenv, values[0], eqn.params)  # type: ignore[index]
        return outs

    return list(map(on_values, interpret(ClosedJaxpr(jaxpr, consts), spvalues, handle)))


def _unrepeated(spenv: SparsifyEnv, value: SparsifyValue, params: Params) -> SparsifyValue:
    sizes = [1] * len(params["shape"])
    for size, axis in zip(value.shape, params["broadcast_dimensions"], strict=True):
        sizes[axis] = size
    return spenv.dense(lax.reshape(spenv.data(value), tuple(sizes))) if sizes else value


def apply(
    primitive: Primitive, spenv: SparsifyEnv, values: Sequence[SparsifyValue], params: Params
) -> Sequence[SparsifyValue]:
    """A primitive on values.

    Raises NotImplementedError if it has no rule for sparse ones.
    """
    if all(v.is_dense() for v in values):
        outs = primitive.call(*(spenv.data(v) for v in values), **params)
        return [spenv.dense(y) for y in outs]
    bcsr = any(v.is_bcsr() for v in values)
    table = sparse_rules_bcsr if bcsr else sparse_rules_bcoo
    rule = table.get(primitive)
    if rule is None and bcsr and primitive in sparse_rules_bcoo and primitive not in CALLS:
        return _by_bcoo(sparse_rules_bcoo[primitive], spenv, values, params)
    if rule is None:
        found = elementwise(primitive, spenv, values, params)
        if found is not None:
            return found
        try:
            rule = sparse_rules_bcoo.of_call(primitive, params)
        except MissingRule as err:
            raise NotImplementedError(str(err)) from None
    if rule is None:
        dense = str(primitive) in _DENSIFYING
        raise NotImplementedError(
            DENSE_RESULT.format(primitive)
            if dense
            else f"sparse rule for {primitive} is not implemented."
        )
    return rule(spenv, *values, **params)


_DENSIFYING = frozenset(["eq", "ne", "ge", "gt", "le", "lt"])


def _by_bcoo(
    rule: Callable[..., Any],
    spenv: SparsifyEnv,
    values: Sequence[SparsifyValue],
    params: dict[str, Any],
) -> Any:
    """A rule for BCOO arrays, on BCSR arrays: results are BCSR arrays where they have two sparse
    dimensions."""
    given = [spvalue_of(spenv, array_of(spenv, v).to_bcoo()) if v.is_bcsr() else v for v in values]
    outs = [array_of(spenv, v) for v in rule(spenv, *given, **params)]
    return [
        spvalue_of(spenv, BCSR.from_bcoo(y) if isinstance(y, BCOO) and y.n_sparse == 2 else y)
        for y in outs
    ]


# --- while the function runs ----------------------------------------------------------------------


@final
class SparseTracer(Tracer):
    """A dense or sparse array while a function of it runs under `sparsify(use_tracer=True)`."""

    __slots__ = ("_spvalue",)
    _trace: SparseTrace

    def __init__(self, trace: SparseTrace, *, spvalue: SparsifyValue) -> None:
        self._trace, self._spvalue = trace, spvalue

    @property
    def spenv(self) -> SparsifyEnv:
        """The buffers."""
        return self._trace.spenv

    @property
    def aval(self) -> Any:
        data = typeof(self.spenv.data(self._spvalue))
        return ShapedArray(self._spvalue.shape, data.dtype, data.weak_type)

    def full_lower(self) -> SparseTracer:
        """The tracer itself."""
        return self


@final
class SparseTrace(Trace):
    """Applies the rules of `sparsify` in the parent."""

    __slots__ = ("spenv", "tag")

    def __init__(self, parent_trace: Trace, tag: object, spenv: SparsifyEnv) -> None:
        super().__init__(parent_trace)
        self.tag, self.spenv = tag, spenv

    @property
    def parent_trace(self) -> Trace | None:
        """The trace in which the rules run."""
        return self.parent

    def to_sparse_tracer(self, val: Value) -> SparseTracer:
        """A value as a tracer of this trace."""
        if isinstance(val, SparseTracer) and val._trace is self:
            return val
        check_alive(val)
        return SparseTracer(self, spvalue=self.spenv.dense(val))

    def process(self, primitive: Any, args: tuple[object, ...], params: Params) -> tuple[Any, ...]:
        parent = self.parent
        assert parent is not None
        values = [self.to_sparse_tracer(x)._spvalue for x in args]
        if callable(params.get("call_jaxpr")) and any(v.is_sparse() for v in values):
            # A function with a derivative of its own, which runs as any other.
            return tuple(params["call_jaxpr"](*args))
        with using(parent):
            outs = apply(primitive, self.spenv, values, params)
        return tuple([SparseTracer(self, spvalue=v) for v in outs])

    process_primitive = process

    def __repr__(self) -> str:
        return "a function being made sparse (sparsify)"


def _is_sparse(x: ArrayLike) -> bool:
    return isinstance(x, JAXSparse)


def _is_spvalue(x: ArrayLike) -> bool:
    return isinstance(x, SparsifyValue)


def sparsify_raw(f: Callable[..., object]) -> Callable[..., tuple[list[SparsifyValue], Any]]:
    """`sparsify` on values: a function of (spenv, *spvalues) that returns the values of the
    results, and their tree."""

    def wrapped(
        spenv: SparsifyEnv, *spvalues: Any, **params: object
    ) -> tuple[list[SparsifyValue], Any]:
        flat, tree = pytrees.tree_flatten((spvalues, params), is_leaf=_is_spvalue)
        given = [v if _is_spvalue(v) else spenv.dense(v) for v in flat]
        fun = FlatFunction(lambda args, kwargs: f(*args, **kwargs), tree, "sparsify", named=f)
        jaxpr, consts = stage_flat(fun, spvalues_to_avals(spenv, given), fun.info)
        return eval_sparse(jaxpr, consts, given, spenv), fun.tree

    return wrapped


def sparsify(f: Callable[..., object], use_tracer: bool = False) -> Callable[..., Any]:
    """A function of dense arrays as a function of sparse arrays too: it is applied to their
    buffers.

    f: a function of trees of arrays, BCOO and BCSR arrays among them. Its results are sparse if the
    computed values are.
    use_tracer: whether rules are applied while f runs; else f is traced first.
    Calling it raises NotImplementedError for an operation that has no rule, or whose result would
    be dense.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> @sparse.sparsify
    ... def f(M, v):
    ...     return 2 * M.T @ jnp.sin(v)
    >>> f(sparse.eye(3), jnp.zeros(3))
    Array([0., 0., 0.], dtype=float32)
    """
    run = _with_tracers if use_tracer else _with_jaxpr

    @functools.wraps(f)
    @tracebacks.boundary_of(f)
    def wrapped(*args: Any, **params: object) -> Any:
        return run(f, args, params)

    return wrapped


def _with_jaxpr(f: Callable[..., object], args: Sequence[Value], params: Params) -> Any:
    spenv = SparsifyEnv()
    spvalues, given = arrays_to_spvalues(spenv, (args, params))
    outs, tree = sparsify_raw(f)(spenv, *spvalues, **given)
    return pytrees.tree_unflatten(tree, [array_of(spenv, v) for v in outs])


def _with_tracers(f: Callable[..., object], args: Sequence[Value], params: Params) -> Any:
    spenv = SparsifyEnv()
    trace = SparseTrace(current_trace(), f, spenv)

    def tracer(x: ArrayLike) -> SparseTracer:
        return SparseTracer(trace, spvalue=spvalue_of(spenv, x))

    args, params = pytrees.tree_map(tracer, (args, params), is_leaf=_is_sparse)
    with using(trace):
        out = f(*args, **params)
    found = pytrees.tree_map(lambda y: array_of(spenv, trace.to_sparse_tracer(y)._spvalue), out)
    end(trace)
    return found


def _todense(spenv: SparsifyEnv, *spvalues: SparsifyValue, tree: PyTree) -> Sequence[SparsifyValue]:
    if len(spvalues) != 1:
        raise NotImplementedError(
            "sparsify: todense of the buffers of a sparse array, some of which are sparse "
            "themselves."
        )
    return (spenv.dense(array_of(spenv, spvalues[0]).todense()),)


for _rules in (sparse_rules_bcoo, sparse_rules_bcsr):
    _rules[todense_p] = _todense
    for _primitive, _call in CALLS.items():
        _rules[_primitive] = functools.partial(_call, eval_sparse)

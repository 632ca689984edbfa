"""Templates.

What a library function records for operands of certain types, to be written again without running
its Python.

Programs call `jnp` functions of the same types again and again, once a layer. The equations are the
same but for their operands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from teucer._base import config, memo
from teucer._base.source import here, rehearsal
from teucer._core import axes
from teucer._core.high import as_array
from teucer._core.jaxpr import Eqn, Literal, Var
from teucer._core.names import _names
from teucer._core.primitive import NO_EFFECTS
from teucer._core.stage import StageTrace, StageTracer
from teucer._core.trace import Trace, Tracer, current_trace, end, using
from teucer._core.types import DEVICE, ShapedArray
from teucer._dynamic import dynamic

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Value
    from teucer._transform.linearize import Whole


_MOST = 256  # templates of one function
# Kinds of values that are part of the key themselves.
_AS_THEY_ARE = frozenset({int, bool, str, type(None)})

_Given: TypeAlias = dict[int, tuple[int, Any]]
"""The arrays among the arguments of a call, numbered in their order, by identity."""


class _Equation(NamedTuple):
    """An equation whose operands are literals, or numbers of values; the arguments come first.

    scopes: the scopes that the function adds to those in force.
    """

    primitive: Primitive
    operands: tuple[int | Literal, ...]
    avals: tuple[Aval, ...]
    params: Params
    scopes: tuple[str, ...]


class _Template(NamedTuple):
    """The equations that a call records, and the values that are its results; `several` if they are
    a tuple.

    whole: the equations as one, None where they have scopes of their own or carry functions.
    """

    equations: tuple[_Equation, ...]
    results: tuple[int, ...]
    several: bool
    whole: Whole | None


@final
class Templates:
    """A function of arrays, and the templates of its calls by their signature."""

    __slots__ = ("_found", "_fun")

    def __init__(self, fun: Callable[..., object]) -> None:
        self._fun = fun
        self._found: dict[Any, _Template | None] = {}

    def call(self, trace: Trace, args: tuple[Value, ...], kwargs: Mapping[str, Value]) -> Any:
        """The results of the function under a transformation."""
        recorded = type(trace) is StageTrace
        given: _Given = {}
        signature = None
        if recorded or trace.staging():
            signature = _signature((*args, *kwargs.items()), trace, recorded, given)
        if signature is None or not given:
            for x in (*args, *kwargs.values()):
                if isinstance(x, Tracer) and x.aval.is_high:
                    args = tuple(map(as_array, args))
                    kwargs = {name: as_array(x) for name, x in kwargs.items()}
                    break
            return self._fun(*args, **kwargs)
        key = (signature, config.trace_context(), axes.axis_key(), dynamic.scope_key())
        try:
            found = self._found[key]
        except KeyError:
            template = None
            with contextlib.suppress(
                Exception
            ):  # the call itself raises the error, about the user's values
                template = self._made(args, kwargs, given)
            found = memo.remember(self._found, key, template, _MOST)
        if found is None:
            return self._fun(*args, **kwargs)
        values = [x for _, x in given.values()]
        return (
            _written(found, trace, [x._var for x in values])
            if type(trace) is StageTrace
            else _run(found, trace, values)
        )

    def _made(
        self, args: tuple[Value, ...], kwargs: Mapping[str, Value], given: _Given
    ) -> _Template | None:
        """Record the template of a call. None if the function closes over arrays, or has
        effects."""
        trace = StageTrace(current_trace())
        try:
            with using(trace), rehearsal():
                stand_ins = {key: trace.new_arg(x.aval) for key, (_, x) in given.items()}
                results = self._fun(
                    *_with(args, stand_ins),
                    **dict(zip(kwargs, _with(kwargs.values(), stand_ins), strict=True)),
                )
            return None if trace.consts else _template(trace, _names.scope, results)
        finally:
            end(trace)


def _is_plain(aval: Aval) -> bool:
    """Whether a type is of an array, and names no place (partition, varying axes, memory)."""
    return (
        type(aval) is ShapedArray
        and aval.partition is None
        and not aval.vma
        and aval.memory_space is DEVICE
    )


def _signature(
    values: Iterable[Value], trace: Trace, recorded: bool, given: _Given
) -> tuple[Any, ...] | None:
    """The key of a call: types of arrays, which of them are the same, and other values.

    None if an array is not traced here, or not plain. given: gets the arrays. recorded: whether
    only variables of the trace may be among them.
    """
    key: list[Any] = []
    for x in values:
        kind = type(x)
        if kind in _AS_THEY_ARE:
            key += (kind, x)
        elif type(x) is float:
            key.append(x.hex())  # which tells -0.0 from 0.0
        elif isinstance(x, Tracer):
            if (recorded and (x._trace is not trace or type(x._var) is not Var)) or not _is_plain(
                x.aval
            ):
                return None
            key += (x.aval, given.setdefault(id(x), (len(given), x))[0])
        elif type(x) is tuple or type(x) is list:
            inner = _signature(x, trace, recorded, given)
            if inner is None:
                return None
            key += (kind, inner)
        elif isinstance(x, type | np.dtype):
            key.append(x)
        else:
            return None
    return tuple(key)


def _with(values: Iterable[Value], stand_ins: Mapping[int, Value]) -> list[Any]:
    """The values with others in the place of some."""
    return [
        tuple(_with(x, stand_ins))
        if type(x) is tuple
        else _with(x, stand_ins)
        if type(x) is list
        else stand_ins.get(id(x), x)
        for x in values
    ]


def _template(trace: StageTrace, outer: tuple[str, ...], results: Value) -> _Template | None:
    """The equations that a trace has recorded, as a template; None if they have effects."""
    numbers: dict[Any, int] = {v: i for i, v in enumerate(trace.invars)}
    equations = []
    for eqn in trace.eqns:
        scopes = eqn.source[1] if eqn.source is not None else outer
        if eqn.effects or type(scopes) is not tuple or scopes[: len(outer)] != outer:
            return None
        operands = tuple([v if type(v) is Literal else numbers[v] for v in eqn.invars])
        numbers.update({v: len(numbers) + i for i, v in enumerate(eqn.outvars)})
        equations.append(
            _Equation(
                eqn.primitive,
                operands,
                tuple([v.aval for v in eqn.outvars]),
                eqn.params,
                scopes[len(outer) :],
            )
        )
    several = type(results) is tuple
    found = []
    for x in results if type(results) is tuple else (results,):
        at = numbers.get(x._var) if type(x) is StageTracer and x._trace is trace else None
        if at is None:
            return None
        found.append(at)
    whole = None
    from teucer._transform.linearize import Whole  # not before a program is traced

    if len(equations) > 1 and all(e.primitive.standalone and not e.scopes for e in equations):
        whole = Whole(lambda *values: _applied(equations, found, current_trace(), list(values)))
    return _Template(tuple(equations), tuple(found), several, whole)


def _written(template: _Template, trace: StageTrace, values: list[Var]) -> Any:
    """Record the equations of a template, on the given values; its results."""
    place, outer, eqns = _names.place or here(), _names.scope, trace.eqns
    for primitive, operands, avals, params, scopes in template.equations:
        outvars = [Var(aval) for aval in avals]
        eqns.append(
            Eqn(
                primitive,
                [v if isinstance(v, Literal) else values[v] for v in operands],
                outvars,
                params,
                NO_EFFECTS,
                (place, outer + scopes if scopes else outer),
            )
        )
        values += outvars
    results = tuple([StageTracer(trace, values[i]) for i in template.results])
    return results if template.several else results[0]


def _run(template: _Template, trace: Trace, values: list[Value]) -> Any:
    """The results of a template under a transformation."""
    results = template.whole.linearized(trace, values) if template.whole is not None else None
    if results is None:
        outer = _names.scope
        try:
            results = _applied(template.equations, template.results, trace, values)
        finally:
            _names.scope = outer
    return results if template.several else results[0]


def _applied(
    equations: Iterable[_Equation], results: Iterable[int], trace: Trace, values: list[Value]
) -> tuple[Any, ...]:
    """Apply the primitives of equations one after the other. The scopes of the last equation stay
    in force."""
    outer = _names.scope
    for primitive, operands, _, params, scopes in equations:
        _names.scope = outer + scopes if scopes else outer
        values += trace.process(
            primitive,
            tuple([v.value if isinstance(v, Literal) else values[v] for v in operands]),
            params,
        )
    return tuple([values[i] for i in results])

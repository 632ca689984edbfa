"""`check`: trace a function on types, run the rules over its program, report."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from teucer._base import config, tracebacks
from teucer._base.source import is_library
from teucer._check.findings import Finding, Line, Report, report_of
from teucer._check.graph import TooLarge, Value
from teucer._check.lines import is_silenced, line_of, line_of_error, line_of_function, text_of
from teucer._check.numbers import NUMBERS
from teucer._check.program import Found, Program, Rule, Settings
from teucer._check.rules import devices, gradients, keys, precision, speed, types, values
from teucer._check.rules.tracing import of_error
from teucer._core.calls import fun_name
from teucer._derived.stages import jit
from teucer._dimensions.dimensions import is_symbolic, substitute, variables_of
from teucer._trees import pytrees

RULES: Sequence[Rule] = (
    keys.used_twice,
    keys.same_bits,
    values.indices,
    values.division,
    values.domains,
    values.comparisons_with_nan,
    precision.formulas,
    precision.softmaxes,
    precision.variances,
    precision.sums,
    speed.constants,
    speed.callbacks,
    speed.unrolled,
    speed.donations,
    speed.memory,
    types.states,
    speed.elementwise_loops,
    precision.wheres,
    devices.sums_of_gradients,
    devices.gradients_of_all,
    devices.replicated,
    devices.collectives,
    gradients.zero_gradients,
    gradients.without_gradient,
    gradients.saturated,
)


@tracebacks.api_boundary
def check(
    fun: Callable[..., object],
    *args: object,
    memory: float | None = None,
    compiled: bool = False,
    **kwargs: object,
) -> Report:
    """Faults of a function that show before it runs, each with its line and a remedy.

    args, kwargs: its arguments: arrays, or their types (ShapeDtypeStruct), also with symbolic
    sizes. The function is traced, and not run. memory: bytes of the device that it is to fit in.
    compiled: whether to compile it too, which finds collectives that it does not need.
    Silence a finding by a comment on its line: `# teucer: ignore[T401]`.
    Returns a report: its `findings`, text by `str`, `json()` and `sarif()`.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> found = jax.debug.check(lambda x: jnp.log(1 + x), jax.ShapeDtypeStruct((3,), "float32"))
    >>> found.numbers, found.findings[0].remedy
    (('T401',), 'Use jnp.log1p(x).')
    """
    return report_on(fun, args, kwargs, Settings(memory, compiled))


def report_on(
    fun: Callable[..., object],
    args: Sequence[object],
    kwargs: dict[str, object],
    settings: Settings,
) -> Report:
    """The report of one function on arguments."""
    jitted: Any = fun if hasattr(fun, "trace") else jit(fun)
    name = fun_name(fun)
    try:
        traced, found = with_static_indices(lambda: _traced(jitted, args, kwargs))
    except Exception as err:
        variables = variables_of(
            [getattr(x, "shape", ()) for x in pytrees.tree_leaves((args, kwargs))]
        )
        if variables:
            return _report_on_sizes(err, fun, args, kwargs, settings, variables)
        failed = of_error(err, line_of_error(err) or line_of_function(fun))
        if failed is None:
            raise
        return _report([failed], name)
    return report_of_program(Program(fun, traced, args, kwargs, settings), name, found)


def _traced(jitted: Any, args: Sequence[object], kwargs: dict[str, object]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jitted.trace(*args, **kwargs)


def with_static_indices(trace: Callable[[], Any]) -> tuple[Any, list[Found]]:
    """The result of `trace`, with T301 for the first index that is a number out of bounds.

    Tracing moves such an index inside, so that the program does not show it.
    """
    try:
        with config.check_static_indices(True):
            return trace(), []
    except IndexError as err:
        text, _, rest = str(err).partition("\n")
        if "jax_check_static_indices" not in rest:
            raise
        found = Found(
            "T301", f"{text}. Another element is used, or none, without an error.",
            line_of_error(err), "Use an index below the size.",
        )  # fmt: skip
    return trace(), [found]


_SIZES = (7, 1, 2, 3, 4, 8, 64)  # tried where a program cannot be traced for all sizes at once


def _report_on_sizes(
    err: Exception,
    fun: Callable[..., object],
    args: Sequence[object],
    kwargs: dict[str, object],
    settings: Settings,
    variables: Sequence[str],
) -> Report:
    """The report of a function that cannot be traced for symbolic sizes: for numbers instead."""
    jitted: Any = fun if hasattr(fun, "trace") else jit(fun)
    line = line_of_error(err) or line_of_function(fun)
    failed: dict[str, Exception] = {}
    works: dict[str, tuple[Any, tuple[Any, Any]]] = {}
    for sizes in _samples(variables):
        given, named = pytrees.tree_map(lambda x, sizes=sizes: _at_sizes(x, sizes), (args, kwargs))
        text = ", ".join(f"{k} = {v}" for k, v in sizes.items())
        try:
            works[text] = _traced(jitted, given, named), (given, named)
        except Exception as why:
            failed[text] = why
    name = fun_name(fun)
    if not works:
        text, inner = next(iter(failed.items()))
        found = of_error(inner, line_of_error(inner) or line)
        if found is None:
            raise inner
        return _report([found], name)
    text, (traced, given) = next(iter(works.items()))
    report = report_of_program(Program(fun, traced, *given, settings), name)
    if not failed:
        note = f"{name} asks for sizes and was checked for {'; '.join(works)} instead of all sizes"
        return dataclasses.replace(report, notes=(*report.notes, note))
    bad, inner = next(iter(failed.items()))
    where = line_of_error(inner) or line
    found = Found(
        "T102",
        f"the program works for {text}, and fails for {bad}. {str(inner).partition(chr(10))[0]}",
        where,
        "Give every size its own axis or broadcast it explicitly: x[:, None]; or state which "
        "sizes are allowed.",
    )
    other = _report([found], name)
    return report_of(
        [*other.findings, *report.findings], [name], other.silenced + report.silenced, report.notes
    )


def _samples(variables: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sizes for the variables: all different, then all alike."""
    for i, n in enumerate(_SIZES):
        yield {v: n if j == 0 else n + 3 * j + i for j, v in enumerate(variables)}
    if len(variables) > 1:
        yield dict.fromkeys(variables, 5)


def _at_sizes(x: Any, sizes: dict[str, int]) -> Any:
    if not is_symbolic_shape(getattr(x, "shape", ())):
        return x
    return x.update(shape=tuple(substitute(n, sizes) for n in x.shape))


def is_symbolic_shape(shape: Sequence[Any]) -> bool:
    """Whether a size of a shape is a symbol."""
    return any(is_symbolic(n) for n in shape)


def report_of_program(program: Program, name: str, traced: Sequence[Found] = ()) -> Report:
    """The report of a traced function. traced: findings of tracing."""
    try:
        graph = program.graph
    except TooLarge:
        note = f"{name} has too many operations to be looked at; its parts may be checked"
        return report_of([], [name], notes=[note])
    del graph
    found = [*(f for rule in RULES for f in rule(program)), *traced]
    if program.settings.called:  # functions of libraries have no line that is the user's
        found = [f for f in found if f.at is not None or NUMBERS[f.number].level == "error"]
    return _report(found, name)


def _report(found: Sequence[Found], name: str) -> Report:
    findings = [finding_of(f) for f in found]
    told = [f for f in findings if f is not None]
    return report_of(told, [name], len(findings) - len(told))


def finding_of(found: Found) -> Finding | None:
    """A finding of a rule, with its line; None if the line silences it."""
    at = found.at
    line = at if at is None or isinstance(at, Line) else line_of(
        at.place if isinstance(at, Value) else at
    )  # fmt: skip
    if is_silenced(found.number, line):
        return None
    if line is not None and is_library(line.file) and NUMBERS[found.number].level != "error":
        return None  # not the user's to mend
    return Finding(found.number, found.message, line, found.remedy, text_of(line))

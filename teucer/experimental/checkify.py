"""Checks of values in transformed programs.

`check` states a condition; `checkify` makes failures a result of the function.

A program of checks is interpreted: each place where something may fail is a `Site`. Beside its
results the program computes whether something failed, at which site first, and what the message of
each site shows (`Checked`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import config, tracebacks
from teucer._base.lazy import listing
from teucer._core import structure
from teucer._core.debug_info import DebugInfo
from teucer._core.jaxpr import ClosedJaxpr, Eqn, interpret
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import is_valid_type
from teucer._derived.checkpoint import checkpoint
from teucer._derived.custom_batching import custom_vmap_call_p
from teucer._derived.custom_jvp import custom_jvp_call_p
from teucer._derived.custom_vjp import custom_vjp_call_p
from teucer._derived.linear_call import linear_call_p
from teucer._derived.metadata import xla_metadata_call2, xla_metadata_call_p
from teucer._derived.remat import remat_p
from teucer._derived.rules_table import Rules
from teucer._derived.stages import jit
from teucer._devices.specs import PartitionSpec
from teucer._experimental.checks import (
    EFFECTS,
    PASSED,
    CheckifyError,
    DivisionByZeroError,
    Error,
    FailedCheckError,
    JaxRuntimeError,
    NaNError,
    OOBError,
    Site,
    State,
    check_error,
    check_p,
    state_of,
)
from teucer._sharding.manual_call import shard_map_p
from teucer._transform.jit_calls import jit_p
from teucer._trees import pytrees
from teucer.lax._composite import composite_p
from teucer.lax._control.reversal.primitive import reversed_while_p
from teucer.lax._control.solves import linear_solve_p
from teucer.lax._windows import select_and_scatter_p

if TYPE_CHECKING:
    from teucer._core.typing import Array, Value

__all__ = [
    "Error", "ErrorCategory", "JaxRuntimeError", "all_checks", "automatic_checks", "check",
    "check_error", "checkify", "debug_check", "div_checks", "float_checks", "index_checks",
    "init_error", "nan_checks", "user_checks",
]  # fmt: skip
__dir__ = listing(__name__, __all__)


ErrorCategory = type[CheckifyError]
user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
div_checks = frozenset({DivisionByZeroError})
index_checks = frozenset({OOBError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks
init_error = Error(PASSED, ())


@dataclass(frozen=True)
class Checked:
    """A jaxpr whose first results are the leaves of its State, and its sites."""

    jaxpr: ClosedJaxpr
    sites: tuple[Site, ...]
    state: Any  # the tree of the State

    def __call__(self, *args: Any) -> tuple[State, list[Any]]:
        outs = self.jaxpr(*args)
        n = self.state.num_leaves
        return pytrees.tree_unflatten(self.state, outs[:n]), outs[n:]


@tracebacks.api_boundary
def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """State that pred must hold. Under `checkify` a failure is part of its error;
    elsewhere it is raised at once.

    msg: with {} for fmt_args and {name} for fmt_kwargs, pytrees of arrays. debug: only where
    `checkify` is around. Raises TypeError if pred is no scalar, or a value to be shown no array;
    JaxRuntimeError if pred is False outside `checkify`; ValueError, when it is compiled, under
    `jit` and its like without `checkify` around them.

    >>> import teucer as jax
    >>> from teucer.experimental import checkify
    >>> def f(x):
    ...     checkify.check(x > 0, "must be positive, not {}", x)
    ...     return jax.numpy.log(x)
    >>> error, y = jax.jit(checkify.checkify(f))(-1.)
    >>> error.get()
    'must be positive, not -1.0 (`check` failed)'
    """
    if not is_valid_type(pred) or typeof(pred).shape or typeof(pred).dtype != np.bool_:
        raise TypeError(f"check takes a scalar pred as argument, got {pred}")
    shown, tree = pytrees.tree_flatten((fmt_args, fmt_kwargs))
    for x in shown:
        if not is_valid_type(x):
            raise TypeError(
                "Formatting arguments to checkify.check need to be PyTrees of arrays, but got "
                f"{x!r} of type {type(x)}."
            )

    def message(*values: Value) -> str:
        args, kwargs = pytrees.tree_unflatten(tree, values)
        return f"{msg.format(*args, **kwargs)} (`check` failed)"

    site = Site(FailedCheckError, message)
    check_p.call(
        jnp.logical_not(pred), np.int32(0), *shown, sites=(site,), counts=(len(shown),), debug=debug
    )


@tracebacks.api_boundary
def debug_check(pred: Any, msg: str, *fmt_args: Value, **fmt_kwargs: Any) -> None:
    """As `check`, which does nothing where `checkify` is not around."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def checkify(
    f: Callable[..., object], errors: Iterable[type[CheckifyError]] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """A function that returns (Error, result of f) and raises nothing: the Error has the first
    failure, if any.

    errors: the kinds of errors to check: user_checks (`check`), nan_checks, div_checks,
    index_checks, or unions of them. The program goes on after an error, as if nothing had failed.
    Of a batch of loops, elements that are done are not looked at. Under `shard_map` and `pmap` each
    device is; the message says which failed. Of functions with derivatives of their own, the rules
    are not checked before they run.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import checkify
    >>> error, y = checkify.checkify(jnp.log, errors=checkify.nan_checks)(-1.)
    >>> error.get()
    'nan generated by primitive: log.'
    """
    wanted = frozenset(errors)

    @tracebacks.boundary_of(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        tree: list[Any] = []

        def flat() -> list[Any]:
            leaves, out_tree = pytrees.tree_flatten(f(*args, **kwargs))
            tree.append(out_tree)
            return leaves

        # On no arguments: f looks at those it is called with, as it would without checkify.
        with _in_force():
            program = _checked(stage_jaxpr(flat, (), DebugInfo(f, (), "checkify")), wanted)
        state, outs = program()
        return Error(state, program.sites), pytrees.tree_unflatten(tree[-1], outs)

    return checked


@contextlib.contextmanager
def _in_force() -> Iterator[None]:
    saved = config.checked.swap_local(True)
    try:
        yield
    finally:
        config.checked.set_local(saved)


def _checked(closed: ClosedJaxpr, wanted: frozenset[object]) -> Checked:
    """A jaxpr that computes its State too."""
    found: list[Any] = []

    def run(*args: Any) -> list[Any]:
        checks = _Checks(wanted)
        outs = checks.run(closed, args)
        leaves, tree = pytrees.tree_flatten(checks.state)
        found[:] = tuple(checks.sites), tree
        return [*leaves, *outs]

    jaxpr = stage_jaxpr(run, closed.in_avals, closed.jaxpr.debug_info)
    return Checked(jaxpr, *found)


@final
class _Checks:
    """One run through a program: its sites so far, and the State."""

    def __init__(self, wanted: frozenset[Any]) -> None:
        self.wanted = wanted
        self.sites: list[Site] = []
        self.state = PASSED
        self.place: Any = None  # of the equation that is being looked at

    def run(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        return interpret(closed, args, self.equation)

    def equation(self, eqn: Eqn, args: Sequence[Any]) -> Sequence[Any]:
        primitive, params = eqn.primitive, eqn.params
        if primitive is check_p:
            if FailedCheckError in self.wanted:
                self.join(state_of(args, params["counts"]), params["sites"])
            return ()
        rule = _INNER.of(eqn)
        if rule is not None:
            view: Any = structure.of(eqn, args)
            programs = [program for program, _ in view.bodies]
            with contextlib.nullcontext() if primitive.within is None else primitive.within(params):
                inner = [_checked(program, self.wanted) for program in programs]
            if any(program.sites for program in inner) or any(
                program.effects >= EFFECTS for program in programs
            ):
                return rule(self, eqn, view, inner)
        outs: Sequence[Any] = primitive.call(*args, **params)
        self.place = eqn.place
        if DivisionByZeroError in self.wanted and primitive in _DIVISIONS:
            self.fails(
                DivisionByZeroError, jnp.any(jnp.equal(args[1], 0)), lambda: "division by zero"
            )
        if OOBError in self.wanted and primitive in _STARTS:
            self.out_of_bounds(*_STARTS[primitive](args, params))
        if NaNError in self.wanted and not primitive.rearranges:
            nans = [jnp.any(jnp.isnan(y)) for y in outs if jnp.issubdtype(y.dtype, jnp.inexact)]
            if nans:
                name = str(primitive)
                self.fails(
                    NaNError,
                    functools.reduce(jnp.logical_or, nans),
                    lambda: f"nan generated by primitive: {name}.",
                )
        return outs

    def fails(
        self, category: type[CheckifyError], failed: Any, message: Callable[..., str], *shown: Value
    ) -> None:
        self.join(
            State(failed, np.int32(0), (tuple(shown),)), (Site(category, message, self.place),)
        )

    def join(self, state: State, sites: Sequence[Site]) -> None:
        """Add the state of further checks. It counts only if no check has failed before."""
        before = self.state
        code = jnp.where(
            before.failed,
            before.code,
            jnp.where(state.failed, state.code + np.int32(len(self.sites)), np.int32(-1)),
        )
        self.state = State(
            jnp.logical_or(before.failed, state.failed), code, before.shown + state.shown
        )
        self.sites += sites

    def out_of_bounds(
        self, shape: tuple[int, ...], starts: Any, axes: Sequence[int], last: Sequence[int]
    ) -> None:
        """starts: int[..., len(axes)], from which slices are taken; last: the last start along each
        axis that fits."""
        if not axes or not starts.size:
            return
        starts = jnp.asarray(starts)
        wrong = jnp.logical_or(starts < 0, starts > jnp.asarray(last, starts.dtype)).reshape(-1)
        first = jnp.argmax(wrong)
        which, index = first % len(axes), starts.reshape(-1)[first]

        def message(index: Array, which: Any) -> str:
            axis = axes[int(which)]
            return (
                f"out-of-bounds indexing for array of shape {shape}: index {int(index)} is out of "
                f"bounds for axis {axis} with size {shape[axis]}. "
            )

        self.fails(OOBError, jnp.any(wrong), message, index, which)

    # Programs within the program

    def jitted(self, eqn: Eqn, of: structure.Call, inner: Sequence[Checked]) -> Any:
        params, program = eqn.params, inner[0]

        def call(*args: Any) -> Any:
            return program(*args)

        call.__name__ = params["name"]
        return self.called(jit(call, inline=params["inline"]), program, of.operands)

    def recomputed(self, eqn: Eqn, of: structure.Call, inner: Sequence[Checked]) -> Any:
        params, program = eqn.params, inner[0]
        call = checkpoint(program, policy=params["policy"], prevent_cse=params["prevent_cse"])
        return self.called(call, program, of.operands)

    def reversed(self, eqn: Eqn, of: structure.Call, inner: Sequence[Checked]) -> Any:
        """A loop in reverse: its definition by other loops is checked."""
        return self.called(inner[0], inner[0], of.operands)

    def told(self, eqn: Eqn, of: structure.Call, inner: Sequence[Checked]) -> Any:
        params, program = eqn.params, inner[0]
        tags = params["ad_metadata"]
        of_derivatives = "same" if tags is None else dict(tags) or "drop"
        call = xla_metadata_call2(program, dict(params["xla_metadata"]), ad_metadata=of_derivatives)
        return self.called(call, program, of.operands)

    def called(self, call: Callable[..., Any], program: Checked, args: Any) -> Any:
        state, outs = call(*args)
        self.join(state, program.sites)
        return outs

    def mapped(self, eqn: Eqn, of: structure.Mapped, inner: Sequence[Checked]) -> Any:
        """Each device has a State; they come out side by side. The first place where one failed
        counts."""
        program, n = inner[0], inner[0].state.num_leaves
        params: Any = eqn.params
        names = tuple(name for name in of.mesh.axis_names if name in params["newly_manual_axes"])

        def laid(x: Any) -> Any:
            missing = (
                tuple(name for name in names if name not in typeof(x).vma)
                if params["check_vma"]
                else ()
            )
            return jnp.expand_dims(lax.pcast(x, missing, to="varying") if missing else x, 0)

        def run(*args: Any) -> list[Any]:
            outs = program.jaxpr(*args)
            return [*map(laid, outs[:n]), *outs[n:]]

        with shard_map_p.within(params):
            body = stage_jaxpr(run, program.jaxpr.in_avals)
        specs = (*[PartitionSpec(names)] * n, *params["out_specs"])
        outs = shard_map_p.on_jaxpr(body, of.operands, params["in_specs"], specs, params)
        each: State = pytrees.tree_unflatten(program.state, outs[:n])
        code = jnp.min(jnp.where(each.failed, each.code, np.int32(len(program.sites))))
        shown = tuple((each.failed, each.code, *values) for values in each.shown)
        self.join(
            State(jnp.any(each.failed), code, shown),
            [_of_devices(site, i) for i, site in enumerate(program.sites)],
        )
        return outs[n:]

    def looped(self, eqn: Eqn, loop: structure.Loop, inner: Sequence[Checked]) -> Any:
        return (self.stepped if loop.condition is None else self.repeated)(eqn, loop, inner)

    def stepped(self, eqn: Eqn, loop: structure.Loop, inner: Sequence[Checked]) -> Any:
        program, n = inner[0], len(loop.carry)

        def body(carry: Any, x: Any) -> Any:
            before, values = carry
            state, outs = program(*loop.consts, *values, *x)
            return (_first(before, state), outs[:n]), outs[n:]

        start = _nothing(program), list(loop.carry)
        (state, carry), ys = lax.scan(
            body,
            start,
            list(loop.xs),
            length=loop.length,
            reverse=loop.reverse,
            unroll=eqn.params["unroll"],
        )
        self.join(state, program.sites)
        return [*carry, *ys]

    def repeated(self, eqn: Eqn, loop: structure.Loop, inner: Sequence[Checked]) -> Any:
        cond, body = inner

        def holds(values: Any) -> Any:
            state, (pred,) = cond(*loop.condition_consts, *values)
            return state, pred

        def step(carry: Any) -> Any:
            of_cond, of_body, values, _ = carry
            state, values = body(*loop.consts, *values)
            either = jnp.logical_or(of_cond.failed, of_body.failed)
            of_body = _first(of_body, state._replace(failed=jnp.logical_and(state.failed, ~either)))
            state, pred = holds(values)
            either = jnp.logical_or(either, of_body.failed)
            return (
                _first(of_cond, state._replace(failed=jnp.logical_and(state.failed, ~either))),
                of_body,
                values,
                pred,
            )

        state, pred = holds(loop.carry)
        start = state, _nothing(body), list(loop.carry), pred
        of_cond, of_body, values, _ = lax.while_loop(lambda carry: carry[3], step, start)
        self.join(of_cond, cond.sites)
        self.join(of_body, body.sites)
        return values

    def branched(self, eqn: Eqn, of: structure.Branch, inner: Sequence[Checked]) -> Any:
        def branch(own: int) -> Callable[..., Any]:
            def run(*operands: Any) -> Any:
                state, outs = inner[own](*operands)
                return [
                    state if i == own else _nothing(program) for i, program in enumerate(inner)
                ], outs

            return run

        states, outs = lax.switch(of.index, [branch(i) for i in range(len(inner))], *of.operands)
        for state, program in zip(states, inner, strict=True):
            self.join(state, program.sites)
        return outs

    def with_rule(self, eqn: Eqn, call: structure.Call, inner: Sequence[Checked]) -> Any:
        """A function with a derivative of its own: the derivative is kept, and checks are computed
        beside it."""
        program = inner[0]
        silent = stage_jaxpr(
            lambda *args: _Checks(frozenset()).run(call.body, args), program.jaxpr.in_avals
        )
        self.join(program(*map(lax.stop_gradient, call.operands))[0], program.sites)
        params = structure.params_of(eqn.primitive, eqn.params, call._replace(body=silent))
        return eqn.primitive.call(*call.operands, **params)


def _of_devices(site: Site, number: int) -> Site:
    """A site of a program that several devices run. Its message has a line for each device on which
    the check failed."""

    def message(failed: Any, code: Any, *shown: Value) -> str:
        where = np.flatnonzero(np.logical_and(failed, np.equal(code, number)))
        return "\n".join(
            f"at mapped index {i}: {site.message(*[np.asarray(x)[i] for x in shown])}"
            for i in where
        )

    return Site(site.category, message)


def _nothing(program: Checked) -> State:
    """The State of a program that has not run."""
    avals = program.jaxpr.out_avals[: program.state.num_leaves]
    blank: State = pytrees.tree_unflatten(
        program.state, [jnp.zeros(a.shape, a.dtype) for a in avals]
    )
    return blank


def _first(before: State, state: State) -> State:
    """The State of the first failed run of a program that runs again and again."""
    later: State = pytrees.tree_map(
        lambda old, new: jnp.where(before.failed, old, new).astype(typeof(old).dtype), before, state
    )
    return later


def _gathered(args: Any, params: Any) -> Any:
    operand, starts, *_ = args
    axes = params["dimension_numbers"].start_index_map
    return operand.shape, starts, axes, [operand.shape[a] - params["slice_sizes"][a] for a in axes]


def _scattered(args: Any, params: Any) -> Any:
    operand, starts, updates = args
    numbers = params["dimension_numbers"]
    inserted = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windows = iter(numbers.update_window_dims)
    sizes = [1 if a in inserted else updates.shape[next(windows)] for a in range(operand.ndim)]
    axes = numbers.scatter_dims_to_operand_dims
    return operand.shape, starts, axes, [operand.shape[a] - sizes[a] for a in axes]


def _sliced(args: Any, sizes: Sequence[int], starts: Sequence[Any]) -> Any:
    shape = args[0].shape
    return (
        shape,
        jnp.stack(starts) if starts else jnp.zeros(0, int),
        tuple(range(len(shape))),
        np.subtract(shape, sizes),
    )


_DIVISIONS = {lax.div_p, lax.rem_p}
_STARTS: dict[Primitive, Callable[..., Any]] = {
    lax.gather_p: _gathered,
    **dict.fromkeys(
        (lax.scatter_p, lax.scatter_add_p, lax.scatter_mul_p, lax.scatter_min_p, lax.scatter_max_p),
        _scattered,
    ),
    lax.dynamic_slice_p: lambda args, params: _sliced(args, params["slice_sizes"], args[1:]),
    lax.dynamic_update_slice_p: lambda args, params: _sliced(args, args[1].shape, args[2:]),
}
_INNER: Rules[Callable[..., Any]] = Rules(
    "checkify",
    {
        jit_p: _Checks.jitted,
        remat_p: _Checks.recomputed,
        reversed_while_p: _Checks.reversed,
        xla_metadata_call_p: _Checks.told,
        structure.Loop: _Checks.looped,
        structure.Branch: _Checks.branched,
        structure.Mapped: _Checks.mapped,
        custom_jvp_call_p: _Checks.with_rule,
        custom_vjp_call_p: _Checks.with_rule,
    },
    opaque=(
        composite_p,
        custom_vmap_call_p,
        linear_call_p,
        linear_solve_p,
        lax.reduce_p,
        lax.reduce_window_p,
        select_and_scatter_p,
    ),
)

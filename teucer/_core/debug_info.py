"""Names of the traced function, its arguments and its results, for messages."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._base import functions
from teucer._base.source import is_internal
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.stage import StageTrace
    from teucer._core.typing import Atom


class DebugInfo:
    """For messages: the function that is being traced, and names of its flat arguments. Computed
    when a message needs it.

    Holds the function weakly, since its traces are kept as long as it lives. When it is gone, its
    code still gives its place and its parameters.
    """

    __slots__ = ("_arg_names", "_code", "_fun", "name", "out_tree", "seconds", "transform")

    def __init__(
        self,
        fun: Callable[..., object] | str,
        arg_names: Sequence[str] | Callable[[Callable[..., object]], Sequence[str]] = (),
        transform: str = "jit",
    ) -> None:
        self.name = fun if isinstance(fun, str) else functions.fun_name(fun)
        self._arg_names, self.transform = arg_names, transform
        self.out_tree: Any = None  # the tree of the function's results, once known
        self.seconds = 0.0  # that tracing took
        self._code = getattr(getattr(fun, "__wrapped__", fun), "__code__", None)
        try:
            self._fun: Callable[[], Any] = weakref.ref(fun)  # a str cannot be
        except TypeError:
            self._fun = _nothing

    def _described(self) -> Any:
        """The function, or one of its code that only has its signature; None if nothing is
        known."""
        fun = self._fun()
        return functions.of_code(self._code) if fun is None else fun

    @property
    def where(self) -> str:
        """File and line of the function; '' if they are not known."""
        fun = self._described()
        found = "" if fun is None else functions.where(fun)
        return "" if found == functions.UNKNOWN else found

    # The same under JAX's names.
    @property
    def func_name(self) -> str:
        return self.name

    @property
    def traced_for(self) -> str:
        return self.transform

    @property
    def func_filename(self) -> str | None:
        return self.where.rpartition(":")[0] or None

    @property
    def func_lineno(self) -> int | None:
        line = self.where.rpartition(":")[2]
        return int(line) if line.isdigit() else None

    @property
    def func_src_info(self) -> str:
        return f"{self.name} at {self.where}" if self.where else self.name

    @property
    def arg_names(self) -> Sequence[str]:
        """Names of the flat arguments, as in the user's program."""
        if not callable(self._arg_names):
            return self._arg_names
        fun = self._described()
        return () if fun is None else self._arg_names(fun)

    @property
    def result_paths(self) -> tuple[str, ...] | None:
        """Where the flat results are in what the function returned, as `result['x'][0]`; None
        before it has returned."""
        tree = self.out_tree
        return (
            None
            if tree is None
            else tuple([f"result{pytrees.keystr(path)}" for path in pytrees.leaf_paths(tree)])
        )

    def safe_arg_names(self, expected_size: int) -> tuple[str, ...]:
        """Names of so many arguments: '' for each if others are known."""
        names = tuple(self.arg_names)
        return names if len(names) == expected_size else ("",) * expected_size

    def safe_result_paths(self, expected_size: int) -> tuple[str, ...]:
        """Paths of so many results: '' for each if others are known."""
        paths = self.result_paths or ()
        return paths if len(paths) == expected_size else ("",) * expected_size

    def resolve_result_paths(self) -> DebugInfo:
        """The same object: it works paths out when they are asked for."""
        return self

    def __repr__(self) -> str:
        return (
            f"DebugInfo(traced_for={self.traced_for!r}, func_src_info={self.func_src_info!r}, "
            f"arg_names={self.arg_names!r}, result_paths={self.result_paths!r})"
        )


def _nothing() -> None:
    return None


def origin_of(trace: StageTrace, var: Atom) -> str:
    """Where the equation that defines `var` stands in the user's program; '' for an
    argument."""
    for i, v in enumerate(trace.invars):
        if v is var:
            return f"argument {_arg_name(trace, i)}" + (
                f" of {trace.debug_info.name}" if trace.debug_info else ""
            )
    for eqn in reversed(trace.eqns):
        if any(v is var for v in eqn.outvars):
            return eqn.where("")
    return ""


def reason_for(trace: StageTrace, var: Atom) -> str:
    """Which arguments the value of `var` depends on, so that it is not known."""
    d, needed = trace.debug_info, {id(var)}
    for eqn in reversed(trace.eqns):
        if any(id(v) in needed for v in eqn.outvars):
            needed.update(map(id, eqn.invars))
    names_ = [_arg_name(trace, i) for i, v in enumerate(trace.invars) if id(v) in needed]
    if d is None:
        return ""
    why = (
        "Constants are traced too: compute with NumPy, or under "
        "jax.ensure_compile_time_eval(), what must be known."
    )
    if names_:
        s, listed = (
            "s" * (len(names_) > 1),
            " and ".join(filter(None, (", ".join(names_[:-1]), names_[-1]))),
        )
        why = (
            "This concrete value was not available in Python because it depends on "
            f"the value{s} of the argument{s} {listed}."
        )
    place = "" if not d.where or is_internal(d.where.rpartition(":")[0]) else f" at {d.where}"
    return (
        f"The error occurred while tracing the function {d.name}{place} for {d.transform}.\n{why}"
    )


def _arg_name(trace: StageTrace, i: int) -> str:
    names_ = trace.debug_info.arg_names if trace.debug_info else ()
    return names_[i] if i < len(names_) else str(i)

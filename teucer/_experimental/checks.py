"""Errors as values: the places where a program may fail, the first failure, and the primitive that
records it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import source, tracebacks
from teucer._core.primitive import Primitive
from teucer._core.trace import Tracer, typeof
from teucer._optimize.effects import Effect
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Value
    from teucer._lower.context import Context


class JaxRuntimeError(ValueError):
    """A check failed, outside `checkify` or in an Error that is thrown."""

    __module__ = "teucer.experimental.checkify"


class CheckifyError(Exception):
    """A check that failed."""

    __module__ = "teucer.experimental.checkify"


@final
class FailedCheckError(CheckifyError):
    """A `check` of the program failed."""

    __module__ = "teucer.experimental.checkify"


@final
class NaNError(CheckifyError):
    """An operation gave a NaN."""

    __module__ = "teucer.experimental.checkify"


@final
class DivisionByZeroError(CheckifyError):
    """A division by zero."""

    __module__ = "teucer.experimental.checkify"


@final
class OOBError(CheckifyError):
    """An index out of bounds."""

    __module__ = "teucer.experimental.checkify"


@final
class Site:
    """A place where a program may fail, compared by identity: the kind of error, and a function
    from values to the message.

    place: the user's line, for checks that the user did not write.
    """

    __slots__ = ("category", "message", "place")

    def __init__(
        self,
        category: type[CheckifyError],
        message: Callable[..., str],
        place: source.Place | None = None,
    ) -> None:
        self.category, self.message, self.place = category, message, place

    def error(self, shown: Sequence[object]) -> CheckifyError:
        """The exception that shows values, with the line as a note."""
        error = self.category(self.message(*shown))
        if self.place is not None:
            error.add_note(f"    at {source.describe(self.place)}{source.callers(self.place)}")
        return error


class State(NamedTuple):
    """Whether something failed, at which site first (its number), and for each site the values that
    its message shows."""

    failed: Any
    code: Any
    shown: tuple[tuple[Any, ...], ...] = ()


@final
@pytrees.register_pytree_node_class
class Error:
    """The result of `checkify`: the first check that failed, if any. A pytree, so that it may be a
    result of any transformation."""

    def __init__(self, state: State, sites: tuple[Site, ...]) -> None:
        self._state, self._sites = state, sites

    def tree_flatten(self) -> tuple[tuple[State], tuple[Site, ...]]:
        return (self._state,), self._sites

    @classmethod
    def tree_unflatten(cls, metadata: tuple[Site, ...], data: Iterable[Any]) -> Error:
        (state,) = data
        return cls(state, metadata)

    def get(self) -> str | None:
        """The message, None if no check failed; of a batch the messages of all its elements that
        failed."""
        failed = np.asarray(self._state.failed)
        if not failed.ndim:
            error = self.get_exception()
            return None if error is None else str(error)
        return (
            "\n".join(
                f"at mapped index {', '.join(map(str, i))}: {self._exception(tuple(i))}"
                for i in np.argwhere(failed).tolist()
            )
            or None
        )

    def get_exception(self) -> CheckifyError | None:
        """The exception, not raised; None if no check failed. Of a batch, the exception of the
        first element that failed."""
        where = np.argwhere(np.asarray(self._state.failed))
        return self._exception(tuple(where[0].tolist())) if len(where) else None

    def _exception(self, index: tuple[int, ...]) -> CheckifyError:
        rank = len(index)
        code = int(np.asarray(self._state.code)[index])
        site = self._sites[code]
        shown = [np.asarray(x)[index] if rank else x for x in self._state.shown[code]]
        return site.error(shown)

    def throw(self) -> None:
        """Raise JaxRuntimeError with the message if a check failed."""
        check_error(self)

    def __repr__(self) -> str:
        return f"Error({'traced' if isinstance(self._state.failed, Tracer) else self.get()})"


EFFECTS = frozenset({Effect("check")})
PASSED = State(False, np.int32(-1))


@final
class Check(Primitive):
    """check(failed, code, *shown): raises the error of the site `code` of `sites`, which show
    `counts` values each, if failed."""

    __slots__ = ()
    name = "check"
    multiple_results = True
    mergeable = False

    def types(self, *avals: Any, **params: object) -> Any:
        return ()

    def effects(self, *avals: ShapedArray, **params: object) -> Any:
        return EFFECTS

    def evaluate(self, *args: Any, sites: Any, counts: Any, debug: bool) -> Any:
        error = Error(state_of(args, counts), sites)
        message = None if debug else error.get()
        if message is not None:
            found = error.get_exception()
            raise JaxRuntimeError("\n".join([message, *getattr(found, "__notes__", ())]))
        return ()

    def lower(self, ctx: Context, *values: Any, sites: object, counts: object, debug: bool) -> Any:
        if not debug:
            raise ValueError(
                "Cannot abstractly evaluate a checkify.check which was not functionalized. This "
                "probably means you tried to stage (jit/scan/pmap/...) a `check` without "
                "functionalizing it through `checkify.checkify`."
            )
        return ()

    def jvp(self, primals: Sequence[Value], tangents: Any, **params: object) -> Any:
        return self.call(*primals, **params), ()

    def batch(self, axis: Any, args: Sequence[Array], dims: Any, **params: object) -> Any:
        failed = args[0]  # a scalar of each element of the batch
        last = 0 if dims[0] is None else axis.size - 1 - jnp.argmax(failed[::-1])
        one = [
            x if d is None else lax.dynamic_index_in_dim(x, last, d, keepdims=False)
            for x, d in zip(args, dims, strict=True)
        ]
        self.call(*one, **params)
        return (), ()


check_p = Check()


def state_of(flat: Sequence[object], counts: Sequence[int]) -> State:
    rest = iter(flat[2:])
    return State(flat[0], flat[1], tuple(tuple(next(rest) for _ in range(n)) for n in counts))


@tracebacks.api_boundary
def check_error(error: Error) -> None:
    """Raise JaxRuntimeError if a check failed; under `checkify`, hand the error on to it.

    Raises TypeError if `error` is none of `checkify`.
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error as argument, got type {type(error)} instead.")
    state, counts = error._state, tuple(map(len, error._state.shown))
    for _ in typeof(state.failed).shape:
        # For a batch, as in the batching rule.
        last = (
            len(state.failed)
            - 1
            - jnp.argmax(state.failed.reshape(len(state.failed), -1).any(1)[::-1])
        )
        state = pytrees.tree_map(operator.itemgetter(last), state)
    check_p.call(*pytrees.tree_leaves(state), sites=error._sites, counts=counts, debug=False)

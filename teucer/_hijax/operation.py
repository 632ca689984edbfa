"""Primitives of libraries on high types, one object a primitive: `HiPrimitive`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core import dialects
from teucer._core.high import AvalQDD, StateEffect
from teucer._core.primitive import Primitive
from teucer._dialects.high.types import AvalMutableQDD, MutableQDD

if TYPE_CHECKING:
    from teucer._core.types import Aval, ShapedArray
    from teucer._core.typing import Params, Value


class HiPrimitive:
    """A primitive on high types. A library derives a class, and makes one object of it, with the
    primitive's name.

    abstract_eval(*types, **params) -> (type or types, effects)  of an operand that changes it is
    given an `AvalMutableQDD`
    to_lojax(*values, **params) -> value or values               its definition by other operations
    jvp(primals, tangents, **params) -> (results, tangents)      tangents may be Zero
    transpose(cotangent, *operands, **params) -> cotangents      linear operands are
    UndefinedPrimals; None for the others

    multiple_results: whether there are several results, as sequences.
    """

    multiple_results = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.operation = Operation(self)

    def bind(self, *args: object, **params: object) -> Any:
        """Apply the primitive under the current trace."""
        outs = self.operation.call(*args, **params)
        return list(outs) if self.multiple_results else outs[0]

    def is_high(self, *avals: Aval, **params: object) -> bool:
        """Whether the call is lowered by `to_lojax`: always."""
        return True

    def abstract_eval(self, *arg_avals: Any, **params: object) -> Any:
        """The types of results, and the effects."""
        raise self._lacks("Type rule", "abstract_eval")

    def to_lojax(self, *values: Value, **params: object) -> Any:
        """The results, computed by operations on low types."""
        raise self._lacks("Implementation", "to_lojax")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> Any:
        """The results and their tangents."""
        raise self._lacks("Differentiation rule", "jvp")

    def transpose(self, *args: Any, **params: object) -> Any:
        """Cotangents of the linear operands."""
        raise self._lacks("Transpose rule (for reverse-mode differentiation)", "transpose")

    def _lacks(self, what: str, method: str) -> NotImplementedError:
        return NotImplementedError(
            f"{what} for '{self.name}' not implemented.\n  Define {type(self).__name__}.{method}."
        )

    def __repr__(self) -> str:
        return self.name


@dialects.high.mark
@dialects.takes_references.mark
@final
class Operation(Primitive):
    """The core's primitive that a `HiPrimitive` is."""

    __slots__ = ()
    mergeable = False

    def __init__(self, library: HiPrimitive) -> None:
        self.library, self.name = library, library.name

    @property
    def multiple_results(self) -> bool:  # the library may set it later on
        return self.library.multiple_results

    def _results(self, outs: Any) -> tuple[Any, ...]:
        return tuple(outs) if self.library.multiple_results else (outs,)

    def _evaluated(
        self, avals: Sequence[Any], params: Params
    ) -> tuple[tuple[Any, ...], frozenset[Any]]:
        """The types of results and the effects, among them the new states of operands."""
        states = {i: MutableQDD(a.qdd) for i, a in enumerate(avals) if type(a) is AvalQDD}
        given = [
            AvalMutableQDD(a.aval, states[i]) if i in states else a for i, a in enumerate(avals)
        ]
        outs, effects = self.library.abstract_eval(*given, **params)
        changed = [
            StateEffect(i, s.cur_val) for i, s in states.items() if s.cur_val is not s.init_val
        ]
        return self._results(outs), frozenset((*effects, *changed))

    def types(self, *avals: Aval, **params: object) -> Any:
        return self._evaluated(avals, params)[0]

    def effects(self, *avals: Aval, **params: object) -> Any:
        return self._evaluated(avals, params)[1]

    def evaluate(self, *args: Any, **params: object) -> Any:
        return self._results(self.library.to_lojax(*args, **params))

    def jvp(self, primals: Sequence[Value], tangents: Any, **params: object) -> Any:
        outs, out_tangents = self.library.jvp(primals, tangents, **params)
        return self._results(outs), self._results(out_tangents)

    def transpose(self, cts: Any, *args: Any, **params: object) -> Any:
        return tuple(
            self.library.transpose(
                list(cts) if self.library.multiple_results else cts[0], *args, **params
            )
        )

    def shard(self, *avals: ShapedArray, **params: object) -> Any:
        """Types of results say how they are laid out."""

"""Members of primitives, beside rules, that only libraries written for JAX ask for.

Primitives of libraries inherit it (`interpreters._primitive`). For others it is looked up here, and
loaded with the first such question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from teucer._core.primitive import Primitive
from teucer._core.trace import Trace, using

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Avals, Params, Value


class Members:
    """Members of primitives that Teucer does without."""

    __slots__ = ()
    call_primitive: ClassVar[bool] = False
    map_primitive: ClassVar[bool] = False
    skip_canonicalization: bool = False
    # is_effectful(params): whether an equation has effects; None where its type rule says it.
    is_effectful: Any = None

    def bind_with_trace(
        self: Any, trace: Trace, args: Sequence[Value], *rest: Avals | Params
    ) -> Any:
        """`bind` under another trace than the current one.

        rest: (avals, params) or (params,).
        """
        with using(trace):
            outs = self.call(*args, **cast("Params", rest[-1]))
        return list(outs) if self.multiple_results else outs[0]

    def impl(self: Any, *args: Value, **params: object) -> Any:
        """The results on values outside any transformation, as `bind` gives them."""
        # The class's own: what `def_impl` has put in its place may call this.
        outs = type(self).evaluate(self, *args, **params)
        return list(outs) if self.multiple_results else outs[0]

    def def_impl(self: Any, impl: Callable[..., Value]) -> Callable[..., Value]:
        """Compute by impl(*values, **params) outside any transformation; also a decorator. Give
        `impl` back to undo it."""
        own: dict[str, Any] = vars(self)
        if getattr(impl, "__self__", None) is self:
            for name in ("impl", "evaluate", "standalone"):
                own.pop(name, None)
            return impl

        def evaluate(*args: Value, **params: object) -> tuple[Any, ...]:
            outs: Any = impl(*args, **params)
            return tuple(outs) if self.multiple_results else (outs,)

        own.update(impl=impl, evaluate=evaluate, standalone=False)
        return impl

    def abstract_eval(self: Any, *avals: Aval, **params: object) -> tuple[Any, frozenset[Any]]:
        """The types of results, one or a list of them as `bind` gives results, and the effects."""
        outs = self.types(*avals, **params)
        return list(outs) if self.multiple_results else outs[0], self.effects(*avals, **params)

    def get_bind_params(self, params: Params) -> dict[str, Any]:
        """The parameters with which an interpreter of jaxprs calls `bind`: the equation's own."""
        return params


def member(primitive: Primitive, name: str) -> Any:
    """The member `name` of a primitive whose class does not define it.

    Raises AttributeError for names that are no members.

    >>> from teucer.lax import add_p
    >>> member(add_p, "get_bind_params")({"x": 1}), add_p.map_primitive
    ({'x': 1}, False)
    """
    if name.startswith("__") or not hasattr(Members, name):
        raise AttributeError(
            f"{type(primitive).__name__!r} object has no attribute {name!r}",
            name=name,
            obj=primitive,
        )
    found = vars(Members)[name]
    return found.__get__(primitive) if callable(found) else found

"""Primitives whose rules are registered one by one, and the tables in which rules stand by
primitive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, final

from teucer._core.primitive import Primitive
from teucer._core.trace import EVAL
from teucer._derived.members import Members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.types import ShapedArray
    from teucer._core.typing import Arrays, Dims, Params, Value
    from teucer._lower.context import Context


Rule = Callable[..., Any]


def as_tuple(outs: Sequence[Value]) -> tuple[Any, ...]:
    """The results of a rule, which returns one or a sequence of them, as a tuple."""
    return tuple(outs) if isinstance(outs, tuple | list) else (outs,)


class _AnyPrimitive(type):
    """Every primitive counts as an instance of `extend.core.Primitive`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, Primitive)
            if cls is LibraryPrimitive
            else type.__instancecheck__(cls, instance)
        )


def _is_of_library(primitive: Primitive) -> bool:
    return LibraryPrimitive in type(primitive).__mro__


class LibraryPrimitive(Members, Primitive, metaclass=_AnyPrimitive):
    """An operation of a library, whose rules are registered one by one.

    multiple_results: whether `bind` and the rules give sequences of results; set it on the
    primitive.

    >>> from teucer.extend.core import Primitive
    >>> twice_p = Primitive("twice")
    >>> implementation = twice_p.def_impl(lambda x: 2 * x)
    >>> twice_p.bind(3)
    6
    """

    __slots__ = ()
    # The rules of a library may use state that they do not declare.
    mergeable = False
    impl_rule: Rule | None = None
    type_rule: Rule | None = None
    pure = False
    # The operands of the last call of the rule, and its answer: one call asks for effects first,
    # and then for types.
    _asked: tuple[Any, Any, Any] | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    def def_impl(self, impl: Rule) -> Rule:
        """Say how values are computed outside any transformation: impl(*values, **params); also a
        decorator."""
        self.impl_rule = impl
        return impl

    def def_abstract_eval(self, abstract_eval: Rule) -> Rule:
        """Say the types of results: abstract_eval(*avals, **params) -> aval or avals; also a
        decorator."""
        self.type_rule = lambda *avals, **params: (abstract_eval(*avals, **params), frozenset())
        vars(self)["pure"] = True
        return abstract_eval

    def def_effectful_abstract_eval(self, effectful_abstract_eval: Rule) -> Rule:
        """As `def_abstract_eval`, with the effects: the rule returns (avals, effects)."""
        self.type_rule = effectful_abstract_eval
        vars(self)["pure"] = False
        return effectful_abstract_eval

    def abstract_eval(self, *avals: Any, **params: object) -> tuple[Any, frozenset[Any]]:
        """The types of results, and the effects.

        Raises NotImplementedError if no rule for them is registered.
        """
        if self.type_rule is None:
            raise NotImplementedError(
                f"Abstract evaluation for '{self.name}' not implemented\n"
                "  Register a rule with def_abstract_eval."
            )
        out, effects = self.type_rule(*avals, **params)
        if isinstance(out, tuple | list) is not self.multiple_results:
            raise ValueError(
                f"{self.name}.abstract_eval() method should return a tuple or a list iff "
                f"{self.name}.multiple_results.\n    it returned {out!r}\n"
                f"    multiple_results: {self.multiple_results}"
            )
        return out, frozenset(effects)

    def impl(self, *args: object, **params: object) -> Any:
        """The results on values.

        Raises NotImplementedError if no implementation is registered.
        """
        if self.impl_rule is None:
            raise NotImplementedError(
                f"Evaluation rule for '{self.name}' not implemented\n"
                "  Register an implementation with def_impl."
            )
        return self.impl_rule(*args, **params)

    def types(self, *avals: Any, **params: object) -> tuple[Any, ...]:
        asked, self._asked = self._asked, None
        if asked is not None and asked[0] == avals and _same(asked[1], params):
            return as_tuple(asked[2])
        return as_tuple(self.abstract_eval(*avals, **params)[0])

    def effects(self, *avals: ShapedArray, **params: object) -> frozenset[Any]:
        if self.pure and self.type_rule is not None:
            return frozenset()
        outs, effects = self.abstract_eval(*avals, **params)
        self._asked = avals, params, outs
        return effects

    def evaluate(self, *args: Any, **params: object) -> tuple[Any, ...]:
        outs = self.impl(*args, **params)
        return tuple(outs) if self.multiple_results else (outs,)

    def lower(self, ctx: Context, *values: Any, **params: object) -> tuple[Any, ...]:
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{self.name}' not found for platform "
            f"{ctx.platform}\n  Register a lowering with jax.interpreters.mlir.register_lowering."
        )

    def jvp(self, primals: Sequence[Value], tangents: Any, **params: object) -> tuple[Any, Any]:
        raise NotImplementedError(
            f"Differentiation rule for '{self.name}' not implemented\n"
            "  Register one in jax.interpreters.ad.primitive_jvps."
        )

    def transpose(self, cts: Any, *args: Any, **params: object) -> Any:
        raise NotImplementedError(
            f"Transpose rule (for reverse-mode differentiation) for '{self.name}' not implemented\n"
            "  Register one in jax.interpreters.ad.primitive_transposes."
        )

    def batch(self, axis: Any, args: Arrays, dims: Dims, **params: object) -> tuple[Any, Any]:
        raise NotImplementedError(
            f"Batching rule for '{self.name}' not implemented\n"
            "  Register one in jax.interpreters.batching.primitive_batchers."
        )


def _same(params: Params, others: dict[str, Any]) -> bool:
    """Whether two calls have the same objects for parameters."""
    return params.keys() == others.keys() and all(x is others[name] for name, x in params.items())


@final
class Rules(MutableMapping[Primitive, Rule]):
    """The rules for one transformation by primitive: the primitives' own rules, and registered
    ones.

    method: the method of primitives that is the rule. install(primitive, rule): that method for a
    registered rule. derive(primitive, method): the rule, in the form in which rules are registered,
    of a primitive that comes with one.
    """

    def __init__(
        self,
        method: str,
        install: Callable[[Primitive, Rule], Rule],
        derive: Callable[[Primitive, Rule], Rule],
    ) -> None:
        self._method, self._install, self._derive = method, install, derive
        self._registered: dict[Primitive, Rule] = {}

    def __getitem__(self, primitive: Primitive) -> Rule:
        if primitive in self._registered:
            return self._registered[primitive]
        library = _is_of_library(primitive)
        without = vars(LibraryPrimitive if library else Primitive)[self._method]
        method = getattr(primitive, self._method)
        if getattr(method, "__func__", method) is without or library:
            raise KeyError(primitive)
        return self._derive(primitive, method)

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        self._registered[primitive] = rule
        # On the primitive itself, where it stands before the method of its class.
        vars(primitive)[self._method] = self._install(primitive, rule)

    def __delitem__(self, primitive: Primitive) -> None:
        del self._registered[primitive]
        del vars(primitive)[self._method]

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self._registered)

    def __len__(self) -> int:
        return len(self._registered)


def apply_primitive(prim: Primitive, *args: object, **params: object) -> Any:
    """The result of a primitive on concrete values, or the list of them, computed at once.

    >>> from teucer.lax import neg_p
    >>> apply_primitive(neg_p, 3.)
    Array(-3., dtype=float32, weak_type=True)
    """
    outs = EVAL.process(prim, args, params)
    return list(outs) if prim.multiple_results else outs[0]

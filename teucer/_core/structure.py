"""The structure of primitives that carry programs: a call, a branch or a loop.

Interpreters of jaxprs ask `of(eqn)`. So the parameters of a primitive are read in one place, beside
its class, where `structured` states the structure. A view shows an equation on its operands, or on
values in their place. `params_of` gives the parameters of a view that was changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from teucer._core.jaxpr import ClosedJaxpr

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Params


class Call(NamedTuple):
    """The results are those of `body` on the operands.

    consts: the number of leading operands that the user's function closes over.
    """

    body: ClosedJaxpr
    operands: Sequence[Any]
    consts: int = 0

    @property
    def bodies(self) -> list[tuple[ClosedJaxpr, Sequence[Any]]]:
        """Each program, and what it is called on."""
        return [(self.body, self.operands)]


class Mapped(NamedTuple):
    """Each device of a mesh has the results of `body` on its parts of the operands."""

    body: ClosedJaxpr
    operands: Sequence[Any]
    mesh: Any

    @property
    def bodies(self) -> list[tuple[ClosedJaxpr, Sequence[Any]]]:
        """The programs of this structure, each with its operands."""
        return [(self.body, self.operands)]


class Branch(NamedTuple):
    """Runs one program on the operands; `index` says which.

    platforms: the platforms of each program, if the index numbers the platform; else None.
    """

    index: Any
    programs: Sequence[ClosedJaxpr]
    operands: Sequence[Any]
    platforms: Any = None

    @property
    def bodies(self) -> list[tuple[ClosedJaxpr, Sequence[Any]]]:
        """Each program, and what it is called on."""
        return [(program, self.operands) for program in self.programs]

    def chosen(self, index: int) -> ClosedJaxpr:
        """The program for an index, the nearest for one that is out of bounds."""
        return self.programs[min(max(index, 0), len(self.programs) - 1)]


class Loop(NamedTuple):
    """Steps of `body`, which takes consts, what is carried, and elements of xs. It gives what is
    carried to the next step, and elements of other results.

    length, reverse: how many steps there are, and whether the last elements come first. condition:
    where length is None, there are steps while this holds, of `condition_consts` and what is
    carried.
    """

    body: ClosedJaxpr
    consts: Sequence[Any]
    carry: Sequence[Any]
    xs: Sequence[Any] = ()
    length: Any = None
    reverse: bool = False
    condition: ClosedJaxpr | None = None
    condition_consts: Sequence[Any] = ()

    @property
    def bodies(self) -> list[tuple[ClosedJaxpr, Sequence[Any]]]:
        """Each program and its operands, with elements of xs."""
        step = (self.body, [*self.consts, *self.carry, *self.xs])
        if self.condition is None:
            return [step]
        return [(self.condition, [*self.condition_consts, *self.carry]), step]

    @property
    def times(self) -> int:
        """How many steps there are; 1 where that is not known."""
        return 1 if self.length is None else int(self.length)

    @property
    def places(self) -> Sequence[int]:
        """The places of the elements that the steps take, in the order of steps."""
        places = range(int(self.length))
        return places[::-1] if self.reverse else places

    def step(self, i: int) -> str:
        """A step as messages say it."""
        if self.length is None:
            return f"step {i} of a while loop"
        return f"step {i} of {int(self.length)} of a scan"

    def run(
        self,
        call: Callable[[int, ClosedJaxpr, list[Any]], Sequence[Any]],
        element: Callable[[Any, int], Any],
        holds: Callable[[Any], bool],
    ) -> tuple[list[Any], list[list[Any]]]:
        """The last carry, and the other results of each step, by place.

        call(step, program, values) -> results; element(x, place); holds(result of the condition).
        """
        carry, n = list(self.carry), len(self.carry)
        if self.condition is None:
            rows = []
            for i in self.places:
                elements = [element(x, i) for x in self.xs]
                outs = list(call(i, self.body, [*self.consts, *carry, *elements]))
                carry = outs[:n]
                rows.append(outs[n:])
            return carry, rows[::-1] if self.reverse else rows
        for i in itertools.count():
            if not holds(call(i, self.condition, [*self.condition_consts, *carry])[0]):
                break
            carry = list(call(i, self.body, [*self.consts, *carry]))
        return carry, []


Structure: TypeAlias = Call | Mapped | Branch | Loop
Kind: TypeAlias = type[Call] | type[Mapped] | type[Branch] | type[Loop]


class _Form(NamedTuple):
    """How a class of primitives is viewed. view(operands, **params) -> structure; params(structure)
    gives the parameters that say it."""

    kind: Kind
    view: Callable[..., Structure]
    params: Callable[[Any], dict[str, Any]]


_FORMS: dict[type, _Form | None] = {}
_INTERNAL: set[type] = set()
Class = TypeVar("Class", bound=type)


def structured(
    kind: Kind, view: Callable[..., Structure], params: Callable[[Any], dict[str, Any]]
) -> Callable[[Class], Class]:
    """A decorator of primitives' classes that states their structure.

    view(operands, **params) gives the structure. params(structure) gives the parameters that it
    determines.
    """

    def defined(cls: Class) -> Class:
        _FORMS[cls] = _Form(kind, view, params)
        return cls

    return defined


def calls(parameter: str) -> Callable[[Class], Class]:
    """`structured` for calls whose body is a parameter."""

    def view(operands: Sequence[Any], **params: Any) -> Call:
        return Call(params[parameter], operands, 0)

    return structured(Call, view, lambda call: {parameter: call.body})


def internal(cls: Class) -> Class:
    """A decorator of classes of primitives that passes make for themselves: no interpreter of the
    programs of users meets them."""
    _INTERNAL.add(cls)
    return cls


def is_internal(primitive: Primitive) -> bool:
    """Whether passes make a primitive for themselves."""
    return type(primitive) in _INTERNAL


def _form_of(cls: type) -> _Form | None:
    try:
        return _FORMS[cls]
    except KeyError:
        found = next((_FORMS[base] for base in cls.__mro__ if base in _FORMS), None)
        _FORMS[cls] = found
        return found


def is_loop(primitive: Primitive) -> bool:
    """Whether a primitive is a loop."""
    form = _form_of(type(primitive))
    return form is not None and form.kind is Loop


def kind_of(primitive: Primitive) -> Kind | None:
    """The kind of a primitive: `Call`, `Mapped`, `Branch` or `Loop`; None if it is none of them."""
    form = _form_of(type(primitive))
    return None if form is None else form.kind


def of(eqn: Eqn, operands: Sequence[Any] | None = None) -> Structure | None:
    """The structure of an equation; None for operations, and for primitives that use their programs
    in another way. operands: values for the view in place of the equation's operands.

    >>> import teucer as jax
    >>> closed = jax.make_jaxpr(lambda xs: jax.lax.scan(lambda c, x: (c + x, c), 0., xs))(
    ...     jax.numpy.arange(3.))
    >>> loop = of(closed.eqns[-1])
    >>> type(loop).__name__, loop.length, len(loop.carry), len(loop.xs)
    ('Loop', 3, 1, 1)
    """
    return of_call(eqn.primitive, eqn.params, eqn.invars if operands is None else operands)


def of_call(
    primitive: Primitive, params: Mapping[str, Any], operands: Sequence[Any]
) -> Structure | None:
    """As `of`, for a call of a primitive."""
    form = _form_of(type(primitive))
    return None if form is None else form.view(operands, **params)


def presumed(eqn: Eqn, operands: Sequence[Any] | None = None) -> Call | None:
    """The structure guessed for an equation of a library's primitive: a call of the one program
    that it carries, if the types of operands and results agree; None otherwise."""
    found = [p for p in eqn.params.values() if isinstance(p, ClosedJaxpr)]
    if len(found) != 1 or kind_of(eqn.primitive) is not None:
        return None
    (body,) = found
    ends = zip((body.invars, body.outvars), (eqn.invars, eqn.outvars), strict=True)
    if any(_shapes(inner) != _shapes(outer) for inner, outer in ends):
        return None
    return Call(body, eqn.invars if operands is None else operands, 0)


def _shapes(atoms: Any) -> list[Any]:
    return [getattr(v.aval, "shape", v.aval) for v in atoms]


def times(eqn: Eqn) -> int:
    """How often an equation runs the programs that it carries; 1 where that is not known."""
    found = of(eqn)
    return found.times if isinstance(found, Loop) else 1


def params_of(primitive: Primitive, params: Params, structure: Structure) -> dict[str, Any]:
    """The parameters of a call of a primitive with another structure, for as many operands."""
    form = _form_of(type(primitive))
    assert form is not None
    return {**params, **form.params(structure)}

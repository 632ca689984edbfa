"""High types.

Types of libraries whose values are made of values of low types, those of arrays
(docs/high_types.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._advice.guarding import guarded
from teucer._core.reference_types import RefType
from teucer._core.trace import Tracer
from teucer._core.types import Aval, Zero, register_aval_of

if TYPE_CHECKING:
    from teucer._core.typing import Size, Value


class HighSpec:
    """How a value of a high type is laid over a mesh (JAX's HiPspec). Each type has specs of its
    own."""

    def _lacks(self, method: str) -> NotImplementedError:
        name = type(self).__name__
        return NotImplementedError(
            f"{name} does not say what is needed here.\n  Define {name}.{method}."
        )

    def to_lo(self) -> Sequence[Any]:
        """The specs of the low values of a high value."""
        raise self._lacks("to_lo")

    def to_tangent_spec(self) -> Any:
        """The spec of tangents."""
        raise self._lacks("to_tangent_spec")

    def to_ct_spec(self) -> Any:
        """The spec of cotangents."""
        raise self._lacks("to_ct_spec")


# --- Members of traced values ---------------------------------------------------------------------
# Types state them: `aval_method`, `aval_property`, and operators (`_add` for `+`). Traced values of
# arrays have members of the same names: where a library has a type that states one, the member asks
# which of them is meant. There is no such question in programs without high types.


class aval_method(NamedTuple):
    """A method of traced values of a type: `name = aval_method(fun)` in the type's class."""

    fun: Callable[..., Any]


class aval_property(NamedTuple):
    """A property of traced values of a type: `name = aval_property(fget)` in the type's class."""

    fget: Callable[..., Any]


# Members of `Tracer` that ask the type of the value first; `state_members` put them there.
_asking: set[str] = set()


def member_of(x: Any, name: str) -> Any:
    """The member `name` of a traced value, as the type of the value defines it.

    Raises AttributeError if the type defines no member of that name.
    """
    member = getattr(x.aval, name)
    if type(member) is aval_property:
        return member.fget(x)
    return MethodType(member.fun, x) if type(member) is aval_method else member


def state_members(cls: type) -> None:
    """Give traced values the members that a class of types defines."""
    stated = {
        name for name, value in vars(cls).items() if type(value) in (aval_method, aval_property)
    }
    if "__getattr__" in vars(cls):  # it may answer for any name
        stated.update(name for name in dir(Tracer) if not name.startswith("_"))
        stated -= {
            "aval",
            "shape",
            "dtype",
            "ndim",
            "size",
            "weak_type",
            "sharding",
            "concrete",
            "origin",
            "reason",
            "full_lower",
        }
    for name in sorted(stated - _asking):
        if hasattr(Tracer, name):
            _asking.add(name)
            setattr(Tracer, name, _asks(name, Tracer.__dict__.get(name, getattr(Tracer, name))))
    for name in vars(cls):
        operator = f"__{name[1:]}__"
        if (
            name.startswith("_")
            and not name.startswith("__")
            and operator in _OPERATORS
            and operator not in _asking
        ):
            _asking.add(operator)
            setattr(
                Tracer, operator, _asks_operator(name, operator, getattr(Tracer, operator, None))
            )


_NAMES = """getitem setitem len iter bool int float complex index round trunc floor ceil neg pos
abs invert add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or radd rsub
rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand rxor ror eq ne lt le gt ge"""
_OPERATORS = frozenset(f"__{name}__" for name in _NAMES.split())


def _states(aval: Aval) -> bool:
    """Whether a type defines members of its values. References to such values have the members of
    references."""
    return bool(aval.is_high) and type(aval) is not RefType


def _asks(name: str, of_array: Any) -> property:
    def member(x: Any) -> Any:
        return member_of(x, name) if _states(x.aval) else of_array.__get__(x, type(x))

    return property(guarded(member), doc=of_array.__doc__)


def _asks_operator(name: str, operator: str, of_array: Any) -> Any:
    def member(x: Any, *args: Any) -> Any:
        if _states(x.aval):
            return getattr(x.aval, name)(x, *args)
        if of_array is None:
            raise TypeError(f"{type(x).__name__} has no {operator}")
        return of_array(x, *args)

    member.__name__ = operator
    return guarded(member)


# --- Types ----------------------------------------------------------------------------------------

# Types that are mapped along axes by number: (size, axis, type) -> type of an element, (size, axis,
# mesh axis, type) -> of a batch.
aval_mapping_handlers: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {}


class HighType(Aval):
    """A type whose values are made of values of other types, for libraries to derive from.

    Types are compared by `==`, and hashed. What a library says of one:

    lo_ty() -> types, lower_val(value) -> values of these, raise_val(*values) -> value       of what
    values are made
    to_tangent_aval() -> type; vspace_zero() -> value; vspace_add(x, y) -> value
    derivatives
    dec_rank(size, spec) -> type, inc_rank(size, spec) -> type, leading_axis_spec() -> spec  vmap
    and scan
    shard(mesh, manual_axes, check_vma, spec) -> type, unshard(mesh, check_vma, spec) -> type,
    nospec(mesh, check_vma, names) -> spec
    shard_map
    """

    is_high = moves = True
    has_qdd: Any = False
    weak_type = False
    sharding: Any = None
    vma: frozenset[str] = frozenset()

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        state_members(cls)

    def _lacks(self, method: str) -> NotImplementedError:
        return NotImplementedError(
            f"values of type {self} do not say what is needed here.\n"
            f"  Define {type(self).__name__}.{method}."
        )

    def lo_ty(self) -> Sequence[Any]:
        """The types of the low values of each value."""
        raise self._lacks("lo_ty")

    def lower_val(self, hi_val: object, /) -> Sequence[Any]:
        """The low values of a value, of the types `lo_ty()`."""
        raise self._lacks("lower_val")

    def raise_val(self, *lo_vals: Value) -> Any:
        """The value that is made of the given ones."""
        raise self._lacks("raise_val")

    def tangent_aval(self) -> Any:
        return self.to_tangent_aval()

    def cotangent_aval(self) -> Any:
        return self.to_ct_aval()

    def to_tangent_aval(self) -> Any:
        """The type of tangents to values."""
        raise self._lacks("to_tangent_aval")

    def to_ct_aval(self) -> Any:
        """The type of cotangents of values; by default the type of tangents."""
        return self.to_tangent_aval()

    @property
    def zero(self) -> Zero:
        return Zero(self.tangent_aval())

    def vspace_zero(self) -> Any:
        """The zero among values, where they are tangents."""
        raise self._lacks("vspace_zero")

    def vspace_add(self, x: Value, y: Value) -> Any:
        """The sum of two values, where they are tangents."""
        raise self._lacks("vspace_add")

    def dec_rank(self, size: Size, spec: object) -> Any:
        """The type of one element of a batch of values, mapped as `spec` says."""
        rules = aval_mapping_handlers.get(type(self))
        if rules is None:
            raise self._lacks("dec_rank")
        return rules[0](size, spec, self)

    def inc_rank(self, size: Size, spec: object) -> Any:
        """The type of a batch of values, mapped as `spec` says."""
        rules = aval_mapping_handlers.get(type(self))
        if rules is None:
            raise self._lacks("inc_rank")
        return rules[1](size, spec, None, self)

    def leading_axis_spec(self) -> Any:
        """The spec that maps the first axes, as loops do."""
        if type(self) not in aval_mapping_handlers:
            raise self._lacks("leading_axis_spec")
        return 0

    def shard(self, mesh: object, manual_axes: object, check_vma: bool, spec: object) -> Any:
        """The type of the part of a value that one device has."""
        raise self._lacks("shard")

    def unshard(self, mesh: object, check_vma: bool, spec: object) -> Any:
        """The type of the whole value, of which each device has a part of this type."""
        raise self._lacks("unshard")

    def nospec(self, mesh: object, check_vma: bool, all_names: tuple[object, ...]) -> Any:
        """A spec by which each device along the named mesh axes keeps a value of its own: for
        residuals of shard_map."""
        raise self._lacks("nospec")

    def normalize(self) -> Any:
        """The type by which programs are kept."""
        return self

    def str_short(self, short_dtypes: bool = False, **options: object) -> str:
        """The type in the notation of jaxprs."""
        return str(self)


class MutableHighType(HighType):
    """A high type whose values change. Its content is its state (JAX's "qdd"), which is no part of
    the type.

    A value has a method `cur_qdd()` that gives its state, which is compared by `==` and hashed.

    lo_ty_qdd(state) -> types of which a value in that state is made
    new_from_loval(state, *values) -> value; read_loval(state, value) -> values;
    update_from_loval(state, value, *values)
    """

    has_qdd: Any = True

    def lo_ty_qdd(self, state: object, /) -> Sequence[Any]:
        """The types of the low values of a value in a given state."""
        raise self._lacks("lo_ty_qdd")

    def new_from_loval(self, state: object, /, *vals: Value) -> Any:
        """A new value in a state."""
        raise self._lacks("new_from_loval")

    def read_loval(self, state: object, val: Value, /) -> Sequence[Any]:
        """The low values of a value."""
        raise self._lacks("read_loval")

    def update_from_loval(self, state: object, val: Value, /, *lo_vals: Value) -> None:
        """Put a value into a state."""
        raise self._lacks("update_from_loval")

    def to_tangent_aval(self) -> Any:
        return self


class MutableQDD:
    """The state of an operand while the types of a call are worked out: before, and after the
    call."""

    __slots__ = ("cur_val", "init_val")

    def __init__(self, init_val: object, cur_val: object = None) -> None:
        self.init_val, self.cur_val = init_val, init_val if cur_val is None else cur_val

    def update(self, val: object) -> None:
        """Set the state that the operand has after the call."""
        self.cur_val = val


class AvalMutableQDD(NamedTuple):
    """Stands, in the type rule of a high primitive, for an operand that changes."""

    aval: Any
    mutable_qdd: MutableQDD


def register_hitype(val_cls: type, typeof_fn: Callable[..., Aval]) -> None:
    """Register objects of a class as values of a high type.

    typeof_fn: a function from such an object to its type.
    """
    register_aval_of(val_cls, typeof_fn)

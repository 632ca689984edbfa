"""Jaxprs and equations as libraries make them: JAX's constructors, with its order of parameters.

These make instances of the classes in `teucer._core.jaxpr`, and all such instances count as theirs.
From JAX 0.12 on there is one class of jaxprs, closed or not; `ClosedJaxpr` is another name of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._core import jaxpr as own
from teucer._core.places import SourceInfo, source_of
from teucer._xla.client import jaxlib_version

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Params, Value


# Whether JAX of this release has one class of jaxprs.
JOINED = tuple(map(int, re.findall(r"\d+", jaxlib_version)[:2])) >= (0, 12)


class _Maker(type):
    """A class that makes objects of Teucer's own, which are its instances."""

    kinds: tuple[type, ...]
    make: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.kinds)

    def __getattr__(cls, name: str) -> Any:
        for kind in reversed(cls.kinds):
            if hasattr(kind, name):
                return getattr(kind, name)
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or any(issubclass(other, kind) for kind in cls.kinds)


def _closed(jaxpr: own.Jaxpr | own.ClosedJaxpr, consts: Iterable[Value] = ()) -> own.ClosedJaxpr:
    inner, given = jaxpr.jaxpr, list(consts)
    if not given and inner.constvars:
        # JAX takes variables of constants without values for leading arguments.
        moved = [*inner.constvars, *inner.invars]
        inner = inner.replace(constvars=[], invars=moved, debug_info=None)
    return own.ClosedJaxpr(inner, given)


def _jaxpr(
    constvars: Sequence[own.Var] | own.Jaxpr | own.ClosedJaxpr = (),
    invars: Sequence[own.Var] | Sequence[Value] | None = None,
    outvars: Sequence[own.Atom] | None = None,
    eqns: Sequence[own.Eqn] | None = None,
    effects: Iterable[object] = frozenset(),
    debug_info: Any = None,
    is_high: bool = False,
    consts: Sequence[Value] | None = None,
    *,
    jaxpr: own.Jaxpr | own.ClosedJaxpr | None = None,
) -> own.Jaxpr | own.ClosedJaxpr:
    if jaxpr is not None:  # ClosedJaxpr(jaxpr=..., consts=...)
        return _closed(jaxpr, consts or ())
    if isinstance(constvars, own.Jaxpr | own.ClosedJaxpr):
        return _closed(constvars, (invars if consts is None else consts) or ())
    made = own.Jaxpr(
        constvars,
        invars or (),  # type: ignore[arg-type]  # variables, since the first are
        outvars or (),
        eqns or (),
        frozenset(effects),
        debug_info,
    )
    return made if consts is None else own.ClosedJaxpr(made, consts)


def new_jaxpr_eqn(
    invars: Sequence[own.Atom],
    outvars: Sequence[own.Var],
    primitive: Primitive,
    params: Params,
    effects: Iterable[object],
    source_info: SourceInfo | None = None,
    ctx: own.EqnContext | None = None,
) -> own.Eqn:
    """The equation `outvars = primitive[params] invars`.

    effects: of the equation.
    source_info: where it comes from; another equation's, say.
    ctx: accepted for programs written for JAX; `source_info` says it too.

    >>> import teucer as jax
    >>> eqn = jax.make_jaxpr(jax.numpy.sin)(0.0).eqns[0]
    >>> new_jaxpr_eqn(eqn.invars, eqn.outvars, jax.lax.cos_p, eqn.params, eqn.effects)
    a:f32[] = cos b
    """
    return own.Eqn(
        primitive,
        list(invars),
        list(outvars),
        params,
        frozenset(effects),
        None if source_info is None else source_of(source_info),
    )


class JaxprEqn(metaclass=_Maker):
    """An equation: JaxprEqn(invars, outvars, primitive, params, effs, source_info, ctx)."""

    kinds = (own.Eqn,)

    @staticmethod
    def make(
        invars: Sequence[own.Atom],
        outvars: Sequence[own.Var],
        primitive: Primitive,
        params: Params,
        effs: Iterable[object],
        source_info: SourceInfo | None,
        ctx: own.EqnContext | None,
    ) -> own.Eqn:
        """An equation of these fields."""
        return new_jaxpr_eqn(invars, outvars, primitive, params, effs, source_info, ctx)


class Jaxpr(metaclass=_Maker):
    """A program: Jaxpr(constvars, invars, outvars, eqns, effects, debug_info, is_high, consts).

    With consts it is closed. Jaxpr(jaxpr, consts) closes one.
    """

    kinds = (own.Jaxpr, own.ClosedJaxpr) if JOINED else (own.Jaxpr,)
    make = staticmethod(_jaxpr)


if JOINED:
    ClosedJaxpr = Jaxpr
else:

    class ClosedJaxpr(metaclass=_Maker):  # type: ignore[no-redef]  # one class or two, by the release
        """A program with the values of its constants: ClosedJaxpr(jaxpr, consts)."""

        kinds = (own.ClosedJaxpr,)
        make = staticmethod(_closed)

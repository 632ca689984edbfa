"""Passes over jaxprs before they are lowered.

Functions from a jaxpr without constants to one that computes the same bits.

`PASSES` is the table of them, in the order in which `optimize` applies them. The primitives' own
rules state the facts (`simplify`, `fold`, `inlined`, `forward`, `dce`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer._base import config, dtypes
from teucer._core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    jaxprs_in_params,
)
from teucer._core.names import joined
from teucer._core.places import NOWHERE
from teucer._core.primitive import Call
from teucer._core.provided import provided
from teucer._optimize.dce import remove_dead
from teucer._optimize.structure import Structure, literal_key, params_key, structural_key

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, DTypeLike, Params, Value


class Pass(NamedTuple):
    """A named pass. parts: passes that each do a part of it, to be looked at one by one."""

    name: str
    apply: Callable[[Jaxpr], Jaxpr]
    parts: tuple[Pass, ...] = ()


class Rule(Flag):
    """The rules of `rewrite`: each is a pass of its own, and one sweep applies any of them
    together."""

    INLINE = auto()  # calls whose own rules (derivatives, batching) are needed no more
    FORWARD = auto()  # results of calls and loops that are operands unchanged
    FOLD = auto()  # operations on scalar constants
    SIMPLIFY = auto()  # identities that hold bit for bit
    MERGE = auto()  # common subexpressions


@functools.cache
def _chosen(rules: Rule) -> tuple[bool, ...]:
    return tuple([rule in rules for rule in Rule])


ALL = Rule.INLINE | Rule.FORWARD | Rule.FOLD | Rule.SIMPLIFY | Rule.MERGE


def optimize(jaxpr: Jaxpr) -> Jaxpr:
    """All passes one after the other."""
    for step in PASSES:
        jaxpr = step.apply(jaxpr)
        if config.enable_checks.value:
            provided.check_jaxpr(jaxpr)
    return jaxpr


def rewrite(jaxpr: Jaxpr, rules: Rule = ALL) -> Jaxpr:
    """One sweep over the equations, inner jaxprs included: each is replaced by equations known to
    equal it.

    Equations whose results are no longer used stay.
    """
    sweep = _Sweep(rules)
    sweep.run(jaxpr.eqns)
    if not sweep.changed:
        return jaxpr
    return Jaxpr(
        jaxpr.constvars,
        jaxpr.invars,
        [sweep.env.get(v, v) for v in jaxpr.outvars],
        sweep.eqns,
        jaxpr.effects,
        jaxpr.debug_info,
    )


class Known(NamedTuple):
    """Facts about operands, for rules.

    made: by variable, the equation that defines it, if that has one result. repeated: by variable,
    the equation that makes it by repeating one literal.
    """

    made: dict[Any, Eqn]
    repeated: dict[Any, Eqn]

    def constant(self, x: Atom) -> Literal | None:
        """The literal that x, or every element of it, is; None if that is not known."""
        if type(x) is Literal:
            return None if x.aval.shape else x
        eqn = self.repeated.get(x)
        return None if eqn is None else eqn.invars[0]  # type: ignore[return-value]


@final
class _Sweep:
    """One sweep in progress: the equations written, and the facts about variables."""

    __slots__ = (
        "changed",
        "env",
        "eqns",
        "fold",
        "forward",
        "inline",
        "known",
        "merge",
        "merged",
        "rules",
        "simplify",
    )

    def __init__(self, rules: Rule) -> None:
        self.rules = rules
        # Read the flags once: reading one costs more than all else that is done for an equation.
        self.inline, self.forward, self.fold, self.simplify, self.merge = _chosen(rules)
        self.eqns: list[Eqn] = []
        # The atom that replaces a variable from now on.
        self.env: dict[Any, Atom] = {}
        self.known = Known({}, {})
        self.merged: dict[Any, Eqn] = {}
        self.changed = False

    def run(self, eqns: Sequence[Eqn], *, inlined: bool = False) -> None:
        """Rewrite equations; equations of an inlined jaxpr get new variables."""
        env, (made, repeated) = self.env, self.known
        fold, simplify, merge = self.fold, self.simplify, self.merge
        # Plain loops: this runs for every equation of every program (benchmarks/).
        for eqn in eqns:
            primitive, params = eqn.primitive, eqn.params
            operands: list[Atom] = []
            constant = renamed = False
            for v in eqn.invars:
                if type(v) is Literal:  # an array of the host may be one too
                    constant = constant or not v.aval.shape
                elif v in env:
                    v = env[v]
                    renamed = True
                    if type(v) is Literal or v in repeated:
                        constant = True
                elif v in repeated:
                    constant = True
                operands.append(v)
            names = outvars = eqn.outvars
            # A result that nothing uses may stand for an equal one that is used.
            if inlined or (len(outvars) > 1 and any(type(v) is DropVar for v in outvars)):
                renamed, outvars = True, [Var(v.aval) for v in names]
                env.update(zip(names, outvars, strict=True))
            if renamed:
                eqn = Eqn(primitive, operands, outvars, params, eqn.effects, eqn.source)
                self.changed = True
            if primitive.higher_order:
                self.call(eqn, names)
                continue
            if not eqn.effects and len(outvars) == 1:
                out = outvars[0]
                if constant and fold and primitive.fold is not None:
                    folded = self.folded(eqn, operands, out.aval)
                    if type(folded) is Literal:
                        env[names[0]] = folded
                        self.changed = True
                        continue
                    if folded is not None:
                        eqn, primitive, params, operands = (
                            folded,
                            folded.primitive,
                            folded.params,
                            list(folded.invars),
                        )
                        self.changed = True
                if simplify and primitive.simplify is not None:
                    found = primitive.simplify(self.known, *operands, **params)
                    if type(found) is Call:
                        operands, params = list(found.operands), found.params
                        eqn = Eqn(primitive, operands, outvars, params, eqn.effects, eqn.source)
                        self.changed = True
                    elif type(found) is tuple:
                        if _fits(*found) and found[0].jaxpr.outvars[0].aval is out.aval:
                            self.write_in_place(found, eqn, names)
                            continue
                    elif found is not None and found.aval is out.aval:
                        env[names[0]] = found
                        self.changed = True
                        continue
                made[out] = eqn
                if constant and primitive.rearranges and type(operands[0]) is Literal:
                    repeated[out] = eqn
            if (
                merge
                and primitive.mergeable
                and not eqn.effects
                and self.merge_with_earlier(eqn, names, constant)
            ):
                continue
            self.eqns.append(eqn)

    def merge_with_earlier(self, eqn: Eqn, names: Sequence[Var], constant: bool) -> bool:
        """Whether an equation that computes the same has been met: then its results stand for
        `names`."""
        operands: Any = eqn.invars
        if constant:
            operands = [literal_key(v) if type(v) is Literal else v for v in operands]
        params = eqn.params
        key: Any = (eqn.primitive, *operands)
        if params:
            key = (
                (*key, params_key(params))
                if eqn.primitive.higher_order
                else (*key, *params.items())
            )
        try:
            first = self.merged.setdefault(key, eqn)
        except TypeError:  # a parameter that is not hashable
            return False
        if first is eqn:
            return False
        # Parameters may be equal and not the same, as 0.0 and -0.0 are, and literals weak or not;
        # this is asked seldom.
        same_types = all(v.aval is w.aval for v, w in zip(first.outvars, eqn.outvars, strict=True))
        if not same_types or params_key(first.params) != params_key(params):
            return False
        env = self.env
        env.update(zip(names, [env.get(v, v) for v in first.outvars], strict=True))
        self.changed = True
        return True

    def folded(self, eqn: Eqn, operands: Sequence[Atom], aval: Aval) -> Literal | Eqn | None:
        """The result of an operation on constants, computed now.

        A literal; or a literal that is repeated as an operand is. None if an operand is not known.
        """
        literals = [self.known.constant(v) for v in operands]
        if None in literals:
            return None
        value = _fold(eqn.primitive, literals, eqn.params, aval.dtype)
        if value is None:
            return None
        if not aval.shape:
            return Literal(value, aval)
        if aval.partition is not None:
            return None
        way = next(self.known.repeated[v] for v in operands if v.aval.shape == aval.shape)
        literal = Literal(value, aval.update(shape=()))
        return Eqn(way.primitive, [literal], eqn.outvars, way.params, way.effects, eqn.source)

    def write_in_place(
        self, found: tuple[ClosedJaxpr, Sequence[Atom]], eqn: Eqn, names: Sequence[Var]
    ) -> None:
        """Write the equations of a jaxpr, on operands, where `eqn` stood, whose results are known
        as `names`."""
        (closed, operands), env = found, self.env
        env.update(zip(closed.jaxpr.invars, operands, strict=True))
        self.run(_scoped(closed.eqns, (eqn.source or NOWHERE)[1]), inlined=True)
        env.update(zip(names, [env.get(v, v) for v in closed.jaxpr.outvars], strict=True))
        self.changed = True

    def call(self, eqn: Eqn, names: Sequence[Var]) -> None:
        """Rewrite an equation that carries jaxprs, whose results are known as `names`."""
        primitive, env = eqn.primitive, self.env
        if self.inline and primitive.inlined is not None:
            found = primitive.inlined(eqn.invars, eqn.params)
            if found is not None and _fits(*found):
                self.write_in_place(found, eqn, names)
                return
        new = map_jaxprs(eqn, lambda jaxpr: rewritten(jaxpr, self.rules))
        if self.forward and primitive.forward is not None:
            new, atoms = primitive.forward(new)
            for name, out, atom in zip(names, eqn.outvars, atoms, strict=True):
                if atom is not None and atom.aval is name.aval:
                    env[name] = env[out] = atom
                    self.changed = True
        self.changed |= new is not eqn
        pure = (
            self.merge
            and not new.effects
            and primitive.mergeable
            and all(map(_is_mergeable, jaxprs_in_params(new.params)))
        )
        if not (
            pure and len(new.outvars) == len(names) and self.merge_with_earlier(new, names, True)
        ):
            self.eqns.append(new)


def _scoped(eqns: Sequence[Eqn], around: tuple[str, ...]) -> Sequence[Eqn]:
    """Equations of a jaxpr that is inlined, within the scopes around the call of it."""
    if not around:
        return eqns
    places = [eqn.source or NOWHERE for eqn in eqns]
    return [
        eqn.replace(source=(place, joined(around, own)))
        for eqn, (place, own) in zip(eqns, places, strict=True)
    ]


def _fits(closed: ClosedJaxpr, operands: Sequence[Atom]) -> bool:
    """Whether a jaxpr can be written in place, on operands of just the types that it says."""
    jaxpr = closed.jaxpr
    return not jaxpr.constvars and all(
        v.aval is x.aval for v, x in zip(jaxpr.invars, operands, strict=True)
    )


def rewritten(jaxpr: Jaxpr, rules: Rule) -> Jaxpr:
    """`rewrite` of a jaxpr that an equation carries, kept on it."""
    return changed_once(jaxpr, (rewrite, rules.value), lambda j: rewrite(j, rules))


def changed_once(jaxpr: Jaxpr, key: Value, change: Callable[[Jaxpr], Jaxpr]) -> Jaxpr:
    """The result of `change` for a jaxpr, kept on it under a key."""
    if key not in jaxpr.cache:
        new = change(jaxpr)
        # A jaxpr that its own cache refers to would live until the next collection.
        jaxpr.cache[key] = None if new is jaxpr else new
    found: Jaxpr | None = jaxpr.cache[key]
    return jaxpr if found is None else found


def map_jaxprs(eqn: Eqn, f: Callable[[Jaxpr], Jaxpr]) -> Eqn:
    """An equation with f of the jaxprs that it carries; itself if f changes none."""
    changed = {}
    for name, value in eqn.params.items():
        new = _mapped(value, f)
        if new is not value:
            changed[name] = new
    return eqn.replace(params={**eqn.params, **changed}) if changed else eqn


def _mapped(value: Value, f: Callable[[Jaxpr], Jaxpr]) -> Any:
    if type(value) is ClosedJaxpr:
        new = f(value.jaxpr)
        return value if new is value.jaxpr else value.replace(jaxpr=new)
    if type(value) is tuple and any(type(v) is ClosedJaxpr for v in value):
        made = tuple([_mapped(v, f) for v in value])
        return value if made == value else made
    return value


def _is_mergeable(jaxpr: Jaxpr) -> bool:
    """Whether two calls of a jaxpr on the same operands may become one."""
    found: bool | None = jaxpr.cache.get(_is_mergeable)
    if found is None:
        found = jaxpr.cache[_is_mergeable] = all(
            eqn.primitive.mergeable and all(map(_is_mergeable, jaxprs_in_params(eqn.params)))
            for eqn in jaxpr.eqns
        )
    return found


# --- Constants ------------------------------------------------------------------------------------

_FOLDED = frozenset(
    np.dtype(name)
    for name in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        dtypes.bfloat16,
        "float32",
        "float64",
    )
)


def _fold(primitive: Primitive, literals: Sequence[Any], params: Params, dtype: DTypeLike) -> Any:
    """The scalar that a primitive makes of scalars; None if XLA might make another one of them."""
    with np.errstate(all="ignore"):
        arrays = [np.asarray(x.val, x.aval.dtype) for x in literals]
        if not all(map(_is_plain, arrays)):
            return None
        value = primitive.fold(*arrays, **params)
        if value is None:
            return None
        value = np.asarray(value, dtype)
    return value[()] if _is_plain(value) else None


def _is_plain(x: Any) -> bool:
    """Whether every processor agrees on a number: not on the bits of nan, nor on whether subnormal
    numbers are zero."""
    if x.dtype not in _FOLDED:
        return False
    if x.dtype.kind in "iub":
        return True
    return bool(x == 0 or abs(x) >= dtypes.finfo(x.dtype).tiny)


# --- Equal jaxprs ---------------------------------------------------------------------------------


def share(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with the jaxprs in it that are equal being one, the first: it is lowered as one
    function."""
    return _share(jaxpr, {})


def _share(jaxpr: Jaxpr, shared: dict[Structure, Jaxpr]) -> Jaxpr:
    def first(inner: Jaxpr) -> Jaxpr:
        key = structural_key(inner)
        found = shared.get(key)
        if found is None:
            found = shared[key] = _share(inner, shared)
        return found

    eqns = [map_jaxprs(eqn, first) if eqn.primitive.higher_order else eqn for eqn in jaxpr.eqns]
    return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)


def _rewriting(name: str, rule: Rule) -> Pass:
    return Pass(name, functools.partial(rewrite, rules=rule))


PASSES = (
    Pass(
        "rewrite",
        rewrite,
        (
            _rewriting("inline calls with rules of their own", Rule.INLINE),
            _rewriting("forward unchanged inputs", Rule.FORWARD),
            _rewriting("fold constants", Rule.FOLD),
            _rewriting("simplify", Rule.SIMPLIFY),
            _rewriting("merge common subexpressions", Rule.MERGE),
        ),
    ),
    Pass("remove dead code", remove_dead),
    Pass("share equal jaxprs", share),
)

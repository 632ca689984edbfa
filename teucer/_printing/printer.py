"""Jaxprs as text, in the field's notation.

`{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core import dialects
from teucer._core.names import stack_text
from teucer._xla import pretty as pp

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn, Jaxpr, Literal
    from teucer._core.typing import Atom


_WIDTH = 80
_LARGE = 10  # equations of a jaxpr that is written in place


class _Always:
    """Equal to everything: the parameter is never shown."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


_ALWAYS = _Always()
# Parameters that are left out of the text while they have these values; None also stands for a
# tuple of nothing but false values.
_QUIET: dict[str, dict[str, Any]] = {
    "jit": {
        "donated_invars": None,
        "keep_unused": False,
        "inline": False,
        "outline": None,
        "in_shardings": None,
        "out_shardings": None,
        "options": None,
        "backend": None,
    },
    "broadcast_in_dim": {"broadcast_dimensions": (), "shape": _ALWAYS, "sharding": _ALWAYS},
    "convert_element_type": {"sharding": None},
    "custom_jvp_call": dict(num_consts=_ALWAYS),
    "custom_vjp_call": dict(num_consts=_ALWAYS),
    "dot_general": {"precision": None, "out_sharding": _ALWAYS, "preferred_element_type": None},
    "reshard": {"concrete_mesh": _ALWAYS, "dst_sharding": _ALWAYS},
    "scan": {"linear": None, "split_transpose": False},
}
# Parameters that are shown under another name, or with another value.
_SHOWN_AS = {"fwd_jaxpr_thunk": "fwd"}
_SHOWN: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("dot_general", "dimension_numbers"): lambda pairs: tuple(
        tuple(list(axes) for axes in pair) for pair in pairs
    )
}
# Primitives whose name in the user's program is shown first.
_NAMED = ("jit", "custom_jvp_call", "custom_vjp_call")


def jaxpr_text(
    jaxpr: Jaxpr,
    *,
    source_info: bool = False,
    print_shapes: bool = True,
    name_stack: bool = False,
    width: int = _WIDTH,
    use_color: bool = False,
    custom_pp_eqn_rules: bool = True,
    print_effects: bool = False,
) -> str:
    """The text of a jaxpr. One that occurs in it several times is written once, before it: `let f =
    { lambda ... } in`."""
    printer = _Printer(source_info, print_shapes, name_stack, shared_jaxprs(jaxpr))
    definitions = [printer.definition(shared, name) for shared, name in printer.shared.items()]
    return pp.layout(pp.concat([*definitions, printer.jaxpr(jaxpr)]), width)


def eqn_text(eqn: Eqn) -> str:
    """The text of one equation."""
    return pp.layout(_Printer(False, True, False, {}).eqn(eqn, None), _WIDTH)


def shared_jaxprs(jaxpr: Jaxpr) -> dict[Jaxpr, str]:
    """The jaxprs that are written before `jaxpr`, with names: jaxprs that occur more than once in
    its equations, and large ones, in order of appearance."""
    times: dict[Jaxpr, int] = {}
    names: dict[Jaxpr, str] = {}

    def visit(outer: Jaxpr) -> None:
        for eqn in outer.eqns:
            for key, value in eqn.params.items():
                for inner in _jaxprs_of(value):
                    times[inner] = times.get(inner, 0) + 1
                    if times[inner] == 1:
                        names[inner] = (
                            eqn.params["name"]
                            if eqn.primitive.name in _NAMED and key == "jaxpr"
                            else "jaxpr"
                        )
                        visit(inner)

    visit(jaxpr)
    taken: dict[str, int] = {}
    shared = {}
    for inner in times:
        if times[inner] > 1 or len(inner.eqns) > _LARGE:
            name = names[inner].strip("<>")
            n = taken[name] = taken.get(name, -1) + 1
            shared[inner] = f"{name}{n}" if n else name
    return shared


def _jaxprs_of(value: Any) -> list[Jaxpr]:
    """The jaxprs that a parameter holds."""
    kind = type(value).__name__
    if kind == "ClosedJaxpr":
        return [value.jaxpr]
    if kind == "Jaxpr":
        return [value]
    return [inner for v in value for inner in _jaxprs_of(v)] if type(value) is tuple else []


def literal_text(literal: Literal) -> str:
    """A literal with its type, as in `2.0:f32[]`."""
    value = literal.val
    if type(value) in (float, complex) and not literal.aval.weak_type:  # as the dtype has it
        value = np.asarray(value, literal.aval.dtype)
    text = str(value.item() if isinstance(value, np.ndarray | np.generic) else value)
    return f"{text}:{literal.aval.str_short(short_dtypes=True)}"


class _Printer:
    def __init__(
        self, source_info: bool, print_shapes: bool, name_stack: bool, shared: dict[Jaxpr, str]
    ) -> None:
        self.source_info, self.shapes, self.name_stack, self.shared = (
            source_info,
            print_shapes,
            name_stack,
            shared,
        )
        taken = set(shared.values())
        self.names: dict[Any, str] = {}
        self.letters = filter(lambda name: name not in taken, map(_letters, itertools.count()))

    def name(self, v: Any) -> str:
        if type(v).__name__ == "Literal":
            return literal_text(v)
        name = self.names.get(v)
        if name is None:
            name = self.names[v] = next(self.letters)
        return name

    def binder(self, v: Atom, used: set[Atom] | None = None) -> str:
        return "".join(self._name_and_type(v, used))

    def _name_and_type(self, v: Atom, used: set[Atom] | None) -> tuple[str, str]:
        name = (
            "_"
            if type(v).__name__ == "DropVar" or (used is not None and v not in used)
            else self.name(v)
        )
        return name, f":{v.aval.str_short(short_dtypes=True)}" if self.shapes else ""

    def binders(self, vs: Sequence[Atom], used: set[Atom] | None = None) -> Any:
        return _filled([self._name_and_type(v, used) for v in vs])

    def definition(self, jaxpr: Jaxpr, name: str) -> Any:
        return pp.concat(
            [pp.text(f"let {name} = "), self.jaxpr(jaxpr), pp.text(" in"), pp.brk("\n")]
        )

    def jaxpr(self, jaxpr: Jaxpr) -> Any:
        constants = self.binders(jaxpr.constvars)
        arguments = self.binders(jaxpr.invars)
        head = pp.nest(4, pp.concat([constants, pp.text("; "), arguments, pp.text(". let")]))
        used = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v).__name__ == "Var"}
        used.update(v for v in jaxpr.outvars if type(v).__name__ == "Var")
        eqns = [self.eqn(eqn, used) for eqn in jaxpr.eqns]
        body = pp.join(pp.brk("; "), eqns)
        n = len(jaxpr.outvars)
        results = [
            (self.name(v) + ("," if i < n - 1 or n == 1 else ""), "")
            for i, v in enumerate(jaxpr.outvars)
        ]
        tail = pp.concat([pp.text("in ("), pp.nest(2, _filled(results)), pp.text(") }")])
        return pp.group(
            pp.concat(
                [
                    pp.text("{ lambda "),
                    head,
                    pp.nest(4, pp.concat([pp.brk(), body])),
                    pp.nest(2, pp.concat([pp.brk(), tail])),
                ]
            )
        )

    def eqn(self, eqn: Eqn, used: set[Atom] | None) -> Any:
        text = dialects.text.of(eqn.primitive)
        if text is not None:
            return pp.text(text(self, eqn, used))
        # The arguments and results of a called jaxpr that is written in place are named as at the
        # call.
        inner = eqn.params["jaxpr"].jaxpr if eqn.primitive.name == "jit" else None
        if inner is not None and inner in self.shared:
            inner = None
        if inner is not None:
            self._share_names(inner.invars, eqn.invars)
        left = [pp.nest(2, self.binders(eqn.outvars, used)), pp.text(" = ")] if eqn.outvars else []
        if inner is not None:
            self._share_names(
                [v if v not in inner.invars else None for v in inner.outvars], eqn.outvars
            )
        right = [pp.text(eqn.primitive.name, self.annotation(eqn)), self.params(eqn)]
        operands = [
            pp.group(pp.concat([pp.brk() if i else pp.text(" "), pp.text(self.name(v))]))
            for i, v in enumerate(eqn.invars)
        ]
        return pp.concat(
            [*left, *right, pp.nest(2, pp.concat(operands)) if operands else pp.text(" ")]
        )

    def annotation(self, eqn: Eqn) -> str | None:
        """The note beside an equation: its source line, and the name scopes that it is in."""
        notes = []
        if self.source_info:
            notes.append(eqn.where(""))
        if self.name_stack:
            notes.append(f"[{stack_text(eqn.source[1]) if eqn.source is not None else ''}]")
        return " ".join(filter(None, notes)) or None

    def _share_names(self, inner: Sequence[Atom | None], outer: Sequence[Atom]) -> None:
        """Name inner variables as outer ones, each name once."""
        given: set[Atom] = set()
        for v, w in zip(inner, outer, strict=True):
            if type(v).__name__ == type(w).__name__ == "Var" and w not in given:
                given.add(w)
                self.names.setdefault(v, self.name(w))

    def params(self, eqn: Eqn) -> Any:
        quiet = _QUIET.get(eqn.primitive.name, {})
        shown = [
            (_SHOWN_AS.get(k, k), _SHOWN.get((eqn.primitive.name, k), _as_is)(v))
            for k, v in eqn.params.items()
            if not (
                k in quiet
                and (v is None or quiet[k] == v or (quiet[k] is None and not any_true(v)))
            )
        ]
        shown.sort(
            key=lambda item: (not (item[0] == "name" and eqn.primitive.name in _NAMED), item[0])
        )
        if not shown:
            return pp.text("")
        items = [self.param(k, v) for k, v in shown]
        return pp.group(
            pp.concat(
                [
                    pp.text("["),
                    pp.nest(2, pp.concat([pp.brk(""), pp.join(pp.brk(), items)])),
                    pp.brk(""),
                    pp.text("]"),
                ]
            )
        )

    def param(self, key: str, value: object) -> Any:
        return pp.concat([pp.text(f"{key}="), self.value(value)])

    def value(self, value: Any) -> Any:
        kind = type(value).__name__
        if kind == "ClosedJaxpr":
            value, kind = value.jaxpr, "Jaxpr"
        if kind == "Jaxpr":
            return pp.text(self.shared[value]) if value in self.shared else self.jaxpr(value)
        if (
            isinstance(value, tuple)
            and value
            and type(value[0]).__name__ in ("Jaxpr", "ClosedJaxpr")
        ):
            inner = pp.join(pp.brk(), [self.value(v) for v in value])
            return pp.group(
                pp.concat(
                    [
                        pp.text("("),
                        pp.nest(2, pp.concat([pp.brk(""), inner])),
                        pp.brk(""),
                        pp.text(")"),
                    ]
                )
            )
        if isinstance(value, np.dtype):
            return pp.text(value.name)
        if callable(value) and hasattr(value, "__name__"):
            return pp.text(value.__name__)
        return pp.text(str(value))


def _filled(words: Sequence[tuple[str, str]]) -> Any:
    """Words with spaces between, as many in a line as fit; text attached to a word may exceed the
    line."""
    return pp.concat(
        [
            pp.concat(
                [
                    pp.group(pp.concat([pp.brk(), pp.text(word)])) if i else pp.text(word),
                    pp.text(behind),
                ]
            )
            for i, (word, behind) in enumerate(words)
        ]
    )


def _as_is(value: Any) -> Any:
    return value


def any_true(value: object) -> bool:
    """Whether any flag of a tuple of flags is set; for anything else, whether it is true."""
    return any(value) if isinstance(value, tuple) else bool(value)


def _letters(n: int) -> str:
    """a, b, ..., z, ba, bb, ...: the n-th variable's name."""
    text = ""
    while True:
        n, digit = divmod(n, 26)
        text = chr(97 + digit) + text
        if n == 0:
            return text

"""Jaxprs as text, in the field's notation: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import source
from teucer._xla import pretty as pp

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn, Jaxpr, Literal

__all__ = ["eqn_text", "jaxpr_text", "literal_text"]

_WIDTH = 80
# Parameters that are left out of the text while they have these values.
_QUIET: dict[str, dict[str, Any]] = {
    "jit": {"donated_invars": None, "keep_unused": False, "inline": False, "outline": None, "in_shardings": None,
            "out_shardings": None, "options": None, "backend": None},
    "dot_general": {"precision": None, "out_sharding": None, "preferred_element_type": None},
    "scan": {"linear": None, "split_transpose": False},
}


def jaxpr_text(jaxpr: Jaxpr, *, source_info: bool = False, print_shapes: bool = True, name_stack: bool = False,
               width: int = _WIDTH, use_color: bool = False, custom_pp_eqn_rules: bool = True,
               print_effects: bool = False) -> str:
    """The text of a jaxpr."""
    printer = _Printer(source_info, print_shapes, name_stack)
    return pp.layout(printer.jaxpr(jaxpr), width)


def eqn_text(eqn: Eqn) -> str:
    """The text of one equation."""
    return pp.layout(_Printer(False, True, False).eqn(eqn), _WIDTH)


def literal_text(literal: Literal) -> str:
    """A literal with its type, as in `2.0:f32[]`."""
    value = literal.val
    text = str(value.item() if isinstance(value, np.ndarray | np.generic) else value)
    return f"{text}:{literal.aval.str_short(short_dtypes=True)}"


class _Printer:
    def __init__(self, source_info: bool, print_shapes: bool, name_stack: bool) -> None:
        self.source_info, self.shapes, self.name_stack = source_info, print_shapes, name_stack
        self.names: dict[Any, str] = {}
        self.count = 0

    def name(self, v: Any) -> str:
        if type(v).__name__ == "Literal":
            return literal_text(v)
        if type(v).__name__ == "DropVar":
            return "_"
        name = self.names.get(v)
        if name is None:
            name = self.names[v] = _letters(self.count)
            self.count += 1
        return name

    def binder(self, v: Any) -> str:
        return f"{self.name(v)}:{v.aval.str_short(short_dtypes=True)}" if self.shapes else self.name(v)

    def binders(self, vs: Any) -> Any:
        return pp.join(pp.text(" "), [pp.text(self.binder(v)) for v in vs])

    def jaxpr(self, jaxpr: Any) -> Any:
        head = [pp.text("{ "), pp.text("lambda ")]
        constants = self.binders(jaxpr.constvars)
        arguments = self.binders(jaxpr.invars)
        head += [constants, pp.text("; "), arguments, pp.text(". ")]
        eqns = [self.eqn(eqn) for eqn in jaxpr.eqns]
        body = pp.join(pp.brk("; "), eqns)
        results = ", ".join(map(self.name, jaxpr.outvars))
        tail = pp.text(f"in ({results}{',' if len(jaxpr.outvars) == 1 else ''}) }}")
        return pp.group(pp.concat([*head, pp.text("let"), pp.nest(4, pp.concat([pp.brk(), body])),
                                   pp.nest(2, pp.concat([pp.brk(), tail]))]))

    def eqn(self, eqn: Any) -> Any:
        left = self.binders(eqn.outvars)
        if eqn.primitive.name == "jit":
            self._share_names(eqn)
        right = [pp.text(eqn.primitive.name), self.params(eqn)]
        right += [pp.text(" "), pp.join(pp.text(" "), [pp.text(self.name(v)) for v in eqn.invars])]
        doc = [left, pp.text(" = ") if eqn.outvars else pp.text("= "), *right]
        if self.source_info and eqn.source is not None and eqn.source[0] is not None:
            doc.append(pp.text(f"  # {source.describe(eqn.source[0])}"))
        return pp.concat(doc)

    def _share_names(self, eqn: Any) -> None:
        """The arguments and results of a called jaxpr are named as at the call, where they have names."""
        inner = eqn.params["jaxpr"].jaxpr
        for v, result in zip(inner.outvars, eqn.outvars, strict=True):
            if type(v).__name__ == type(result).__name__ == "Var" and v not in inner.invars:
                self.names.setdefault(v, self.name(result))
        for v, operand in zip(inner.invars, eqn.invars, strict=True):
            if type(operand).__name__ == "Var":
                self.names.setdefault(v, self.name(operand))

    def params(self, eqn: Any) -> Any:
        quiet = _QUIET.get(eqn.primitive.name, {})
        first = ("name",) if eqn.primitive.name in ("jit", "custom_jvp_call", "custom_vjp_call") else ()
        shown = [(k, v) for k, v in sorted(eqn.params.items(), key=lambda item: (item[0] not in first, item[0]))
                 if not (k in quiet and (v is None or v == quiet[k] or (quiet[k] is None and not any_true(v))))]
        if not shown:
            return pp.text("")
        items = [self.param(k, v) for k, v in shown]
        return pp.group(pp.concat([pp.text("["), pp.nest(2, pp.concat([pp.brk(""), pp.join(pp.brk(), items)])),
                                   pp.brk(""), pp.text("]")]))

    def param(self, key: str, value: Any) -> Any:
        return pp.concat([pp.text(f"{key}="), self.value(value)])

    def value(self, value: Any) -> Any:
        kind = type(value).__name__
        if kind == "ClosedJaxpr":
            return self.jaxpr(value.jaxpr)
        if kind == "Jaxpr":
            return self.jaxpr(value)
        if isinstance(value, tuple) and value and type(value[0]).__name__ in ("Jaxpr", "ClosedJaxpr"):
            inner = pp.join(pp.brk(), [self.value(v) for v in value])
            return pp.concat([pp.text("("), pp.nest(2, pp.concat([pp.brk(""), inner])), pp.brk(""), pp.text(")")])
        if isinstance(value, np.dtype):
            return pp.text(value.name)
        if callable(value) and hasattr(value, "__name__"):
            return pp.text(value.__name__)
        return pp.text(str(value))


def any_true(value: Any) -> bool:
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

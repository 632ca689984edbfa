"""The table of Triton's rules, and the loop that writes a jaxpr by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Literal
from teucer._core.stage import stage_flat
from teucer._core.types import ShapedArray
from teucer._derived.rules_table import Rules
from teucer._pallas.triton.text import Refused, Value, Writer

# A rule is (writer, equation, *operands) -> results. Operands are values, and pointers where the
# equation has references.
Rule = Callable[..., Sequence[Any]]
TRITON: Rules[Rule] = Rules("Triton")

# Remedies, by the name of a primitive that has no rule.
REMEDIES = {
    "gather": "Index the reference, ref[places], which reads the elements from memory.",
    "scatter": "Write to the reference, ref[places] = values.",
    "scatter-add": (
        "Add to memory: ref.addupdate(values, places), or plgpu.atomic_add(ref, places, values)."
    ),
    "sort": "Sort outside of the kernel: jnp.sort.",
    "top_k": (
        "Take the largest again and again by jnp.argmax, or call jax.lax.top_k outside of the "
        "kernel."
    ),
    "debug_callback": (
        "Print by pl.debug_print, or interpret the kernel: pallas_call(..., interpret=True)."
    ),
    "pallas_call": "Call the inner kernel's function, or make one kernel of both.",
    "complex": "Compute with the real and the imaginary part as two arrays.",
}
_DEFAULT = (
    "Compute it outside of the kernel, or interpret the kernel: pallas_call(..., interpret=True)."
)


def run(w: Writer, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Write a jaxpr; gives its results. Raises Refused, with the line, for operations that Triton
    lacks."""
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for v, c in zip(jaxpr.constvars, closed.consts, strict=True):
        known[v] = _constant(w, c)

    def value(atom: Any) -> Any:
        return _constant(w, atom.val, atom.aval) if type(atom) is Literal else known[atom]

    before = w.used
    used = w.used = {
        *jaxpr.outvars,
        *(v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal),
    }
    for eqn in jaxpr.eqns:
        try:
            rule = TRITON.get(eqn.primitive)
            if rule is None or _moves_keys(eqn):
                refusal(eqn)
            outs = rule(w, eqn, *map(value, eqn.invars))  # type: ignore[misc]
        except Refused as err:
            raise at_line(err, eqn) from None
        w.used = used
        known.update(zip(eqn.outvars, outs, strict=True))
    w.used = before
    return [value(v) for v in jaxpr.outvars]


def _moves_keys(eqn: Eqn) -> bool:
    """Whether the equation is of structure, on arrays of random keys, which are their words
    here."""
    keys = any(isinstance(v.aval.dtype, dtypes.ExtendedDType) for v in (*eqn.invars, *eqn.outvars))
    return keys and not eqn.primitive.higher_order and not str(eqn.primitive).startswith("random_")


def refusal(eqn: Eqn) -> None:
    """Raise the error of an equation without a rule."""
    name = str(eqn.primitive)
    raise Refused(f"Triton has no rule for {name}", REMEDIES.get(name, _DEFAULT))


def at_line(err: Refused, eqn: Eqn) -> Refused:
    """The error with the equation and the line that it comes from, if it has none yet."""
    if "\n    at " in err.what or not eqn.where():
        return err
    outs = ", ".join(v.aval.str_short(True) for v in eqn.outvars)
    return Refused(
        f"{err.what}\n    primitive: {eqn.primitive}{f' -> {outs}' if outs else ''}"
        + eqn.where("\n    at "),
        err.remedy,
    )


def _constant(w: Writer, value: Any, aval: ShapedArray | None = None) -> Value:
    dtype = np.asarray(value).dtype if aval is None else aval.dtype
    if isinstance(dtype, dtypes.ExtendedDType):
        raise Refused(
            "a random key that the kernel closes over",
            "Pass it as words: jax.random.key_data(key).",
        )
    array = np.asarray(value, dtype)
    if array.size and (array == array.flat[0]).all():
        return w.constant(array.flat[0], dtype, array.shape)
    return _dense(w, array)


def _dense(w: Writer, array: Any) -> Value:
    """An array of different numbers: arithmetic progressions only, as Triton has no arrays of
    constants."""
    if array.ndim == 1 and array.dtype.kind in "iu" and array.size > 1:
        step = int(array[1]) - int(array[0])
        if (np.diff(array.astype(np.int64)) == step).all():
            places = w.add(
                w.times(w.places(array.shape, 0), step),
                w.constant(int(array[0]), np.int32, array.shape),
            )
            return _as_dtype(w, places, array.dtype)
    raise Refused(
        f"an array of constants, {array.dtype}{list(array.shape)}",
        "Pass it to the kernel as an argument.",
    )


def _as_dtype(w: Writer, x: Value, dtype: Any) -> Value:
    from_32 = {8: "arith.trunci", 16: "arith.trunci", 64: "arith.extsi"}.get(dtype.itemsize * 8)
    if from_32 is None:
        return Value(x.name, dtype, x.shape, x.bounds)
    out = Value("", dtype, x.shape)
    return w.make(f"{from_32} {x.name} : {x.type} to {out.type}", dtype, x.shape, x.bounds)


def by_program(f: Callable[..., Any]) -> Rule:
    """The rule of a primitive by a function of arrays: (equation, *arrays) -> results."""

    def rule(w: Writer, eqn: Eqn, *operands: Any) -> Sequence[Any]:
        avals = [ShapedArray(x.shape, x.dtype) for x in operands]
        jaxpr, consts = stage_flat(lambda *xs: list(f(eqn, *xs)), avals)
        return run(w, ClosedJaxpr(jaxpr, consts), operands)

    return rule

"""The table of Mosaic's rules, and the loop that writes a jaxpr by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Literal
from teucer._core.stage import stage_flat
from teucer._core.types import ShapedArray
from teucer._derived.rules_table import Rules
from teucer._pallas.mosaic.text import Refused, Value, Writer
from teucer._pallas.triton.table import at_line

# A rule is (writer, equation, *operands) -> results. Operands are values, and Refs where the
# equation has references.
Rule = Callable[..., Sequence[Any]]
MOSAIC: Rules[Rule] = Rules("Mosaic")

# What to do instead, by the name of a primitive that has no rule.
REMEDIES = {
    "gather": "Take elements along an axis, jnp.take_along_axis, or rows by ref[pl.ds(i, n)].",
    "scatter": "Write to the reference, ref[pl.ds(i, n)] = values.",
    "scatter-add": "Add to the reference in a loop, ref[pl.ds(i, n)] += values.",
    "sort": "Sort outside of the kernel: jnp.sort.",
    "top_k": "Take the largest again and again by jnp.argmax, or call jax.lax.top_k outside.",
    "debug_callback": (
        "Print by pl.debug_print, or interpret the kernel: pallas_call(..., interpret=True)."
    ),
    "pallas_call": "Call the inner kernel's function, or make one kernel of both.",
    "complex": "Compute with the real and the imaginary part as two arrays.",
    "conv_general_dilated": "Write it as products of shifted parts: jnp.dot(ref[pl.ds(i, n)], w).",
}
_DEFAULT = (
    "Compute it outside of the kernel, or interpret the kernel: pallas_call(..., interpret=True)."
)


def run(w: Writer, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Write a jaxpr; gives its results. Raises Refused, with the line, for what Mosaic lacks."""
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for v, c in zip(jaxpr.constvars, closed.consts, strict=True):
        known[v] = constant(w, c)

    def value(atom: Any) -> Any:
        return constant(w, atom.val, atom.aval) if type(atom) is Literal else known[atom]

    before, place = w.used, w.where
    used = w.used = {
        *jaxpr.outvars,
        *(v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal),
    }
    for eqn in jaxpr.eqns:
        w.where = w.at(eqn)
        try:
            rule = MOSAIC.get(eqn.primitive)
            if rule is None:
                refusal(eqn)
            outs = rule(w, eqn, *map(value, eqn.invars))  # type: ignore[misc]
        except Refused as err:
            raise at_line(err, eqn) from None
        w.used = used
        known.update(zip(eqn.outvars, outs, strict=True))
    w.used, w.where = before, place
    return [value(v) for v in jaxpr.outvars]


def refusal(eqn: Eqn) -> None:
    """Raise the error of an equation without a rule."""
    name = str(eqn.primitive)
    raise Refused(f"Mosaic has no rule for {name}", REMEDIES.get(name, _DEFAULT))


def constant(w: Writer, value: Any, aval: ShapedArray | None = None) -> Value:
    """A value that is known. Arrays are of one number, or sums of multiples of places."""
    dtype = np.asarray(value).dtype if aval is None else aval.dtype
    if isinstance(dtype, dtypes.ExtendedDType):
        raise Refused(
            "a random key that the kernel closes over",
            "Pass it as words: jax.random.key_data(key).",
        )
    array = np.asarray(value, dtype)
    if (array.size and (array == array.flat[0]).all()) or array.size == 1:
        return w.constant(array.flat[0], dtype, array.shape)
    return _dense(w, array)


def _dense(w: Writer, array: Any) -> Value:
    """An array of different integers that is a sum of multiples of places: ranges, and their
    sums."""
    if array.dtype.kind in "iu" and array.size:
        wide = array.astype(np.int64)
        first = int(wide.flat[0])
        grid = np.indices(array.shape, dtype=np.int64)
        steps = [
            int(np.take(wide, 1, axis).flat[0]) - first if n > 1 else 0
            for axis, n in enumerate(array.shape)
        ]
        if (first + sum(s * g for s, g in zip(steps, grid, strict=True)) == wide).all():
            out = w.constant(first, np.int32, array.shape)
            for axis, s in enumerate(steps):
                if s:
                    out = w.add(out, w.times(w.places(array.shape, axis), s))
            return w.convert(out, array.dtype)
    raise Refused(
        f"an array of constants, {array.dtype}{list(array.shape)}",
        "Pass it to the kernel as an argument.",
    )


def by_program(f: Callable[..., Any]) -> Rule:
    """The rule of a primitive that does what a function of arrays does: (equation, *arrays) ->
    results."""

    def rule(w: Writer, eqn: Eqn, *operands: Any) -> Sequence[Any]:
        avals = [ShapedArray(x.shape, x.dtype) for x in operands]
        jaxpr, consts = stage_flat(lambda *xs: list(f(eqn, *xs)), avals)
        return run(w, ClosedJaxpr(jaxpr, consts), operands)

    return rule

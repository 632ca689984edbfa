"""Which operation of a program makes the first NaN or infinity.

The program run again, operation by operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from teucer._base import config, dtypes, source
from teucer._core import array_ops, structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Literal, interpret
from teucer._core.stage import stage_jaxpr
from teucer._core.types import ShapedArray
from teucer._devices.specs import PartitionSpec

if TYPE_CHECKING:
    from teucer._core.typing import Array, Value


def blame(closed: ClosedJaxpr, args: Sequence[Array]) -> None:
    """Raise FloatingPointError with the operation, its line and its operands; return if all results
    are good this time."""
    _Search(config.debug_nans.value, config.debug_infs.value).walk(closed, args, "")


class _Search:
    """Runs jaxprs with the options switched off, and looks at every result itself."""

    def __init__(self, nans: bool, infs: bool) -> None:
        self.nans, self.infs = nans, infs

    def fault(self, values: Sequence[Array]) -> str | None:
        """The fault of the first faulty value: 'nan' or 'inf'."""
        for value in values:
            if not dtypes.issubdtype(value.dtype, np.inexact):
                continue
            x = np.asarray(value).astype(np.complex128 if value.dtype.kind == "c" else np.float64)
            if self.nans and np.isnan(x).any():
                return "nan"
            if self.infs and np.isinf(x).any():
                return "inf"
        return None

    def walk(self, closed: ClosedJaxpr, args: Sequence[Any], where: str) -> list[Any]:
        """The results of a jaxpr; raises at the first equation whose results are bad. where: the
        loops around it."""

        def handle(eqn: Eqn, operands: tuple[Any, ...]) -> Any:
            with config.debug_nans(False), config.debug_infs(False):
                outs = eqn.primitive.call(*operands, **eqn.params)
            fault = self.fault(outs)
            if fault is not None:
                self.look_inside(eqn, operands, where)
                self.refuse(eqn, operands, fault, where)
            return outs

        return interpret(closed, args, handle)

    def refuse(self, eqn: Eqn, operands: Sequence[Value], fault: str, where: str) -> NoReturn:
        at = eqn.where()
        here = at.replace(" at ", "    called from ", 1)  # as errors of library functions say it
        said = dict.fromkeys(
            line for line in (source.callers(eqn.place) + where).split("\n")[1:] if line != here
        )
        lines = [f"invalid value ({fault}) encountered in {eqn.primitive}{at}", *said]
        lines += [f"    result: {v.aval.str_short(short_dtypes=True)}" for v in eqn.outvars]
        for i, x in enumerate(operands):
            shown = (
                np.array2string(np.asarray(x), threshold=8, edgeitems=3)
                if not _is_key(x)
                else "keys"
            )
            lines.append(
                f"    operand {i}: {eqn.invars[i].aval.str_short(short_dtypes=True)} = {shown}"
            )
        raise FloatingPointError("\n".join(lines))

    def look_inside(self, eqn: Eqn, operands: Sequence[Array], where: str) -> None:
        """Find the equation that is to blame within one that carries jaxprs, and let it raise."""
        match structure.of(eqn, operands) or structure.presumed(eqn, operands):
            case structure.Call(body):
                around = eqn.where("\n    called from ") + source.callers(eqn.place) + where
                self.walk(body, operands, around)
            case structure.Mapped():
                self.mapped(eqn, operands, where)
            case structure.Branch() as branch:
                self.walk(branch.chosen(int(branch.index)), branch.operands, where)
            case structure.Loop() as loop:
                around = eqn.where() + where

                def step(i: int, body: ClosedJaxpr, args: Sequence[Array]) -> list[Any]:
                    return self.step(body, args, f"\n    in {loop.step(i)}{around}")

                loop.run(step, lambda x, i: x[i], lambda going: bool(np.asarray(going).any()))

    def mapped(self, eqn: Eqn, operands: Sequence[Array], where: str) -> None:
        for inner, given, outs in mapped_values(eqn, operands):
            fault = self.fault(outs)
            if fault is not None:
                self.refuse(
                    inner, given, fault, f"\n    on a device of a shard_map{eqn.where()}{where}"
                )

    def step(self, closed: ClosedJaxpr, args: Sequence[Array], where: str) -> list[Any]:
        """A step of a loop: as a whole, and again by operations if its result is bad."""
        with config.debug_nans(False), config.debug_infs(False):
            outs = closed(*args)
        if self.fault(outs) is not None:
            self.walk(closed, args, where)
        return list(outs)


def mapped_values(
    eqn: Eqn, operands: Sequence[Array]
) -> Iterator[tuple[Eqn, list[Any], list[Any]]]:
    """The equations within a `shard_map`, each with its operands and results. Values of all devices
    are stacked along a leading axis."""
    params = eqn.params
    closed, mesh, manual = params["jaxpr"], params["mesh"], params["newly_manual_axes"]
    shown = [v for inner in closed.eqns for v in inner.outvars if _is_shown(v.aval)]
    found = list(dict.fromkeys([v for v in closed.jaxpr.invars if _is_shown(v.aval)] + shown))
    program = ClosedJaxpr(closed.jaxpr.replace(outvars=found), closed.consts)

    def stacked(*xs: Array) -> list[Any]:
        return [array_ops.reshape(y, (1, *np.shape(y))) for y in program(*xs)]

    with eqn.primitive.within(params):
        every = stage_jaxpr(stacked, closed.in_avals)
    over = [
        [n for n in mesh.axis_names if n in manual and (n in v.aval.vma or not params["check_vma"])]
        for v in found
    ]
    specs = tuple(PartitionSpec(tuple(names)) for names in over)
    with config.debug_nans(False), config.debug_infs(False):
        outs = eqn.primitive.call(*operands, **{**params, "jaxpr": every, "out_specs": specs})
    values = dict(zip(found, outs, strict=True))
    for inner in closed.eqns:
        given = [
            v.val if type(v) is Literal else values[v]
            for v in inner.invars
            if type(v) is Literal or v in values
        ]
        yield inner, given, [values[v] for v in inner.outvars if v in values]


def _is_shown(aval: ShapedArray) -> bool:
    return (
        type(aval) is ShapedArray
        and not isinstance(aval.dtype, dtypes.ExtendedDType)
        and not aval.unreduced
    )


def _is_key(x: Any) -> bool:
    return isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType)

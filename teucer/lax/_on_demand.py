"""Functions provided to the layers below. Their modules are loaded on first use, so that `import
teucer` stays fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from teucer._core.provided import Loops, Printing, provided

if TYPE_CHECKING:
    from teucer._core.jaxpr import ClosedJaxpr, Jaxpr
    from teucer._core.primitive import Primitive
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike, Value
    from teucer._devices.shardings import NamedSharding
    from teucer._programs.job import Job
    from teucer._programs.program import Program
    from teucer._transform.reverse import Pullback

__all__: list[str] = []


def _loops() -> Loops:
    # For programs in which outlining finds loops.
    from teucer.lax._control.scan import scan_p
    from teucer.lax._joining import stack_p, unstack_p
    from teucer.lax._slicing import slice_p

    return Loops(scan_p, stack_p, unstack_p, slice_p)


def _on_parts(*given: Any) -> Any:
    # For programs with parts of sums over mesh axes.
    from teucer._dialects.meshes.manual import on_parts

    return on_parts(*given)


def _lower_keys(*given: Any) -> Any:
    # For programs on typed keys.
    from teucer._dialects.keys.lowering import lower_by_batching

    return lower_by_batching(*given)


def _on_arrays() -> ModuleType:
    # For programs on references and high types.
    from teucer._derived import jit_references as programs

    return programs


def _call_sized(*given: Any) -> Any:
    # For dynamic sizes.
    from teucer._derived.jit_sized import call_sized

    return call_sized(*given)


def _in_pieces(job: Job) -> Program | None:
    # For programs that call large functions again and again.
    from teucer._derived.compile_pieces import in_pieces

    return in_pieces(job)


def _printing() -> Printing:
    # For jaxprs that are shown.
    from teucer._printing.pictures import notebook
    from teucer._printing.printer import eqn_text, jaxpr_text

    return Printing(jaxpr_text, eqn_text, notebook)


def _check_jaxpr(jaxpr: Jaxpr) -> None:
    # For programs that are checked.
    from teucer._optimize.checker import check_jaxpr

    check_jaxpr(jaxpr)


def _lay_out(x: ArrayLike, sharding: object) -> Any:
    # For programs over meshes; also below.
    from teucer.lax._sharding import lay_out

    return lay_out(x, sharding)


def _vary(x: ArrayLike, axes: frozenset[str]) -> Any:
    from teucer.lax._collectives.varying import cast

    return cast(x, axes, "varying")


def _reduce_cotangents(x: ArrayLike, sharding: NamedSharding) -> Any:
    from teucer.lax._sharding import reduce_cotangents

    return reduce_cotangents(x, sharding)


def _blame(closed: ClosedJaxpr, args: Sequence[Array]) -> None:
    # For programs that have failed.
    from teucer.lax._blame import blame

    blame(closed, args)


def _on_basis(f: Callable[[Value], Sequence[Value]], aval: ShapedArray) -> Any:
    # Loaded with the first Jacobian.
    from teucer.lax._diagonals import on_basis

    return on_basis(f, aval)


def _pull(
    jaxpr: Jaxpr,
    residuals: Sequence[Value],
    cts: Sequence[Value],
    wanted: Sequence[bool] | None = None,
) -> list[Any]:
    # For eager derivatives.
    from teucer._derived.linear_programs import pull

    return pull(jaxpr, residuals, cts, wanted)


def _pull_with_logs(pullback: Pullback, ct: Value) -> tuple[Any, dict[Any, Any]]:
    # For rules that log.
    from teucer._derived.logs import pull_with_logs

    return pull_with_logs(pullback, ct)


def _by_budget(*given: Any) -> Any:
    # For gradients with a budget of memory, and programs with one.
    from teucer._derived.budget.programs import by_budget

    return by_budget(*given)


def _within_memory(*given: Any) -> Any:
    from teucer._derived.budget.programs import within_memory

    return within_memory(*given)


def _member(primitive: Primitive, name: str) -> Any:
    # For interpreters of jaxprs written for JAX.
    from teucer._derived.members import member

    return member(primitive, name)


provided.fill(
    loops=_loops,
    on_parts=_on_parts,
    lower_keys=_lower_keys,
    on_arrays=_on_arrays,
    call_sized=_call_sized,
    in_pieces=_in_pieces,
    printing=_printing,
    check_jaxpr=_check_jaxpr,
    on_basis=_on_basis,
    lay_out=_lay_out,
    vary=_vary,
    reduce_cotangents=_reduce_cotangents,
    blame=_blame,
    member=_member,
    by_budget=_by_budget,
    within_memory=_within_memory,
    pull=_pull,
    pull_with_logs=_pull_with_logs,
)

"""Partial evaluation for libraries.

Functions of flat values as jaxprs, and jaxprs without dead code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._core.jaxpr import Eqn, Jaxpr
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_flat
from teucer._core.trace import current_trace, typeof, using
from teucer._jax.linear_util import WrappedFun
from teucer._jax.primitive import Rule, Rules
from teucer._optimize import dce
from teucer._transform.partial import PartialTrace

if TYPE_CHECKING:
    from teucer._core.debug_info import DebugInfo
    from teucer._core.types import ShapedArray


class PartialVal(tuple[Any, Any]):
    """A value that may be unknown: the pair (None, value), or (type, None) for an unknown one.

    >>> PartialVal.known(3.).is_known(), PartialVal.unknown(typeof(3.)).get_aval()
    (True, ShapedArray(float32[], weak_type=True))
    """

    __slots__ = ()

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A value that is known."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """An unknown value of a known type."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value; None if it is not known."""
        return self[1]

    def get_aval(self) -> Any:
        """The type."""
        return typeof(self[1]) if self.is_known() else self[0]


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], tuple[Any, ...]]:
    """Run a function of flat values: operations on known values are computed, the rest is recorded.

    instantiate: results that count as unknown even if they are known. Returns (jaxpr, results,
    constants): the jaxpr takes the unknown arguments and gives the unknown results.

    >>> from teucer.extend.linear_util import wrap_init
    >>> pvals = [PartialVal.known(2.), PartialVal.unknown(typeof(3.))]
    >>> jaxpr, outs, consts = trace_to_jaxpr_nounits(wrap_init(lambda x, y: [x + 1, 3 * y]), pvals)
    >>> outs, [str(eqn.primitive) for eqn in jaxpr.eqns]
    ([(None, 3.0), (ShapedArray(float32[], weak_type=True), None)], ['mul'])
    """
    trace = PartialTrace(current_trace(), fun.debug_info)
    args = [p.get_known() if p.is_known() else trace.new_arg(p.get_aval()) for p in pvals]
    with using(trace):
        outs = list(fun.call_wrapped(*args))
    wanted = [instantiate] * len(outs) if isinstance(instantiate, bool) else instantiate
    unknown = [trace.is_unknown(y) or w for y, w in zip(outs, wanted, strict=True)]
    found = [
        PartialVal.unknown(typeof(y)) if u else PartialVal.known(y)
        for y, u in zip(outs, unknown, strict=True)
    ]
    jaxpr, consts = trace.close(dce.filtered(outs, unknown))
    return jaxpr, found, tuple(consts)


def trace_to_jaxpr_dynamic(
    fun: WrappedFun,
    in_avals: Sequence[Any],
    *,
    keep_inputs: Sequence[bool] | None = None,
    lower: bool = False,
    auto_dce: bool = False,
) -> tuple[Jaxpr, list[Any], list[Any]]:
    """Record a function of flat values on arguments of the given types: (jaxpr, types of the
    results, constants).

    keep_inputs: which arguments the jaxpr takes. auto_dce: leave out dead code. lower: accepted for
    programs written for JAX.

    >>> from teucer.extend.linear_util import wrap_init
    >>> trace_to_jaxpr_dynamic(wrap_init(lambda x: [2 * x]), [typeof(3.)])[0]
    { lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) }
    """
    jaxpr, consts = stage_flat(fun.call_wrapped, in_avals, fun.debug_info)
    if auto_dce:
        jaxpr = dce.remove_dead(jaxpr)
    if keep_inputs is not None:
        jaxpr = jaxpr.replace(invars=dce.filtered(jaxpr.invars, keep_inputs))
    return jaxpr, jaxpr.out_avals, consts


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr that computes only the outputs marked, and which of its inputs it takes: those
    used.

    instantiate: inputs that it takes even if it does not use them.

    >>> import teucer as jax
    >>> jaxpr = jax.make_jaxpr(lambda x, y: (2 * x, 3 * y))(1., 2.).jaxpr
    >>> dce_jaxpr(jaxpr, [True, False])
    ({ lambda ; a:f32[]. let b:f32[] = mul 2.0:f32[] a in (b,) }, [True, False])
    """
    live, used = dce.dce_jaxpr(jaxpr, used_outputs)
    kept = [instantiate] * len(used) if isinstance(instantiate, bool) else instantiate
    taken = [u or k for u, k in zip(used, kept, strict=True)]
    return live.replace(invars=dce.filtered(jaxpr.invars, taken)), taken


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """As `dce_jaxpr`, which also leaves out constants that are not used: (jaxpr, used constants,
    inputs that it takes)."""
    live, taken = dce_jaxpr(jaxpr, used_outputs, instantiate)
    read = {v for eqn in live.eqns for v in eqn.invars} | set(live.outvars)
    used = [v in read for v in live.constvars]
    return live.replace(constvars=dce.filtered(live.constvars, used)), used, taken


def abstract_eval_fun(
    fun: Callable[..., Any], *avals: Any, debug_info: DebugInfo, **params: object
) -> list[Any]:
    """The types of the results of a function of flat values on arguments of the given types.

    params: what it takes by keyword.

    >>> import teucer as jax
    >>> info = jax.api_util.debug_info("abstract_eval_fun", max, (), {})
    >>> abstract_eval_fun(lambda x, *, k: [k * x], typeof(3.), debug_info=info, k=2)
    [ShapedArray(float32[], weak_type=True)]
    """
    jaxpr, _ = stage_flat(lambda *xs: fun(*xs, **params), avals, debug_info)
    return list(jaxpr.out_avals)


def _install_dce(primitive: Primitive, rule: Rule) -> Rule:
    def dce_rule(eqn: Eqn, used: list[bool]) -> Eqn:
        found = rule(used, eqn)[1]
        return eqn if found is None else found

    return dce_rule


def _derive_dce(primitive: Primitive, method: Rule) -> Rule:
    def rule(used_outputs: list[bool], eqn: Eqn) -> tuple[list[bool], Eqn | None]:
        if not any(used_outputs) and not eqn.effects:
            return [False] * len(eqn.invars), None
        live = method(eqn, used_outputs)
        taken = list(live.invars)
        return [any(v is w for w in taken) for v in eqn.invars], live

    return rule


# rule(used outputs, equation) -> (used inputs, the equation without what is dead, or None).
dce_rules = Rules("dce", _install_dce, _derive_dce)

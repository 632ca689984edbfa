"""Lowerings of primitives: `register_lowering`, and lowerings by functions of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.references import types as references
from teucer._core.stage import stage_flat
from teucer._devices.backends import platforms_called
from teucer._lower.context import Context as LoweringRuleContext
from teucer._lower.context import Value
from teucer._optimize.discharge import discharged
from teucer.interpreters._primitive import as_tuple
from teucer.lax._attributes import attribute as ir_attribute

__all__ = ["LoweringRule", "LoweringRuleContext", "Value", "ir", "ir_attribute", "lower_fun", "register_lowering"]  # noqa: F822  # `ir` is given by __getattr__

LoweringRule = Callable[..., Sequence[Value]]
# Rules by primitive and platform; None is every platform that has no rule of its own.
_rules: dict[Primitive, dict[str | None, LoweringRule]] = {}


def register_lowering(prim: Primitive, rule: LoweringRule, platform: str | None = None, inline: bool = True,
                      cacheable: bool = True) -> LoweringRule:
    """Register rule(context, *values, **params) -> values, which writes StableHLO for calls of a primitive.

    platform: 'cpu', 'cuda', 'rocm', 'tpu', or 'gpu' for both kinds of GPU; by default all that have no rule of their own.
    inline, cacheable: accepted for programs written for JAX; rules are always written where the call stands.

    >>> import teucer as jax
    >>> from teucer.extend.core import Primitive
    >>> p = Primitive("twice")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = register_lowering(p, lower_fun(lambda x: 2 * x, multiple_results=False))
    >>> jax.jit(p.bind)(3.)
    Array(6., dtype=float32, weak_type=True)
    """
    names = (None,) if platform is None else platforms_called(platform)
    if not set(names) <= {None, *_PLATFORMS}:
        raise NotImplementedError(f"Registering an MLIR lowering rule for primitive {prim} for an unknown platform {platform}. "
                                  f"Known platforms are: {', '.join(_PLATFORMS)}.")
    table = _rules.setdefault(prim, {})
    for name in names:
        table[name] = rule
    own = type(prim).lower

    def lower(ctx: Any, *values: Any, **params: Any) -> tuple[Any, ...]:
        chosen = table.get(ctx.platform, table.get(None))
        if chosen is None:
            return tuple(own(prim, ctx, *values, **params))
        expected = tuple(ctx.avals_out)
        outs = as_tuple(chosen(ctx, *values, **params))
        _check(prim, expected, outs)
        return outs

    vars(prim)["lower"] = lower
    return rule


_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def _check(prim: Primitive, expected: Sequence[Any], outs: Sequence[Any]) -> None:
    found = [v.aval for v in outs]
    if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in expected]:
        raise ValueError(f"{prim}: the lowering gives other types than the abstract evaluation.\n"
                         f"    abstract evaluation: {[a.str_short(True) for a in expected]}\n"
                         f"    lowering: {[a.str_short(True) for a in found]}")


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """The lowering rule that traces fun(*arrays, **params) and writes what it does.

    multiple_results: whether `fun` returns a sequence of arrays; otherwise one array.
    """
    def rule(ctx: LoweringRuleContext, *values: Value, **params: Any) -> tuple[Value, ...]:
        def flat(*arrays: Any) -> tuple[Any, ...]:
            outs = fun(*arrays, **params)
            return tuple(outs) if multiple_results else (outs,)
        if not references.made:
            return ctx.trace(flat, *values)
        jaxpr, consts = stage_flat(flat, [v.aval for v in values])
        return ctx.inline(discharged(ClosedJaxpr(jaxpr, consts)).jaxpr, *values)
    return rule


def __getattr__(name: str) -> Any:
    if name == "ir":  # jaxlib's bindings of MLIR, which take 0.15 s to load
        from teucer._xla import mlir
        return mlir.ir
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

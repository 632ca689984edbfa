"""Differentiation rules of primitives.

`primitive_jvps`, `primitive_transposes`, and ways to write them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._core.array_ops import add_cotangents as add_tangents
from teucer._core.array_ops import instantiate
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._jax.primitive import Rules, as_tuple

if TYPE_CHECKING:
    from teucer._core.typing import Cotangent, Tangents, Value


Rule = Callable[..., Any]


def _install_jvp(primitive: Primitive, rule: Rule) -> Rule:
    def jvp(primals: Sequence[Value], tangents: Any, **params: object) -> Any:
        outs, tangents_out = rule(tuple(primals), tuple(tangents), **params)
        return as_tuple(outs), as_tuple(tangents_out)

    return jvp


def _derive_jvp(primitive: Primitive, method: Rule) -> Rule:
    def rule(primals: Sequence[Value], tangents: Sequence[object], **params: object) -> Any:
        outs, tangents_out = method(primals, tangents, **params)
        return (outs, tangents_out) if primitive.multiple_results else (outs[0], tangents_out[0])

    return rule


def _install_transpose(primitive: Primitive, rule: Rule) -> Rule:
    def transpose(cts: Any, *args: Any, **params: object) -> Any:
        return tuple(rule(list(cts) if primitive.multiple_results else cts[0], *args, **params))

    return transpose


def _derive_transpose(primitive: Primitive, method: Rule) -> Rule:
    def rule(cts: Tangents, *args: object, **params: object) -> Any:
        return method(as_tuple(cts), *args, **params)

    return rule


# rule(primals, tangents, **params) -> (result, tangent); tangents may be Zero.
primitive_jvps = Rules("jvp", _install_jvp, _derive_jvp)
# rule(cotangent, *operands, **params) -> cotangents of the operands that come as UndefinedPrimal,
# None for the others.
primitive_transposes = Rules("transpose", _install_transpose, _derive_transpose)


def instantiate_zeros(tangent: Value) -> Any:
    """The tangent, as an array of zeros if it is a symbolic zero."""
    return instantiate(tangent)


def is_undefined_primal(x: Value) -> bool:
    """Whether an operand of a transpose rule is one in which the primitive is linear."""
    return type(x) is Undefined


def add_jaxvals(x: Value, y: Value) -> Any:
    """The sum of two tangents or cotangents of one type."""
    return add_tangents(x, y)


def get_primitive_transpose(p: Primitive) -> Rule:
    """The transpose rule of a primitive.

    Raises NotImplementedError if there is none.
    """
    try:
        return primitive_transposes[p]
    except KeyError as err:
        raise NotImplementedError(
            f"Transpose rule (for reverse-mode differentiation) for '{p}' not "
            "implemented\n  Register one in jax.interpreters.ad.primitive_transposes."
        ) from err


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Register derivatives operand by operand: jvprules[i](tangent, *operands, **params), None
    where it is zero.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.extend.core import Primitive
    >>> p = Primitive("cube")
    >>> _ = p.def_impl(lambda x: x * x * x)
    >>> defjvp(p, lambda t, x: 3 * x * x * t)
    >>> float(jax.jvp(p.bind, (2.,), (1.,))[1])
    12.0
    """
    defjvp2(
        primitive,
        *(None if rule is None else functools.partial(_without_result, rule) for rule in jvprules),
    )


def _without_result(
    rule: Rule, tangent: object, result: object, *primals: Value, **params: object
) -> Any:
    return rule(tangent, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """As `defjvp`, with rules of the result too: jvprules[i](tangent, result, *operands,
    **params)."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> Any:
        (out,) = as_tuple(primitive.call(*primals, **params))
        terms = [
            rule(t, out, *primals, **params)
            for rule, t in zip(jvprules, tangents, strict=True)
            if rule is not None and type(t) is not Zero
        ]
        total = functools.reduce(add_tangents, terms) if terms else typeof(out).zero
        return out, total

    primitive_jvps[primitive] = jvp


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """Register a primitive that is linear in all operands together: transpose_rule(cotangent,
    *operands, **params)."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: object) -> Any:
        outs = primitive.call(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return outs, tuple(typeof(y).zero for y in as_tuple(outs))
        return outs, primitive.call(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """As `deflinear2`, with transpose_rule(cotangent, **params).

    >>> import teucer as jax
    >>> from teucer.extend.core import Primitive
    >>> p = Primitive("twice")
    >>> _ = p.def_impl(lambda x: 2 * x), p.def_abstract_eval(lambda x: x)
    >>> deflinear(p, lambda ct: [2 * ct])
    >>> float(jax.grad(p.bind)(3.))
    2.0
    """

    def rule(ct: Cotangent, *operands: Any, **params: object) -> Any:
        if type(ct) is Zero:
            return [Zero(x.aval) for x in operands]
        return transpose_rule(ct, **params)

    deflinear2(primitive, rule)


def defbilinear(prim: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """Register a product of two operands, by its transposes in each: rule(cotangent, x, y,
    **params)."""
    defjvp(
        prim,
        lambda t, x, y, **params: as_tuple(prim.call(t, y, **params))[0],
        lambda t, x, y, **params: as_tuple(prim.call(x, t, **params))[0],
    )

    def transpose(ct: Any, x: Any, y: Any, **params: Any) -> Any:
        on_left = is_undefined_primal(x)
        operand, rule = (x, lhs_rule) if on_left else (y, rhs_rule)
        found = Zero(operand.aval) if type(ct) is Zero else rule(ct, x, y, **params)
        return (found, None) if on_left else (None, found)

    primitive_transposes[prim] = transpose

"""Lowerings of primitives: `register_lowering`, and functions with which rules build operations.

A rule is called with a context and values of jaxlib's bindings of MLIR, and builds with these. The
insertion point and the location are in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from teucer._core.jaxpr import ClosedJaxpr, Jaxpr
from teucer._core.primitive import Primitive
from teucer._core.types import aval_of
from teucer._devices.backends import platforms_called
from teucer._dialects.references.discharge import discharged
from teucer._jax.module_context import (
    LoweringRuleContext,
    ModuleContext,
    TokenSet,
    lowered_by,
)
from teucer._lower import text
from teucer._lower.context import Context
from teucer._optimize.effects import EffectTypes
from teucer._xla.client import PLATFORMS
from teucer.lax._attributes import attribute as attribute_text
from teucer.lax._callbacks import pure_callback_p
from teucer.lax._foreign.lowering import TextRule

LoweringRule = Callable[..., Any]
# Rules by primitive and platform; None is every platform that has no rule of its own.
_rules: dict[Primitive, dict[str | None, LoweringRule]] = {}
_constants: dict[
    type, Callable[..., Any]
] = {}  # by type of a Python value: the function that makes values of MLIR of it
lowerable_effects = EffectTypes()
if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import DTypeLike

    Value: TypeAlias = Any  # here and below: classes of jaxlib's bindings
    Token: TypeAlias = Any


class LoweringResult(NamedTuple):
    """A module, and objects that must live as long as programs made of it."""

    module: Any
    keepalive: Any
    host_callbacks: list[Any]
    shape_poly_state: Any


def register_lowering(
    prim: Primitive,
    rule: LoweringRule,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> LoweringRule:
    """Register rule(context, *values, **params) -> values, which builds StableHLO for calls of a
    primitive.

    platform: 'cpu', 'cuda', 'rocm', 'tpu', or 'gpu' for both kinds of GPU; by default all that have
    no rule of their own.
    inline, cacheable: accepted for programs written for JAX; rules are always written where the
    call stands.

    >>> import teucer as jax
    >>> from teucer.extend.core import Primitive
    >>> p = Primitive("twice")
    >>> _ = p.def_abstract_eval(lambda x: x)
    >>> _ = register_lowering(p, lower_fun(lambda x: 2 * x, multiple_results=False))
    >>> jax.jit(p.bind)(3.)
    Array(6., dtype=float32, weak_type=True)
    """
    names = (None,) if platform is None else platforms_called(platform)
    if not set(names) <= {None, *PLATFORMS}:
        raise NotImplementedError(
            f"Registering an MLIR lowering rule for primitive {prim} for an unknown platform "
            f"{platform}. Known platforms are: {', '.join(PLATFORMS)}."
        )
    table = _rules.setdefault(prim, {})
    for name in names:
        table[name] = rule
    own = type(prim).lower

    def lower(ctx: Context, *values: Any, **params: Any) -> tuple[Any, ...]:
        chosen = table.get(ctx.platform, table.get(None))
        if chosen is None:
            return tuple(own(prim, ctx, *values, **params))
        if not isinstance(chosen, TextRule):
            return lowered_by(chosen, prim, ctx, values, params)
        expected = tuple(ctx.avals_out)
        outs = tuple(chosen(ctx, *values, **params))
        _check(prim, expected, outs)
        return outs

    vars(prim)["lower"] = lower
    return rule


def _check(prim: Primitive, expected: Sequence[Any], outs: Sequence[Any]) -> None:
    found = [v.aval for v in outs]
    if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in expected]:
        raise ValueError(
            f"{prim}: the lowering gives other types than the abstract evaluation.\n"
            f"    abstract evaluation: {[a.str_short(True) for a in expected]}\n"
            f"    lowering: {[a.str_short(True) for a in found]}"
        )


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweringRule:
    """The lowering rule that traces fun(*arrays, **params) and writes its operations.

    multiple_results: whether `fun` returns a sequence of arrays; otherwise one array.
    """

    def rule(ctx: Context, *values: Any, **params: Any) -> tuple[Any, ...]:
        def flat(*arrays: Any) -> tuple[Any, ...]:
            outs = fun(*arrays, **params)
            return tuple(outs) if multiple_results else (outs,)

        closed = ctx.staged(flat, *values)
        if closed.jaxpr.dialects:
            closed = discharged(closed).jaxpr
        return ctx.write(closed, *values)

    return TextRule(rule)


def jaxpr_subcomp(
    ctx: ModuleContext,
    jaxpr: Jaxpr,
    name_stack: object,
    tokens: TokenSet,
    consts_for_constvars: Sequence[object],
    *args: object,
    dim_var_values: Sequence[object] = (),
    const_lowering: object = None,
    outer_traceback: object = None,
) -> tuple[list[Any], TokenSet]:
    """Write a jaxpr on values of MLIR: (results, tokens). The tokens are handed on as
    they are.

    consts_for_constvars: the values of its constants. name_stack, dim_var_values, const_lowering,
    outer_traceback: accepted for programs written for JAX; what is in force counts.
    """
    avals = [v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]
    n = len(jaxpr.constvars)
    return ctx.through(
        "jaxpr",
        avals,
        jaxpr.out_avals,
        lambda writer, *values: writer.inline_jaxpr(jaxpr, values[:n], values[n:]),
        flatten_ir_values([*consts_for_constvars, *args]),
    ), tokens


def core_call_lowering(
    ctx: LoweringRuleContext,
    *args: object,
    name: str,
    backend: object = None,
    call_jaxpr: ClosedJaxpr | Jaxpr,
) -> list[Any]:
    """Call a jaxpr as a function, on values of MLIR."""
    closed = call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else ClosedJaxpr(call_jaxpr, ())
    return ctx.module_context.through(
        name,
        closed.in_avals,
        closed.out_avals,
        lambda writer, *values: writer.inline(closed, *values),
        args,
    )


def lower_jaxpr_to_fun(
    ctx: ModuleContext,
    name: str,
    jaxpr: ClosedJaxpr,
    effects: Sequence[object] = (),
    *,
    num_const_args: int = 0,
    **unused: object,
) -> Any:
    """A jaxpr as a function of the module, an operation `func.func`.

    effects, num_const_args, and keywords for arguments of main functions: accepted for programs
    written for JAX.
    """
    return ctx.function(
        name, jaxpr.in_avals, jaxpr.out_avals, lambda writer, *values: writer.inline(jaxpr, *values)
    )[0]


def emit_python_callback(
    ctx: LoweringRuleContext,
    callback: Callable[..., Sequence[Any]],
    token: object,
    operands: Sequence[Value],
    operand_avals: Sequence[object],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: object = None,
) -> tuple[list[Any], Any, Any]:
    """Call a Python function of arrays on values of MLIR: (results, token, None).

    token: handed on. partitioned: whether each device calls it with its part.
    """
    from teucer.lax._callbacks import io_callback_p  # for rules that call Python

    prim = io_callback_p if has_side_effect else pure_callback_p

    def write(writer: Context, *values: Any) -> Any:
        return type(prim).lower(
            prim,
            writer,
            *values,
            callback=callback,
            result_avals=tuple(result_avals),
            partitioned=partitioned,
        )

    return (
        ctx.module_context.through("callback", operand_avals, result_avals, write, operands),
        token,
        None,
    )


def aval_to_ir_types(*args: Any) -> tuple[Any, ...]:
    """The MLIR types of values of a type. The context of the module may come before it."""
    return (_operations().type_of(text.tensor_type(args[-1])),)


def aval_to_ir_type(*args: object) -> Any:
    """The MLIR type of values of a type. The context of the module may come before it."""
    return aval_to_ir_types(*args)[0]


def dtype_to_ir_type(dtype: DTypeLike) -> Any:
    """The MLIR type of elements of a dtype."""
    return _operations().type_of(text.element_type(np.dtype(dtype)))


def ir_constant(
    val: Value, *, const_lowering: object = None, aval: ShapedArray | None = None
) -> Any:
    """A new constant: the value of MLIR for an array or a number.

    aval: its type, by default the type of `val`; then a Python number has the default dtype.
    """
    (value,) = ir_constants(val, const_lowering=const_lowering, aval=aval)
    return value


def ir_constants(
    val: Value, *, const_lowering: object = None, aval: ShapedArray | None = None
) -> tuple[Any, ...]:
    """As `ir_constant`, for values for which several of MLIR may stand.

    Raises TypeError for an object that is no array or number.
    """
    for kind in type(val).__mro__:
        if kind in _constants:
            found = _constants[kind](val, aval)
            return tuple(found) if isinstance(found, tuple | list) else (found,)
    if isinstance(val, np.ndarray | np.generic):
        array = np.asarray(val, None if aval is None else aval.dtype)
    else:
        array = np.asarray(val, (aval_of(val) if aval is None else aval).dtype)
    return (_operations().constant(text.array(array)),)


def register_constant_handler(type_: type, handler_fun: Callable[..., object]) -> None:
    """Register the form in MLIR of constants of a class: handler_fun(value, aval) -> value or
    values of MLIR."""
    _constants[type_] = handler_fun


def ir_attribute(val: Value) -> Any:
    """An attribute of MLIR: of a bool, number, string, dtype, NumPy array, or a list, tuple or
    mapping of such.

    Raises TypeError for anything else.
    """
    return (
        val
        if type(val).__module__.startswith("jaxlib.")
        else _operations().attribute(attribute_text(val))
    )


def i32_attr(i: int) -> Any:
    """An integer of 32 bits as an attribute."""
    return _operations().int_attribute(i, 32)


def i64_attr(i: int) -> Any:
    """An integer of 64 bits as an attribute."""
    return _operations().int_attribute(i, 64)


def dense_int_array(xs: Sequence[int]) -> Any:
    """Integers of 64 bits as an attribute, `array<i64: ...>`."""
    return _operations().attribute(text.i64s(xs))


def dense_int_elements(xs: Sequence[int]) -> Any:
    """Integers of 64 bits as an attribute, `dense<...> : tensor<nxi64>`."""
    return _operations().attribute(text.array(np.asarray(xs, np.int64)))


def shape_tensor(*args: Any) -> Any:
    """A vector of int32 of sizes, each an int or a scalar of MLIR. The context of the module may
    come before them."""
    sizes = [ir_constant(np.int32(n)) if isinstance(n, int) else n for n in args[-1]]
    return _operations().broadcast_scalars(sizes) if sizes else ir_constant(np.zeros(0, np.int32))


def token_type() -> Any:
    """The type of tokens."""
    return _operations().token_type()


def flatten_ir_values(xs: Iterable[Any]) -> list[Any]:
    """The values in sequences of values."""
    return [y for x in xs for y in (flatten_ir_values(x) if isinstance(x, tuple | list) else (x,))]


flatten_ir_types = flatten_ir_values


def unflatten_ir_values_like_types(xs: Iterable[Any], ys: Sequence[object]) -> list[Any]:
    """Values in the form of `ys`, in which a tuple stands for several."""
    rest = iter(xs)
    return [tuple(next(rest) for _ in y) if isinstance(y, tuple | list) else next(rest) for y in ys]


def make_ir_context() -> Any:
    """A new context of MLIR with the dialects that programs are written in."""
    from teucer._xla import mlir  # jaxlib's bindings of MLIR

    made = mlir.JaxIrContext()
    made.load()
    return made


def merge_mlir_modules(
    dst_module: object, sym_name: str, src_module: object, dst_symtab: object = None
) -> str:
    """Move a module's functions into another as private ones; the name that its `main` has there,
    `sym_name` if it is free.

    Nothing is left of `src_module` that can be used.
    """
    return str(_operations().merge(dst_module, sym_name, src_module, dst_symtab))


def module_to_string(module: object, enable_debug_info: bool | None = None) -> str:
    """A module as text; enable_debug_info: whether it says where operations come from."""
    return str(_operations().to_text(module, locations=bool(enable_debug_info)))


def module_to_bytecode(module: object) -> bytes:
    """A module as MLIR's bytecode."""
    return bytes(_operations().to_bytecode(module))


def _operations() -> ModuleType:
    # jaxlib's bindings of MLIR take 0.15 s to load.
    from teucer._jax import building as operations

    return operations


def __getattr__(name: str) -> Any:
    if name == "ir_tree_registry":
        return _operations().registry
    if name in ("ir", "hlo", "func_dialect", "Value", "Token"):
        operations = _operations()
        return operations.ir.Value if name in ("Value", "Token") else getattr(operations, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

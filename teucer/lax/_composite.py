"""`composite`: a function that compilers may know by name, and otherwise take apart."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, final

from teucer._base import errors, tracebacks
from teucer._core import structure
from teucer._core.calls import FlatFunction, check_callable
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_flat
from teucer._core.trace import Tracer, typeof
from teucer._lower.context import emit_function
from teucer._transform.jit_calls import hoist_consts
from teucer._trees import pytrees
from teucer.lax._attributes import attribute

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Arrays
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["composite", "composite_p"]

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+")


@structure.calls("jaxpr")
@final
class Composite(Primitive):
    """The StableHLO composite `name` of a version, which is `jaxpr`. attributes: pairs of a name
    and the text of its value."""

    __slots__ = ()
    name = "composite"
    multiple_results = True
    higher_order = True
    mergeable = False

    def types(self, *avals: ShapedArray, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(jaxpr.out_avals)

    def effects(self, *avals: ShapedArray, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return jaxpr.effects

    def evaluate(self, *args: object, jaxpr: ClosedJaxpr, **params: object) -> Any:
        return tuple(jaxpr(*args))

    def lower(
        self,
        ctx: Context,
        *values: Value,
        jaxpr: ClosedJaxpr,
        name: str,
        version: int,
        attributes: Sequence[tuple[str, str]],
    ) -> Any:
        listed = ", ".join(f"{key} = {value}" for key, value in attributes)
        return ctx.op(
            "stablehlo.composite",
            (*ctx.scalars.values(), *values),
            jaxpr.out_avals,
            f"composite_attributes = {{{listed}}}, "
            f"decomposition = @{emit_function(ctx, name, jaxpr)}, "
            f'name = "{name}", version = {version} : i32',
        )

    def jvp(self, primals: Arrays, tangents: Sequence[object], **params: object) -> NoReturn:
        raise ValueError(
            "JVP rule for composite not implemented. You can use `jax.custom_jvp` to add support. "
            "See https://docs.jax.dev/en/latest/_autosummary/jax.custom_jvp.html\n"
            f"  composite: {params['name']}"
        )


composite_p = Composite()


def composite(
    decomposition: Callable[..., object], name: str, version: int = 0
) -> Callable[..., Any]:
    """A function that is in the program as the operation `name`, which a compiler may have a better
    way for than decomposition.

    decomposition: a function of arrays, or trees of them, by position. Keyword arguments are known
    while tracing, and are the operation's attributes: numbers, strings, NumPy arrays, and lists and
    dicts of them; None leaves one out.
    name: with its namespace, as "my_namespace.my_op".
    Raises ValueError for a name without one, TypeError for an attribute of another type,
    UnexpectedTracerError where decomposition closes over traced values.

    >>> import teucer as jax
    >>> scale = jax.lax.composite(lambda x, *, by: x * by, "my.scale", version=1)
    >>> scale(2., by=3)
    Array(6., dtype=float32, weak_type=True)

    Source: the operation `composite` of the StableHLO specification.
    """
    check_callable(decomposition, "composite")
    if not _NAME.fullmatch(name):
        raise ValueError(
            'composite: name must be a valid namespaced op name, as "my_namespace.my_op".\n'
            f"    name: {name!r}"
        )

    @functools.wraps(decomposition)
    @tracebacks.api_boundary
    def call(*args: object, **kwargs: Any) -> Any:
        leaves, tree = pytrees.tree_flatten(args)
        f = FlatFunction(
            functools.partial(decomposition, **kwargs), tree, "composite", named=decomposition
        )
        jaxpr, consts = stage_flat(f, [typeof(x) for x in leaves], f.info)
        if any(isinstance(c, Tracer) for c in consts):
            raise errors.UnexpectedTracerError(
                "Found a JAX Tracer as a constant in the decomposition for the composite op "
                f"'{name}'. This means that the decomposition function closes over a value that "
                "is involved in a JAX transformation. Any values that aren't explicitly known at "
                "compile time must be explicitly passed as arguments to the composite."
            )
        attributes = tuple(
            (key, _attribute(key, value)) for key, value in kwargs.items() if value is not None
        )
        outs = composite_p.call(
            *consts,
            *leaves,
            jaxpr=hoist_consts(jaxpr),
            name=name,
            version=version,
            attributes=attributes,
        )
        return pytrees.tree_unflatten(f.tree, outs)

    return call


def _attribute(name: str, value: object) -> str:
    """A value as the text of an MLIR attribute."""
    try:
        return attribute(value)
    except TypeError:
        if isinstance(value, Tracer):
            raise errors.UnexpectedTracerError(
                f"composite: the attribute '{name}' is a traced value.\n"
                f"    {name}: {errors.describe(value.aval)}\n"
                "  Attributes are known while tracing. Note: If you are passing jax arrays as "
                "attributes, use numpy arrays instead. Pass traced values by position."
            ) from None
        raise TypeError(
            f"composite: no attribute can be made of a value of type {type(value)}.\n"
            f"    {name}: {value!r:.100}\n  Keyword arguments are attributes: numbers, strings, "
            "NumPy arrays, lists and dicts. Pass arrays by position."
        ) from None

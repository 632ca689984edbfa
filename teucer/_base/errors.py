"""Errors: the public exception classes, and the form of all messages.

op: what happened (C1).
    x: f32[2,3], axis 1 has size 3
  what to do
"""

from __future__ import annotations

from typing import Any, NamedTuple

from teucer._base.short_names import short_name
from teucer._xla.runtime_errors import JaxRuntimeError as JaxRuntimeError

_LONGEST = 200  # characters of a value's repr that an error shows


class ShardingTypeError(Exception):
    """The partitions of operands over Explicit mesh axes do not go together."""


class ForbiddenCollectiveError(Exception):
    """Within `jax.sharding.no_collectives` an operation communicates along a mesh axis."""


class NonlinearOnPartsError(ShardingTypeError, NotImplementedError):
    """An operation that is not linear was given a value whose parts are still to be summed."""


class UnsupportedDtypeError(TypeError, NotImplementedError):
    """A function has no code for a dtype: NotImplementedError in JAX 0.10, TypeError in 0.12."""


class DeviceCountError(ValueError, RuntimeError):
    """A program gets more or fewer devices than its mesh has: ValueError in JAX 0.10, RuntimeError
    in 0.12."""


class noted(NamedTuple):  # reads as a function: value_error(..., x=noted(x, "axis 1 has size 3"))
    """A value of an error message, with a remark on it."""

    value: object
    note: str


def value_error(op: str, what: str, /, remedy: str = "", **values: object) -> ValueError:
    """A ValueError in the library's form, to be raised by the caller: for shapes and values.

    >>> raise value_error("stack", "no arrays given (C1)", "Pass at least one.", axis=0)
    Traceback (most recent call last):
    ValueError: stack: no arrays given (C1).
        axis: 0
      Pass at least one.
    """
    return ValueError(message(op, what, remedy, values))


def type_error(op: str, what: str, /, remedy: str = "", **values: object) -> TypeError:
    """A TypeError in the library's form, to be raised by the caller: for dtypes and kinds."""
    return TypeError(message(op, what, remedy, values))


def require(
    condition: object, label: str, op: str, what: str, /, remedy: str = "", **values: object
) -> None:
    """Raises `value_error(op, what)` unless the condition holds. label: which constraint of the
    operation it is.

    >>> require(0 <= 3 < 2, "C1", "cumsum", "axis is out of range", axis=3)
    Traceback (most recent call last):
    ValueError: cumsum: axis is out of range.
        axis: 3
    """
    if not condition:
        raise value_error(op, what, remedy, **values)


def message(op: str, what: str, remedy: str, values: dict[str, object]) -> str:
    """The text of an error: `op: what.`, a line for each value, the remedy."""
    lines = [f"{op}: {what}" + ("" if what.endswith((".", "?", "!")) else ".")]
    lines += [f"    {name}: {describe(value)}" for name, value in values.items()]
    lines += [f"  {line}" for line in remedy.splitlines()]
    return "\n".join(lines)


def describe(value: object) -> str:
    """A value in an error message: f32[2,3] for anything that has a shape and a dtype, else its
    repr, cut to a line.

    >>> import numpy as np
    >>> describe(np.zeros((2, 3), "float32")), describe(noted(2, "a size"))
    ('f32[2,3]', '2, a size')
    """
    if isinstance(value, noted):
        return f"{describe(value.value)}, {value.note}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None and not isinstance(value, type):
        return f"{short_name(dtype)}[{','.join(map(str, shape))}]"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def ambiguous(size: int) -> str:
    """Why an array of several elements, or of none, has no truth value."""
    return (
        "an array with more than one element is ambiguous. Use a.any() or a.all()"
        if size
        else (
            "an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty."
        )
    )


def length(shape: Any) -> int:
    """What `len` gives of a value of this shape."""
    if not shape:
        raise TypeError("len() of unsized object")
    return int(shape[0])


def float0_refused(op: str) -> TypeError:
    """The error of an operation on an array of float0."""
    return TypeError(
        f"{op}: an operand is of dtype float0. float0s do not support any operations by design: "
        "they are the derivatives by integers and bools, and hold no numbers.\n"
        "  Choose with argnums what to differentiate by. For zeros of another dtype use "
        "np.zeros_like(x, dtype=float)."
    )


class TypePromotionError(ValueError):
    """Operands have dtypes that do not combine implicitly."""


class JAXTypeError(TypeError):
    """The base class of trace-time errors that are type errors."""


class JAXIndexError(IndexError):
    """The base class of trace-time errors that are index errors."""


class ConcretizationTypeError(JAXTypeError):
    """A known value is needed, such as a size, an axis or a Python number, and a traced one was
    given."""

    def __init__(self, tracer: Any, context: str = "") -> None:
        # A context is either the called function, such as "int()", or a sentence with the remedy.
        op, advice = (context or "value", "") if " " not in context else ("value", f"{context}\n")
        called = (
            f"The problem arose with the `{context[:-2]}` function. If you meant to convert the "
            f"dtype, try using `x.astype({context[:-2]})`.\n"
            if context.endswith("()")
            else ""
        )
        super().__init__(
            _traced(
                op,
                (
                    "Abstract tracer value encountered where concrete value is expected: "
                    f"{_array_text(tracer)}."
                ),
                tracer,
                f"{called}{advice}If it is an argument that is the same in every call, mark it "
                "static: static_argnums.\nTo look at values while the program runs, use "
                "debug.print.",
            )
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """True or False is needed of a value that is known only when the program runs."""

    def __init__(self, tracer: Any) -> None:
        JAXTypeError.__init__(
            self,
            _traced(
                "bool()",
                f"Attempted boolean conversion of {_array_text(tracer)}.",
                tracer,
                "To choose between values, use jnp.where or lax.cond; to loop, lax.while_loop; "
                "for `and`, x & y.\nIf the condition is the same in every call, mark its argument "
                "static: jit(f, static_argnums=...).",
            ),
        )


class TracerArrayConversionError(JAXTypeError):
    """NumPy data are needed of a value that is known only when the program runs."""

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _traced(
                "__array__()",
                (
                    "The numpy.ndarray conversion method __array__() was called on "
                    f"{_array_text(tracer)}."
                ),
                tracer,
                "Use the function of the same name in jnp, or pure_callback to call NumPy while "
                "the program runs.\nTo index a NumPy array with it, convert that first: "
                "jnp.asarray(table)[index].",
            )
        )


class TracerIntegerConversionError(JAXTypeError):
    """A Python integer is needed of a value that is known only when the program runs."""

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _traced(
                "__index__()",
                f"The __index__() method was called on {_array_text(tracer)}.",
                tracer,
                "To index a list with it, convert that first: jnp.asarray(items)[index]; to loop, "
                "use lax.fori_loop.\nIf it is the same in every call, mark its argument static: "
                "jit(f, static_argnums=...).",
            )
        )


class NonConcreteBooleanIndexError(JAXIndexError):
    """The shape of a result would depend on which elements of a traced mask are true."""

    def __init__(self, tracer: Any) -> None:
        super().__init__(
            _traced(
                "indexing",
                f"Array boolean indices must be concrete; got {tracer.aval.str_short()}.",
                tracer,
                (
                    "Keep the shape with jnp.where(mask, x, other), or fix the number taken: "
                    "jnp.nonzero(mask, size=...)."
                ),
            )
        )


class UnexpectedTracerError(JAXTypeError):
    """A traced value outlived the function it belongs to, and was used."""


class KeyReuseError(JAXTypeError):
    """A random key was used twice while `jax_debug_key_reuse` is on."""


class JaxprTypeError(TypeError):
    """A jaxpr is not well formed."""


class InconclusiveDimensionOperation(Exception):
    """A question about symbolic dimensions has no answer that holds for every allowed size."""


for _public in (
    JAXTypeError,
    JAXIndexError,
    ConcretizationTypeError,
    TracerBoolConversionError,
    TracerArrayConversionError,
    TracerIntegerConversionError,
    NonConcreteBooleanIndexError,
    UnexpectedTracerError,
    KeyReuseError,
    JaxprTypeError,
    InconclusiveDimensionOperation,
    ShardingTypeError,
    ForbiddenCollectiveError,
    NonlinearOnPartsError,
    UnsupportedDtypeError,
    DeviceCountError,
    TypePromotionError,
):
    _public.__module__ = "teucer.errors"  # the module that tracebacks print before the name


def _traced(op: str, what: str, tracer: Any, remedy: str) -> str:
    """The message about a traced value: its type, where it was made, what it depends on, what to
    do."""
    origin = " ".join(tracer.origin().split())
    lines = [
        f"{op}: {what}",
        f"    value: {describe(tracer.aval)}{', ' + origin if origin else ''}",
    ]
    return "\n".join(
        [*lines, *(f"  {line}" for line in [*tracer.reason().splitlines(), *remedy.splitlines()])]
    )


def _array_text(tracer: Any) -> str:
    """A traced value as people search for these messages: with its dtype's name in full."""
    return (
        f"traced array with shape {tracer.aval.dtype.name}[{','.join(map(str, tracer.aval.shape))}]"
    )

"""Sums of products of tensors in Einstein's notation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer._devices.shardings import explicit_sharding
from teucer._dimensions.dimensions import bounds, is_symbolic
from teucer.lax import _elementwise as lax
from teucer.lax import _reductions, _shapes, _structure
from teucer.lax._dot import dot_general
from teucer.lax._sharding import laid_out
from teucer.numpy._library import fast
from teucer.numpy._linear import product
from teucer.numpy._promotion import ANY, as_value, check_arraylike, promote_dtypes, refuse_out

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, DTypeLike
    from teucer._devices.specs import OutSharding
    from teucer.lax._precision import PrecisionLike

__all__ = ["einsum", "einsum_path"]

# Subscripts of one operand or two that are written out: there is nothing to parse, and one order of
# products.
_PLAIN = re.compile("([A-Za-z]+)(?:,([A-Za-z]+))?->([A-Za-z]*)").fullmatch


def einsum(
    subscripts: object,
    /,
    *operands: object,
    out: None = None,
    optimize: object = "auto",
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Callable[..., Array] | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The sum of products that the subscripts say: a letter an axis, of operands between commas,
    then `->` and the result.

    Letters that the result lacks are summed over; without `->` it has the names that appear once,
    in order of the alphabet. `...` stands for axes that broadcast. Operands and lists of axis
    numbers in turn are understood too.
    optimize: how the order of products is found ('optimal', 'greedy', ..., or True, False, or a
    path). _dot_general: called in the place of `lax.dot_general`. Raises ValueError for subscripts
    that do not fit the operands.

    >>> einsum('ij,j->i', np.float32([[1, 2], [3, 4]]), np.float32([1, 1]))
    Array([3., 7.], dtype=float32)
    """
    refuse_out("einsum", out)
    names, values = _parsed(subscripts, operands)
    check_arraylike("einsum", *values)
    shapes = [np.shape(v) for v in values]
    _check_sizes(names, shapes)
    contractions = _contractions(names, shapes, optimize)
    if _dot_general is not None and _dot_general is not dot_general:
        # Loaded only where a function is injected.
        from teucer.numpy._einsum_products import products

        return products(
            values,
            contractions,
            _dot_general,
            dtypes.result_type(*values)
            if preferred_element_type is None
            else preferred_element_type,
            precision=precision,
            **({} if out_sharding is None else {"out_sharding": out_sharding}),
        )
    where = explicit_sharding("einsum", out_sharding, len(names.partition("->")[2]))
    if where is not None:
        if where.spec.unreduced:  # the last product or sum stays unreduced
            return _einsum(tuple(values), contractions, precision, preferred_element_type, where)
        return laid_out(
            "einsum",
            out_sharding,
            lambda *xs: _einsum(xs, contractions, precision, preferred_element_type),
            *values,
        )
    return _einsum(tuple(values), contractions, precision, preferred_element_type)


def _contractions(
    names: str, shapes: Sequence[tuple[Any, ...]], optimize: object
) -> tuple[tuple[tuple[int, ...], str], ...]:
    """The products in order. Each has the places of its operands in the list of operands left so
    far, and subscripts."""
    if len(shapes) <= 2 and (isinstance(optimize, bool) or optimize == "auto"):
        inputs, _, output = names.partition("->")
        return (
            (tuple(range(len(shapes)))[::-1], ",".join(inputs.split(",")[::-1]) + "->" + output),
        )
    import opt_einsum  # here and below: it takes 9 ms, and products of two operands do without

    path = (
        optimize
        if isinstance(optimize, list | tuple)
        else "optimal"
        if optimize in (True, "auto") and len(shapes) <= 4
        else ("greedy" if optimize is False else "auto" if optimize is True else optimize)
    )
    _, steps = opt_einsum.contract_path(
        names, *map(_sizes, shapes), shapes=True, einsum_call=True, optimize=path
    )
    return tuple((tuple(step[0]), step[2]) for step in steps)


def einsum_path(
    subscripts: object, /, *operands: object, optimize: object = "auto"
) -> tuple[list[Any], Any]:
    """The order of products that `einsum` would take, and a report of its cost.

    >>> einsum_path('ij,jk->ik', np.ones((2, 3)), np.ones((3, 4)))[0]
    [(0, 1)]
    """
    import opt_einsum

    names, values = _parsed(subscripts, operands)
    kind = "optimal" if optimize is True else "greedy" if optimize is False else optimize
    path, report = opt_einsum.contract_path(
        names, *[_sizes(np.shape(v)) for v in values], shapes=True, optimize=kind
    )
    return list(path), report


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    """Sizes by which the cost of a product is judged: where one is symbolic its bound, or any that
    is not small."""
    return tuple(int(min(bounds(n).high, 1024)) if is_symbolic(n) else n for n in shape)


def _parsed(subscripts: object, operands: Sequence[object]) -> tuple[str, list[Any]]:
    """The subscripts written out, with no dots, and the operands."""
    given = [as_value(v) for v in operands]
    if isinstance(subscripts, str):
        given = [np.asarray(v) if isinstance(v, int | float | complex) else v for v in given]
        check_arraylike("einsum", *given)
        written = _PLAIN(subscripts.replace(" ", ""))
        if written is not None and len(given) == 1 + (written[2] is not None):
            one, two, output = written.groups("")
            if len(set(output)) == len(output) and set(output) <= set(one + two):
                return written[0], given
    from opt_einsum.parser import parse_einsum_input

    inputs, output, values = parse_einsum_input(
        (
            subscripts.replace(" ", "") if isinstance(subscripts, str) else as_value(subscripts),
            *given,
        )
    )
    for letter in output:
        if letter not in inputs:
            raise ValueError(f"Output character {letter!r} did not appear in the input")
    return f"{inputs}->{output}", list(values)


def _check_sizes(names: str, shapes: Sequence[tuple[object, ...]]) -> None:
    terms = names.partition("->")[0].split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"Number of einsum subscripts, {len(terms)}, must be equal to the number of operands, "
            f"{len(shapes)}."
        )
    sizes: dict[str, Any] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if len(term) != len(shape):
            raise ValueError(
                f"Einstein sum subscript '{term}' does not contain the correct number of indices "
                f"for operand {i}, of shape {shape}."
            )
        for letter, size in zip(term, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if known != size and known != 1 and size != 1:
                raise ValueError(
                    f"Size of label '{letter}' for operand {i} ({size}) does not match previous "
                    f"terms ({known})."
                )
            sizes[letter] = size if known == 1 else known


@fast(static=("contractions", "precision", "preferred", "out_sharding"))
def _einsum(
    operands: Sequence[ArrayLike],
    contractions: Any,
    precision: object,
    preferred: Any,
    out_sharding: object = None,
) -> Any:
    values = list(promote_dtypes("einsum", ANY, *operands))
    values = [
        _structure.convert_element_type(v, typeof(v).dtype, typeof(v).weak_type) for v in values
    ]
    for i, (places, step) in enumerate(contractions):
        last = out_sharding if i == len(contractions) - 1 else None
        chosen = [values.pop(i) for i in places]
        inputs, _, output = step.partition("->")
        terms = inputs.split(",")
        while len(chosen) > 1:
            # A step of the path has two operands but for paths that the user gives.
            y, x = chosen.pop(1), chosen.pop(0)
            y_names, x_names = terms.pop(1), terms.pop(0)
            wanted = (
                output
                if not terms
                else "".join(
                    dict.fromkeys(
                        c for c in x_names + y_names if c in output or any(c in t for t in terms)
                    )
                )
            )
            chosen.insert(
                0,
                _pair(
                    x, x_names, y, y_names, wanted, precision, preferred, None if terms else last
                ),
            )
            terms.insert(0, wanted)
        values.append(_single(chosen[0], terms[0], output, preferred, last))
    (result,) = values
    return result if preferred is None else lax.convert_element_type(result, preferred)


def _single(x: ArrayLike, names: str, output: str, preferred: Any, out_sharding: Any = None) -> Any:
    """x with repeated axes reduced to their diagonal, axes that the output lacks summed, the others
    in its order.

    preferred: the dtype in which it is summed, which may hold more than its own. out_sharding: of
    the output, where it is summed.
    """
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            i = names.index(name)
            j = names.index(name, i + 1)
            x, names = _diagonal(x, i, j), names[:j] + names[j + 1 :]
    kinds = [k for k in (np.inexact, np.complexfloating) if dtypes.issubdtype(typeof(x).dtype, k)]
    if (
        preferred is not None
        and any(c not in output for c in names)
        and all(dtypes.issubdtype(preferred, k) for k in kinds)
    ):
        x = _structure.convert_element_type(x, preferred)
    x, names = _summed(x, names, [c for c in names if c not in output], output, out_sharding)
    return _structure.transpose(x, tuple(names.index(c) for c in output))


def _summed(
    x: Any, names: str, drop: Sequence[str], output: str, out_sharding: OutSharding
) -> tuple[Any, str]:
    if not drop:
        return x, names
    axes, rest = tuple(names.index(c) for c in drop), "".join(c for c in names if c not in drop)
    if typeof(x).dtype == np.bool_:
        return _reductions.reduce_or(x, axes), rest
    return _reductions.reduce_sum(x, axes, out_sharding=_permuted(out_sharding, output, rest)), rest


def _permuted(out_sharding: Any, output: str, names: Sequence[str]) -> Any:
    """The output's sharding as the sharding of an array whose axes have these names."""
    return None if out_sharding is None else out_sharding.permuted([output.index(c) for c in names])


def _diagonal(x: Any, i: int, j: int) -> Any:
    """The elements of x whose places along axes i and j agree, as axis i."""
    shape = np.shape(x)
    rows, columns = (_shapes.broadcasted_iota(np.dtype(np.int32), shape, k) for k in (i, j))
    kept = lax.select(lax.eq(rows, columns), x, _structure.full(shape, 0, typeof(x).dtype))
    return (_reductions.reduce_or if typeof(x).dtype == np.bool_ else _reductions.reduce_sum)(
        kept, (j,)
    )


def _pair(
    x: Any,
    x_names: str,
    y: Any,
    y_names: str,
    output: str,
    precision: Any,
    preferred: object,
    out_sharding: Any,
) -> Any:
    """The product of two operands, summed over the names that the output lacks."""
    x, x_names = _squeezed(x, x_names, y, y_names)
    y, y_names = _squeezed(y, y_names, x, x_names)
    kept_x = "".join(dict.fromkeys(c for c in x_names if c in output or c in y_names))
    kept_y = "".join(dict.fromkeys(c for c in y_names if c in output or c in x_names))
    x, y = _single(x, x_names, kept_x, preferred), _single(y, y_names, kept_y, preferred)
    shared = [c for c in kept_x if c in kept_y]
    batch = [c for c in shared if c in output]
    if output == "".join(
        [*batch, *(c for c in kept_y if c not in shared), *(c for c in kept_x if c not in shared)]
    ):
        x, kept_x, y, kept_y = (
            y,
            kept_y,
            x,
            kept_x,
        )  # then the product has its axes in the order that is wanted
    contract = [c for c in shared if c not in output]
    numbers = (
        (tuple(kept_x.index(c) for c in contract), tuple(kept_y.index(c) for c in contract)),
        (tuple(kept_x.index(c) for c in batch), tuple(kept_y.index(c) for c in batch)),
    )
    names = [
        *batch,
        *(c for c in kept_x if c not in shared),
        *(c for c in kept_y if c not in shared),
    ]
    out = product(x, y, numbers, precision, preferred, _permuted(out_sharding, output, names))
    return _structure.transpose(out, tuple(names.index(c) for c in output))


def _squeezed(x: Any, x_names: str, y: Any, y_names: str) -> tuple[Any, str]:
    """x without axes of size 1 that stand against longer axes of y."""
    drop = [
        i
        for i, c in enumerate(x_names)
        if c in y_names and np.shape(x)[i] == 1 and np.shape(y)[y_names.index(c)] != 1
    ]
    if not drop:
        return x, x_names
    shape = tuple(d for i, d in enumerate(np.shape(x)) if i not in drop)
    return _structure.reshape(x, shape), "".join(c for i, c in enumerate(x_names) if i not in drop)

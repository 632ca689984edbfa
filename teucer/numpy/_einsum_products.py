"""The products of an einsum by a function in the place of `lax.dot_general`.

flax and aqt inject one, which quantizes its operands, say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from teucer.numpy._index_tricks import diagonal
from teucer.numpy._manipulation import moveaxis, transpose
from teucer.numpy._reductions import sum as total

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike


def products(
    operands: Sequence[Any],
    contractions: Iterable[tuple[Sequence[int], str]],
    dot_general: Callable[..., Array],
    preferred_element_type: DTypeLike,
    **options: Any,
) -> Array:
    """Contract operands two at a time, until one is left, and return it.

    contractions: the places of operands in the list of operands left so far, and their subscripts.
    The left operand of a product is the one that stands before, or the one whose axes come first in
    the result where they can then stay in their order.
    options: further arguments of dot_general.
    """
    options["preferred_element_type"] = preferred_element_type
    left = list(operands)
    for places, subscripts in contractions:
        inputs, _, output = subscripts.partition("->")
        names = inputs.split(",")
        taken = sorted(zip(places, names, strict=True))
        values = [left[place] for place, _ in taken]
        for place, _ in reversed(taken):
            del left[place]
        terms = []
        for i, (value, (_, term)) in enumerate(zip(values, taken, strict=True)):
            elsewhere = {*output, *(n for j, (_, t) in enumerate(taken) if j != i for n in t)}
            terms.append(_reduced(value, term, elsewhere))
        if len(terms) == 1:
            ((result, found),) = terms
        else:
            one, two = terms
            result, found = _product(one, two, output, dot_general, **options)
        left.append(
            result if found == output else transpose(result, [found.index(name) for name in output])
        )
    (last,) = left
    return last


def _reduced(x: Any, names: str, elsewhere: set[str]) -> tuple[Any, str]:
    """An operand with each name once, summed over names that stand nowhere else."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            x = moveaxis(diagonal(x, axis1=first, axis2=second), -1, first)
            names = names[:second] + names[second + 1 :]
    alone = tuple(i for i, name in enumerate(names) if name not in elsewhere)
    if alone:
        x = total(x, axis=alone)
        names = "".join(name for name in names if name in elsewhere)
    return x, names


def _product(
    one: tuple[Any, str],
    two: tuple[Any, str],
    output: str,
    dot_general: Callable[..., Array],
    **options: Any,
) -> tuple[Array, str]:
    """The product of two operands, and the names of its axes."""
    (x, left), (y, right) = one, two
    both = [name for name in left if name in right]
    batch = "".join(name for name in both if name in output)
    rest = ["".join(n for n in names if n not in both) for names in (left, right)]
    found = batch + "".join(rest)
    if found != output:
        x, y, left, right, found = y, x, right, left, batch + rest[1] + rest[0]
    summed = [name for name in both if name not in output]
    axes = tuple(
        tuple(tuple(names.index(name) for name in group) for names in (left, right))
        for group in (summed, batch)
    )
    return dot_general(x, y, axes, **options), found

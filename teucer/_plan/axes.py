"""Which axes of the arrays of a program are the same: those of width, of heads, of the batch.

Axes are the same if an operation matches them: the contracted axes of a product, the axes of the
operands of a sum. So the axes of all arrays fall into classes, as people name them in programs. A
way to divide a program says over which axes of the mesh each class lies.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from teucer import lax
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal
from teucer._optimize.operations import operations


class Product(NamedTuple):
    """A product of a program: its equation, how often it runs, and whether in a backward pass."""

    eqn: Eqn
    times: float


class Axes:
    """The classes of the axes of a program, as numbers; `size` says how long each is."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self._parent: list[int] = []
        self._sizes: list[int] = []
        self._of: dict[Any, list[int]] = {}
        self.stacked: set[int] = set()
        self.products: list[Product] = []
        self._visit(closed.jaxpr, 1.0)

    def of(self, atom: Any) -> tuple[int, ...]:
        """The class of each axis of a value."""
        return tuple(self._root(i) for i in self._ids(atom))

    def size(self, axis: int) -> int:
        """How long the axes of a class are."""
        return self._sizes[self._root(axis)]

    def is_stacked(self, axis: int) -> bool:
        """Whether a loop goes along a class, as over layers."""
        return any(self._root(i) == axis for i in self.stacked)

    # --- Classes --------------------------------------------------------------------------------

    def _ids(self, atom: Any) -> list[int]:
        shape = getattr(atom.aval, "shape", ())
        if isinstance(atom, Literal):
            return self._new(shape)
        if atom not in self._of:
            self._of[atom] = self._new(shape)
        return self._of[atom]

    def _new(self, shape: Sequence[Any]) -> list[int]:
        first = len(self._parent)
        self._parent += range(first, first + len(shape))
        self._sizes += [int(n) for n in shape]
        return list(range(first, first + len(shape)))

    def _root(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def _join(self, a: int, b: int) -> None:
        if self._sizes[a] == self._sizes[b] and self._sizes[a] > 1:
            self._parent[self._root(a)] = self._root(b)

    def _joined(self, a: Sequence[int], b: Sequence[int]) -> None:
        for i, j in zip(a, b, strict=False):
            self._join(i, j)

    # --- Programs -------------------------------------------------------------------------------

    def _visit(self, jaxpr: Jaxpr, times: float) -> None:
        for eqn in jaxpr.eqns:
            found = structure.of(eqn) or structure.presumed(eqn)
            if found is not None:
                self._inside(eqn, found, times)
            else:
                self._operation(eqn, times)

    def _inside(self, eqn: Eqn, found: structure.Structure, times: float) -> None:
        loop = found if isinstance(found, structure.Loop) else None
        plain = 0 if loop is None else len(loop.consts) + len(loop.carry)
        for body, operands in found.bodies:
            for i, (own, given) in enumerate(zip(body.invars, operands, strict=False)):
                self._along(loop is not None and i >= plain, given, own)
            self._visit(body.jaxpr, times * (1 if loop is None else loop.times))
            carried = len(body.outvars) if loop is None else len(loop.carry)
            if len(body.outvars) == len(eqn.outvars):
                for i, (inner, outer) in enumerate(zip(body.outvars, eqn.outvars, strict=True)):
                    self._along(i >= carried, outer, inner)
        if loop is not None:
            for carry, out in zip(loop.carry, eqn.outvars, strict=False):
                self._joined(self._ids(carry), self._ids(out))

    def _along(self, stacked: bool, outer: Any, inner: Any) -> None:
        """Join the axes of a value and of what a body has of it."""
        ids = self._ids(outer)
        if stacked and ids:
            self.stacked.add(ids[0])
            ids = ids[1:]
        self._joined(ids, self._ids(inner))

    def _operation(self, eqn: Eqn, times: float) -> None:
        rule = _RULES.get(eqn.primitive)
        if eqn.primitive is lax.dot_general_p:
            self.products.append(Product(eqn, times))
        out = eqn.outvars[0] if eqn.outvars else None
        if out is None or not hasattr(out.aval, "shape"):
            return
        if rule is not None:
            for (x, i), (y, j) in rule(eqn):
                self._join(self._ids(x)[i], self._ids(y)[j])
            return
        axis = eqn.params.get("axis")
        for u, w in itertools.product(eqn.invars, eqn.outvars):
            a, b = self._ids(u), self._ids(w)
            if isinstance(axis, int) and abs(len(a) - len(b)) == 1:  # taken apart, or put together
                longer = a if len(a) > len(b) else b
                longer = longer[:axis] + longer[axis + 1 :]
                a, b = (longer, b) if len(a) > len(b) else (a, longer)
            if len(a) == len(b):
                self._joined(a, b)


# A pair of axes that are the same, each as a value and the number of its axis.
_Pair = tuple[tuple[Any, int], tuple[Any, int]]


def _dot_general(eqn: Eqn) -> Iterator[_Pair]:
    lhs, rhs = eqn.invars
    out = eqn.outvars[0]
    (contract, batch) = eqn.params["dimension_numbers"]
    yield from (((lhs, i), (rhs, j)) for i, j in zip(*contract, strict=True))
    yield from (((lhs, i), (rhs, j)) for i, j in zip(*batch, strict=True))
    yield from (((lhs, i), (out, n)) for n, i in enumerate(batch[0]))
    n = len(batch[0])
    for side, x in ((0, lhs), (1, rhs)):
        for i in range(len(x.aval.shape)):
            if i not in contract[side] and i not in batch[side]:
                yield (x, i), (out, n)
                n += 1


def _transpose(eqn: Eqn) -> Iterator[_Pair]:
    for n, i in enumerate(eqn.params["permutation"]):
        yield (eqn.invars[0], i), (eqn.outvars[0], n)


def _broadcast(eqn: Eqn) -> Iterator[_Pair]:
    for i, n in enumerate(eqn.params["broadcast_dimensions"]):
        yield (eqn.invars[0], i), (eqn.outvars[0], n)


def _squeeze(eqn: Eqn) -> Iterator[_Pair]:
    (x,), (out,) = eqn.invars, eqn.outvars
    taken = eqn.params["dimensions"]
    kept = [i for i in range(len(x.aval.shape)) if i not in taken]
    yield from (((x, i), (out, n)) for n, i in enumerate(kept))


def _reduce(eqn: Eqn) -> Iterator[_Pair]:
    for x, out in zip(eqn.invars, eqn.outvars, strict=False):
        kept = [i for i in range(len(x.aval.shape)) if i not in eqn.params["axes"]]
        yield from (((x, i), (out, n)) for n, i in enumerate(kept))


def _reshape(eqn: Eqn) -> Iterator[_Pair]:
    """Axes of the same size behind as many elements, and the first of those that are merged."""
    x, out = eqn.invars[0], eqn.outvars[0]
    before = _behind(x.aval.shape)
    after = _behind(out.aval.shape)
    for i, n in enumerate(before):
        for j, m in enumerate(after):
            if n == m and x.aval.shape[i] == out.aval.shape[j] > 1:
                yield (x, i), (out, j)


def _behind(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _gather(eqn: Eqn) -> Iterator[_Pair]:
    x, indices = eqn.invars[:2]
    out = eqn.outvars[0]
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [i for i in range(len(x.aval.shape)) if i not in gone]
    for i, n in zip(kept, numbers.offset_dims, strict=True):
        if sizes[i] == x.aval.shape[i]:
            yield (x, i), (out, n)
    batch = [n for n in range(len(out.aval.shape)) if n not in numbers.offset_dims]
    yield from (((indices, i), (out, n)) for i, n in enumerate(batch))
    for i, j in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        yield (x, i), (indices, j)


def _scatter(eqn: Eqn) -> Iterator[_Pair]:
    x, indices, updates = eqn.invars[:3]
    out = eqn.outvars[0]
    numbers = eqn.params["dimension_numbers"]
    gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    kept = [i for i in range(len(x.aval.shape)) if i not in gone]
    yield from (((x, i), (out, i)) for i in range(len(x.aval.shape)))
    yield from (
        ((x, i), (updates, n)) for i, n in zip(kept, numbers.update_window_dims, strict=True)
    )
    batch = [n for n in range(len(updates.aval.shape)) if n not in numbers.update_window_dims]
    yield from (((indices, i), (updates, n)) for i, n in enumerate(batch))


_RULES: dict[Any, Callable[[Eqn], Iterator[_Pair]]] = {
    lax.dot_general_p: _dot_general, lax.transpose_p: _transpose,
    lax.broadcast_in_dim_p: _broadcast, lax.squeeze_p: _squeeze, lax.reshape_p: _reshape,
    lax.gather_p: _gather,
    **dict.fromkeys((lax.scatter_p, lax.scatter_add_p), _scatter),
    **dict.fromkeys(
        (lax.reduce_sum_p, lax.reduce_max_p, lax.reduce_min_p, lax.reduce_prod_p, lax.argmax_p,
         lax.argmin_p),
        _reduce,
    ),
}  # fmt: skip


def cost(product: Product) -> float:
    """The operations of a product, in all of its runs."""
    return product.times * operations(product.eqn)

"""The operators of sparse arrays.

Those of BCOO and BCSR arrays are operations of jnp made sparse; the other formats go by way of
BCOO.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from teucer import numpy as jnp
from teucer._derived.stages import jit
from teucer._sparse import methods
from teucer._sparse.base import JAXSparse
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcsr_array import BCSR
from teucer._sparse.coo import COO
from teucer._sparse.csr import CSC, CSR
from teucer._sparse.transform import sparsify

if TYPE_CHECKING:
    from teucer._core.typing import Value


# name -> the function, and whether it may be compiled as one program: where it need not look at
# numbers.
BINARY: dict[str, tuple[Callable[..., Any], bool]] = {
    "add": (jnp.add, True),
    "sub": (jnp.subtract, True),
    "mul": (jnp.multiply, True),
    "truediv": (jnp.true_divide, True),
    "matmul": (jnp.matmul, True),
    "pow": (operator.pow, False),
    "mod": (jnp.remainder, False),
    "eq": (jnp.equal, False),
    "ne": (jnp.not_equal, False),
    "ge": (jnp.greater_equal, False),
    "gt": (jnp.greater, False),
    "le": (jnp.less_equal, False),
    "lt": (jnp.less, False),
}
_COMPARISONS = ("eq", "ne", "ge", "gt", "le", "lt")
UNARY: dict[str, Callable[..., Any]] = {"abs": jnp.abs, "neg": jnp.negative, "pos": jnp.positive}


def _is_operand(x: Any) -> bool:
    return isinstance(x, BCOO | BCSR | bool | int | float | complex) or hasattr(x, "dtype")


def _binary(name: str, swapped: bool) -> Callable[[Any, Any], Any]:
    f, compiled = BINARY[name]
    apply = sparsify(f)
    as_program = jit(apply) if compiled else apply

    def method(self: object, other: object) -> Any:
        if not _is_operand(other):
            return NotImplemented
        if (
            isinstance(other, bool | int | float | complex) and not compiled
        ):  # the number says what the result is
            return sparsify((lambda x: f(other, x)) if swapped else (lambda x: f(x, other)))(self)
        run = (
            apply if isinstance(other, JAXSparse) else as_program
        )  # properties of indices matter to both together
        return run(other, self) if swapped else run(self, other)

    method.__name__ = f"__{'r' if swapped else ''}{name}__"
    return method


def _unary(name: str) -> Callable[[Any], Any]:
    apply = sparsify(UNARY[name])

    def method(self: object) -> Any:
        return apply(self)

    method.__name__ = f"__{name}__"
    return method


def _by_bcoo(cls: Any, name: str) -> Callable[..., Any]:
    """An operator of a format that has none of its own."""

    def method(self: Any, *others: Value) -> Any:
        given = [x._bcoo() if isinstance(x, COO | CSR | CSC) else x for x in others]
        found = getattr(BCOO, name)(self._bcoo(), *given)
        if isinstance(found, BCOO) and found.ndim == 2 and not found.n_batch:
            return cls._of_bcoo(found)
        return found

    method.__name__ = name
    return method


def _absent(name: str) -> Callable[..., Any]:
    """An operator that a class of sparse arrays does not define."""

    def method(self: object, *others: Value) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.{name}")

    method.__name__ = name
    return method


for _name in ("add", "sub", "mul", "matmul"):
    methods._attach(JAXSparse)(_absent(f"__{_name}__"))
    methods._attach(JAXSparse)(_absent(f"__r{_name}__"))
for _name in ("__neg__", "__pos__", "__getitem__"):
    methods._attach(JAXSparse)(_absent(_name))
for _batched in (BCOO, BCSR):
    for _name in BINARY:
        methods._attach(_batched)(_binary(_name, False))
        if _name not in _COMPARISONS:
            methods._attach(_batched)(_binary(_name, True))
    for _name in UNARY:
        methods._attach(_batched)(_unary(_name))
for _cls in (COO, CSR, CSC):
    for _name in (
        [f"__{p}{n}__" for n in BINARY for p in ("", "r")]
        + [f"__{n}__" for n in UNARY]
        + ["sum", "astype", "__getitem__", "__iter__"]
    ):
        if hasattr(BCOO, _name) and _name not in ("__matmul__", "__eq__", "__ne__"):
            setattr(_cls, _name, _by_bcoo(_cls, _name))

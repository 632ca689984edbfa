"""Calls of every public function, and the settings under which they give the same.

A call is a row of the operation table, a line of tests/numpy/calls.txt, or a docstring's example.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from optable.table import Op, all_ops, is_64_bit

import teucer as jax
import teucer.numpy as jnp
from teucer._trees.pytrees import tree_leaves

HERE = Path(__file__).parent
SETTINGS: dict[str, Callable[[], Any]] = {
    "strict dtypes": lambda: jax.numpy_dtype_promotion("strict"),
    "strict ranks": lambda: jax.numpy_rank_promotion("raise"),
    "checks": lambda: jax.enable_checks(True),
    "nans": lambda: jax.debug_nans(True),
    "leaks": jax.checking_leaks,
    "no jit": jax.disable_jit,
    "64 bits": lambda: jax.enable_x64(True),
}


@dataclass(frozen=True)
class Call:
    """A call by its name: `run` makes it and gives the results, a list of arrays or objects."""

    name: str
    run: Callable[[], list[Any]]
    operands: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def mixed_dtypes(self) -> bool:
        return len({np.asarray(x).dtype for x in self.operands if hasattr(x, "dtype")}) > 1

    @property
    def mixed_ranks(self) -> bool:
        return len({np.ndim(x) for x in self.operands if hasattr(x, "dtype")} - {0}) > 1


def rows(quick: bool) -> Iterator[Call]:
    """The rows of the table."""
    for op in all_ops().values():
        for dtype in op.quick_dtypes[:1] if quick else op.dtypes:
            if not is_64_bit(dtype):
                for i in range(len(op.calls(dtype))):
                    yield row(op, dtype, i)


def row(op: Op, dtype: str, i: int) -> Call:
    call = op.calls(dtype)[i]
    return Call(
        f"{op} of {dtype}, call {i}",
        lambda: tree_leaves(op(*call.args, **call.kwargs)),
        tuple(tree_leaves(call.args)),
    )


def lines() -> Iterator[Call]:
    """The lines of calls.txt, of float32 and int32."""
    from tests.numpy.test_calls import CALLS, operands

    for text, dtypes in CALLS:
        for dtype in dtypes:
            values = {**operands(dtype), "np": jnp}
            yield Call(
                f"{text} of {dtype}",
                lambda text=text, values=values: tree_leaves(eval(text, values)),
            )


def modules() -> Iterator[Any]:
    """All modules but those that change the process (`compat` takes JAX's name when it is
    imported), or ask for what may be absent."""
    (root,) = jax.__path__
    for path in sorted(Path(root).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if not {"compat", "cli", "__main__", "jax2tf"}.intersection(parts):
            name = ".".join(["teucer", *parts]).removesuffix(".__init__")
            yield importlib.import_module(name)


def examples() -> Iterator[Call]:
    """The examples of docstrings."""
    for module in list(modules()):  # a module that is loaded may give another names
        for test in doctest.DocTestFinder().find(module, extraglobs={}):
            if test.examples:
                yield Call(test.name, lambda test=test: values_of(test))


def own_names(test: doctest.DocTest) -> dict[str, Any]:
    """The names of the module that a function comes from, which may not be where it is public."""
    found: Any = test.globs
    module, _, name = test.name.rpartition(".")
    found = getattr(sys.modules.get(module.replace("jax", "teucer", 1)), name, None)
    return getattr(inspect.unwrap(found), "__globals__", {}) if callable(found) else {}


def values_of(test: doctest.DocTest) -> list[Any]:
    """What the expressions of the examples give. An example that raises ends none but itself."""
    names, found = {"np": np, "jnp": jnp, "jax": jax, **own_names(test), **test.globs}, []
    with contextlib.redirect_stdout(io.StringIO()):
        for example in test.examples:
            try:
                code = compile(example.source, test.name, "eval")
            except SyntaxError:
                code = compile(example.source, test.name, "exec")
            try:
                found += tree_leaves(eval(code, names))
            except Exception:
                if example.exc_msg is None:
                    raise
    return found

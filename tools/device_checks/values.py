"""The operation table on a device: the values of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from optable.table import all_ops, precision_of
from optable.trees import along, flat_call, moving

import teucer as jax

DTYPES = ("float32", "int32", "complex64", "bfloat16", "bool")
# Units in the last place of the greatest element. What is beyond was computed in other numbers, or
# is another function: products in bfloat16 miss float32 by 2^15.
LIMIT = 2.0**12
# Vectors of decompositions are right with either sign, of any phase.
BY_MODULUS = ("eig", "svd", "qr", "geqrf", "geqp3", "schur", "hessenberg", "tridiagonal", "house")
# Each compiler has its own bits.
OF_THE_COMPILER = ("rng_uniform", "rng_bit_generator")


def checks(device: Any, dtypes: Any = DTYPES) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The rows of the table, the dtypes in turn; then derivatives."""
    for dtype in dtypes:
        for name, op in all_ops().items():
            if dtype in op.dtypes and name not in OF_THE_COMPILER:
                yield f"{name} {dtype}", lambda n=name, d=dtype: compared(n, d, device)
    for name, op in all_ops().items():
        if "float32" in op.dtypes and "gradient" not in op.exceptions:
            yield (
                f"gradient of {name}",
                lambda n=name: compared(n, "float32", device, derivatives=True),
            )


def compared(name: str, dtype: str, device: Any, *, derivatives: bool = False) -> dict[str, Any]:
    """The largest difference between a device and the CPU, over all calls of a row."""
    op = all_ops()[name]
    functions, operands = [], []
    with precision_of(dtype), jax.default_matmul_precision("highest"):
        for call in op.calls(dtype):
            leaves, f = flat_call(op, call)
            if derivatives:
                moves = moving(op, call)
                f, leaves = along(f, leaves, moves), _kept(leaves, moves)
                f = _gradient(f)
            if leaves or not derivatives:
                functions.append(f)
                operands.append(leaves)

        def all_calls(operands: Any) -> Any:
            return [f(*xs) for f, xs in zip(functions, operands, strict=True)]

        found, expected = (
            jax.tree.leaves(jax.device_get(jax.jit(all_calls)(jax.device_put(operands, d))))
            for d in (device, jax.devices("cpu")[0])
        )
    by_modulus = name.startswith(BY_MODULUS)
    worst = max((_ulp(x, y, by_modulus) for x, y in zip(found, expected, strict=True)), default=0.0)
    return {"verdict": "ok" if worst <= LIMIT else "WRONG", "ulp": worst}


def _kept(xs: Any, kept: Any) -> list[Any]:
    return [x for x, keep in zip(xs, kept, strict=True) if keep]


def _gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    def g(*xs: Any) -> Any:
        ys, pull = jax.vjp(f, *xs)
        return pull(ys)

    return g


def _ulp(found: Any, expected: Any, by_modulus: bool) -> float:
    """The largest error in units in the last place of the greatest number; inf where something that
    has no error differs."""
    found, expected = np.asarray(found), np.asarray(expected)
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return np.inf
    if not jax.numpy.issubdtype(found.dtype, jax.numpy.inexact):
        return 0.0 if np.array_equal(found, expected) else np.inf
    unit = float(jax.numpy.finfo(found.dtype).eps)
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    found, expected = found.astype(wide), expected.astype(wide)
    if by_modulus:
        found, expected = abs(found), abs(expected)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    if not np.array_equal(np.isfinite(found), np.isfinite(expected)):
        return np.inf
    if same.all():
        return 0.0
    finite = np.isfinite(expected)
    if not same[~finite].all():
        return np.inf
    greatest = max(float(abs(expected[finite]).max()), float(np.finfo(np.float32).tiny))
    return float(abs(found - expected)[finite].max() / (greatest * unit))

"""Every operation of the operation table with symbolic sizes: mapped over an axis of symbolic size, and with all of its sizes
symbolic. What is exported computes what is computed with known sizes; the rest is refused while it is traced or lowered."""

import numpy as np
import pytest
from optable.table import all_ops
from optable.trees import flat_call

import teucer as jax
from teucer import export
from teucer.errors import InconclusiveDimensionOperation

# What vmap makes of these over a symbolic size cannot be told to the compiler.
NO_SYMBOLIC_BATCH = {
    "bitcast_convert_type",  # between widths that differ
    "pure_callback",  # Python
    # a symbolic number of groups
    "conv_general_dilated", "conv", "conv_transpose", "convolution: conv", "convolution: conv_same", "convolution: conv_transpose",
    "convolution: conv_strided_dilated", "convolution: conv_feature_groups", "convolution: conv_batch_groups",
    "convolution: conv_without_space"}
# So many operations that are tested quickly; all others are slow.
EVERY = 30


def cases():
    for i, op in enumerate(all_ops().values()):
        dtype = next((d for d in ("float32", "complex64", "int32", "bool") if d in op.dtypes), None)
        if dtype is not None:
            yield pytest.param(op, dtype, id=op.name, marks=() if i % EVERY == 0 else pytest.mark.slow)


def calls_of(op, dtype):
    """Functions of arrays, with arrays."""
    for call in op.calls(dtype, 0)[:2]:
        leaves, f = flat_call(op, call)
        if leaves and not any(np.asarray(x).dtype == object for x in leaves):
            yield f, [np.asarray(x) for x in leaves]


def check(exported, args, expected):
    for got, want in zip(jax.tree.leaves(exported.call(*args)), jax.tree.leaves(expected), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if jax.dtypes.issubdtype(got.dtype, jax.dtypes.prng_key):
            got, want = map(jax.random.key_data, (got, want))
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
def test_mapped_over_a_symbolic_size(op, dtype):
    (n,) = export.symbolic_shape("n")
    for f, args in calls_of(op, dtype):
        args = [np.stack([x] * 3) for x in args]
        specs = [jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype) for x in args]
        try:
            expected = jax.jit(jax.vmap(f))(*args)
        except (TypeError, ValueError, NotImplementedError):
            continue  # cannot be mapped at all
        if op.name in NO_SYMBOLIC_BATCH:
            try:
                exported = export.export(jax.jit(jax.vmap(f)))(*specs)
            except (InconclusiveDimensionOperation, NotImplementedError):
                continue
        else:
            exported = export.export(jax.jit(jax.vmap(f)))(*specs)
        check(exported, args, expected)


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
def test_of_symbolic_sizes(op, dtype):
    """Equal sizes are one variable. A wrong result is an error; a refusal is none."""
    for f, args in calls_of(op, dtype):
        scope = export.SymbolicScope()
        sizes = {n: export.symbolic_shape(f"v{n}", scope=scope)[0] for x in args for n in x.shape if n > 1}
        specs = [jax.ShapeDtypeStruct([sizes.get(n, n) for n in x.shape], x.dtype) for x in args]
        try:
            exported = export.export(jax.jit(f))(*specs)
        except (InconclusiveDimensionOperation, TypeError, ValueError, IndexError, NotImplementedError):
            continue
        check(exported, args, jax.jit(f)(*args))

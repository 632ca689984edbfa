"""Every operation of the operation table with symbolic sizes.

Mapped over an axis of symbolic size, and with all of its sizes
symbolic. What is exported computes what is computed with known sizes; the rest is refused while it
is traced or lowered.
"""

import numpy as np
import pytest
from optable.table import all_ops
from optable.trees import flat_call
from sampling import some

import teucer as jax
import teucer.numpy as jnp
from teucer import export
from teucer.errors import ConcretizationTypeError, InconclusiveDimensionOperation

# What vmap makes of these over a symbolic size cannot be told to the compiler.
NO_SYMBOLIC_BATCH = {
    "bitcast_convert_type",  # between widths that differ
    "pure_callback",  # Python
    # a symbolic number of groups
    "conv_general_dilated",
    "conv",
    "conv_transpose",
    "convolution: conv",
    "convolution: conv_same",
    "convolution: conv_transpose",
    "convolution: conv_strided_dilated",
    "convolution: conv_feature_groups",
    "convolution: conv_batch_groups",
    "convolution: conv_without_space",
}
# Custom calls that XLA does not promise to keep, which export refuses unless it is told to let them
# through.
UNCHECKED = {"layout_constraint": [export.DisabledSafetyCheck.custom_call("LayoutConstraint")]}
# So many operations that are tested quickly; all others are slow.
EVERY = 30


def cases():
    for i, op in enumerate(all_ops().values()):
        dtype = next((d for d in ("float32", "complex64", "int32", "bool") if d in op.dtypes), None)
        if dtype is not None:
            yield pytest.param(
                op, dtype, id=op.name, marks=() if i % EVERY == 0 else pytest.mark.slow
            )


def calls_of(op, dtype):
    """Functions of arrays, with arrays."""
    for call in op.calls(dtype, 0)[:2]:
        leaves, f = flat_call(op, call)
        if leaves and not any(np.asarray(x).dtype == object for x in leaves):
            yield f, [np.asarray(x) for x in leaves]


def check(exported, args, expected):
    for got, want in zip(
        jax.tree.leaves(exported.call(*args)), jax.tree.leaves(expected), strict=True
    ):
        assert got.dtype == want.dtype and got.shape == want.shape
        if jax.dtypes.issubdtype(got.dtype, jax.dtypes.prng_key):
            got, want = map(jax.random.key_data, (got, want))
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
def test_mapped_over_a_symbolic_size(op, dtype):
    (n,) = export.symbolic_shape("n")
    unchecked = UNCHECKED.get(op.name, ())
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
            exported = export.export(jax.jit(jax.vmap(f)), disabled_checks=unchecked)(*specs)
        check(exported, args, expected)


@pytest.mark.parametrize(("op", "dtype"), list(cases()))
def test_of_symbolic_sizes(op, dtype):
    """Equal sizes are one variable. A wrong result is an error; a refusal is none."""
    for f, args in calls_of(op, dtype):
        scope = export.SymbolicScope()
        sizes = {
            n: export.symbolic_shape(f"v{n}", scope=scope)[0]
            for x in args
            for n in x.shape
            if n > 1
        }
        specs = [jax.ShapeDtypeStruct([sizes.get(n, n) for n in x.shape], x.dtype) for x in args]
        try:
            exported = export.export(jax.jit(f))(*specs)
        except (
            InconclusiveDimensionOperation,
            TypeError,
            ValueError,
            IndexError,
            NotImplementedError,
        ):
            continue
        check(exported, args, jax.jit(f)(*args))


# Of a float32[a, b], two rows at least; what JAX 0.10.2 exports too, with some more places to
# delete and to insert at.
EXPORTED = {
    "delete": lambda x: [
        jnp.delete(x, i, axis)
        for i in (0, -1, np.array([1, 0, 1]), np.array([-2, -1]))
        for axis in (0, 1)
    ],
    "delete traced": lambda x: (
        jnp.delete(x, x[:, 0].argmax(), 0),
        jnp.delete(x, x[0, :2].argsort(), 1, assume_unique_indices=True),
    ),
    "delete none": lambda x: jnp.delete(x, np.array([], int), 0),
    "insert": lambda x: [
        jnp.insert(x, i, 7.0, axis)
        for i in (0, 1, -1, np.array([1, 0]), np.array([2]))
        for axis in (0, 1)
    ],
    "insert values": lambda x: (
        jnp.insert(x, 1, x[0], 0),
        jnp.insert(x, 1, x[:, 0], 1),
        jnp.insert(x, np.array([0]), x[:1], 0),
    ),
    "insert places": lambda x: (
        jnp.insert(x, x.shape[0], x[0], 0),
        jnp.insert(x, x[:, 0].argmax(), 7.0, 0),
        jnp.insert(x, 1, 7.0),
    ),
    "trace": lambda x: [jnp.trace(y, k) for y in (x, x.T, x @ x.T) for k in (0, 1, -1, 3, -3)],
    "trace of planes": lambda x: (
        jnp.trace(x[None] + x[:, None], 0, 1, 2),
        jnp.linalg.trace(x, offset=1),
    ),
    "diagonals": lambda x: [
        f(y, k) for f in (jnp.diag, jnp.diagonal) for y in (x, x > 0.5) for k in (0, 2, -2)
    ],
    "packbits": lambda x: [
        jnp.packbits(x > 0.5, axis, order) for axis in (None, 0, 1) for order in ("big", "little")
    ],
    "polynomials": lambda x: [
        f(*pair)
        for f in (jnp.polyadd, jnp.polysub)
        for pair in ((x[0], x[:, 0]), (x[0], jnp.ones(1)))
    ],
    "unravel_index": lambda x: jnp.unravel_index(jnp.array([1, -1, 99]), x.shape),
    "put": lambda x: [
        jnp.put(x, jnp.array([0, -1, 99]), jnp.array([7.0, 8.0]), m, inplace=False)
        for m in ("clip", "wrap")
    ],
    "diagonals further on": lambda x: (
        jnp.tril(x, x.shape[0]),
        jnp.triu(x, -x.shape[1]),
        jnp.trace(x, x.shape[0] - 1),
    ),
    "repeat": lambda x: (
        jnp.repeat(x, x.shape[0]),
        jnp.repeat(x, x.shape[1] - 2, 0),
        jnp.repeat(x, x.shape[0], 1),
    ),
    "repeat to a length": lambda x: [
        jnp.repeat(x, x.shape[0], axis, total_repeat_length=n)
        for axis in (None, 0, 1)
        for n in (5, x.shape[1])
    ],
    "one place": lambda x: [
        jax.lax.index_in_dim(x, i, axis, keepdims=k)
        for axis in (0, 1)
        for i in (x.shape[axis] - 1, -1, 0)
        for k in (False, True)
    ],
    "resize": lambda x: (
        jnp.resize(x, (x.shape[1], 3)),
        jnp.resize(x, x.shape[0] * 3),
        jax.image.resize(x, (2 * x.shape[0], x.shape[1]), "nearest"),
    ),
    "derivative of scatter": jax.grad(
        lambda x: (x.at[jnp.array([0, 1, 0])].set(2 * x[jnp.array([1, 1, 0])]) ** 2).sum()
    ),
    "range": lambda x: [
        jnp.arange(start, x.shape[0], step)
        for start in (np.int8(-1), True, x.shape[1])
        for step in (2, -1, x.shape[1])
    ],
    "isin": lambda x: jnp.isin(x, x[0]),
    "shape_as_value": lambda x: (
        jax.lax.shape_as_value(x.shape),
        jax.lax.shape_as_value((3, x.shape[0] + 1)),
    ),
    "matrices": lambda x: (
        jax.scipy.linalg.hilbert(x.shape[0]),
        jax.scipy.linalg.circulant(x),
        jax.scipy.linalg.circulant(x[0]),
        [jax.scipy.linalg.dft(x.shape[0], scale) for scale in (None, "sqrtn", "n")],
    ),
    "stacks of one array": lambda x: [
        f(y)
        for f in (jnp.vstack, jnp.hstack, jnp.dstack, jnp.column_stack, jnp.stack)
        for y in (x[0], x, x[:, None] * x)
    ],
    "quantiles": lambda x: [
        f(x, x[0], axis, keepdims=keep)
        for f in (jnp.quantile, jnp.nanquantile)
        for axis in (None, 0)
        for keep in (False, True)
    ],
    "weighted quantiles": lambda x: jnp.quantile(x, x[0], 0, weights=x, method="inverted_cdf"),
    "dirichlet": lambda x: (
        jax.random.dirichlet(jax.random.key(0), x),
        jax.random.dirichlet(jax.random.key(0), x[0], x.shape[:1]),
    ),
    "gamma": lambda x: jax.random.gamma(jax.random.key(0), x[:, None], (x.shape[0], 3, x.shape[1])),
    "derivative of loggamma": jax.grad(lambda x: jax.random.loggamma(jax.random.key(1), x).sum()),
    "permutation": lambda x: [
        jax.random.permutation(jax.random.key(0), y, axis, independent=i)
        for axis in (0, 1)
        for y, i in ((x, False), (x, True), (jnp.tile(x, (20, 20)), True))
    ],
    "choice": lambda x: [
        jax.random.choice(jax.random.key(0), n, (2,), replace=r)
        for r in (False, True)
        for n in (x, x.shape[0])
    ],
    "weibull_min": lambda x: [
        jax.random.weibull_min(jax.random.key(0), x, 2.0, shape) for shape in (x.shape, x[0].shape)
    ],
    "multivariate_normal": lambda x: jax.random.multivariate_normal(
        jax.random.key(0), x, jnp.eye(x.shape[1])
    ),
    "slices that may be empty": lambda x: [
        x[a:b:s] for s in (2, -2) for a, b in ((0, -4), (0, -2 * x.shape[1] - 2), (3, 1))
    ],
    "slices": lambda x: [
        x[a:b:s]
        for s in (2, -2, x.shape[1], -x.shape[1])
        for a, b in ((None, None), (None, x.shape[1]), (x.shape[1], -1), (-x.shape[1], None))
    ],
    "changed slices": lambda x: x.at[:: x.shape[1]].add(1.0).at[-1:0:-2].multiply(3.0),
    "segments": lambda x: [
        jax.ops.segment_max(x, jnp.arange(x.shape[0]) % 2, x.shape[1], bucket_size=size)
        for size in (None, 2, x.shape[1])
    ],
    "approx_max_k": lambda x: jax.lax.approx_max_k(x, x.shape[1]),
    "frequencies": lambda x: [
        f(x.shape[0], d) for f in (jnp.fft.fftfreq, jnp.fft.rfftfreq) for d in (1.0, x[0, 0])
    ],
    "fft": lambda x: (
        jnp.fft.rfft(x, n=4),
        jnp.fft.fft(x, n=4, axis=0),
        jnp.fft.irfft(x, n=4),
        jnp.fft.fft2(x, s=(3, 4)),
    ),
}


@pytest.mark.parametrize("name", some(EXPORTED, 2))
def test_functions_of_symbolic_sizes(name):
    f = jax.jit(EXPORTED[name])
    exported = export.export(f)(
        jax.ShapeDtypeStruct(
            export.symbolic_shape("a, b", constraints=["a >= 2", "b >= 2"]), np.float32
        )
    )
    for shape in ((2, 2), (2, 3), (3, 2), (5, 2), (2, 9), (9, 9)):
        x = np.random.default_rng(0).random(shape, np.float32)
        check(exported, [x], f(x))
        y = jax.jit(EXPORTED[name], dynamic_dims={"x": {0: (2, 9), 1: (2, 9)}})(x)
        for got, want in zip(jax.tree.leaves(y), jax.tree.leaves(f(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (
            lambda x: jnp.delete(x, 7, 0),
            InconclusiveDimensionOperation,
            "'a' <= '7' is inconclusive",
        ),
        (lambda x: jnp.delete(x, -7, 0), InconclusiveDimensionOperation, "inconclusive"),
        (
            lambda x: jnp.delete(x, np.array([0, -1]), 0),
            NotImplementedError,
            "delete: by slices, masks or both ends",
        ),
        (lambda x: jnp.delete(x, slice(1, None), 0), NotImplementedError, "delete: by slices"),
        (
            lambda x: jnp.delete(x, np.array([True, False]), 0),
            NotImplementedError,
            "delete: by slices, masks",
        ),
        (lambda x: jnp.insert(x, slice(0, 2), 7.0, 0), NotImplementedError, "insert: by slices"),
        (
            lambda x: jnp.insert(x, 7, 7.0, 0),
            InconclusiveDimensionOperation,
            "'a' < '7' is inconclusive",
        ),
        (
            lambda x: jax.lax.index_in_dim(x, x.shape[0], 0),
            IndexError,
            "index a is out of bounds for axis 0 with size a",
        ),
        (
            lambda x: jnp.arange(0.0, x.shape[0]),
            ValueError,
            r"dimension expressions or integers.\n    start: 0.0",
        ),
        (lambda x: jnp.arange(0, x.shape[0], np.float32(0.5)), ValueError, "step: 0.5"),
        (lambda x: jnp.arange(0, x.shape[0], 0), ValueError, "arange has step == 0"),
        (
            lambda x: jnp.arange(0, x.shape[0], x.shape[1] - 2),
            InconclusiveDimensionOperation,
            r"arange .*step \(b - 2\) must be resolved statically(?s:.*)'b - 2' > '0' is inconcl",
        ),
        (
            lambda x: jnp.split(x, x.shape[0]),
            ValueError,
            "jax.numpy.split with a symbolic number of sections is not supported(?s:.*)sections: a",
        ),
        (lambda x: jnp.array_split(x, x.shape[0]), ValueError, "numpy.array_split with a symbolic"),
        (lambda x: jnp.hsplit(x, x.shape[1]), ValueError, "numpy.hsplit with a symbolic"),
        (
            jnp.squeeze,
            ValueError,
            r"squeeze with axis=None is not supported with shape poly.*(?s:.*)a: float32\[a,b\]",
        ),
        (
            lambda x: jax.lax.linalg.eigh(x, symmetrize_input=False),
            ValueError,
            r"symmetric eigendecomposition must have shape \[..., n, n\], got shape \(a, b\)",
        ),
        (
            lambda x: jax.core.max_dim(x.shape[0], np.array([1])),
            TypeError,
            "nly integer scalar arrays can be converted to a scalar index",
        ),
        (lambda x: jax.core.min_dim(1.5, x.shape[0]), TypeError, "interpreted as an integer"),
        (
            lambda x: jnp.arange(x[0, 0].astype(int), x.shape[0]),
            ConcretizationTypeError,
            "jnp.arange argument 'start'",
        ),
        (
            lambda x: x.reshape([x.shape[0], -1, 3]),
            InconclusiveDimensionOperation,
            r"shapes \(a, b\) and \(a, -1, 3\)",
        ),
    ],
)
def test_places_that_may_not_be_there(f, error, message):
    with pytest.raises(error, match=message):
        export.export(jax.jit(f))(jax.ShapeDtypeStruct(export.symbolic_shape("a, b"), np.float32))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_streams_of_the_older_threefry(n):
    """Bits of an unknown number of elements, of which one word is left over where that is odd."""
    with jax.threefry_partitionable(False):
        bits = jax.jit(lambda x: jax.random.bits(jax.random.key(1), x.shape))
        exported = export.export(bits)(jax.ShapeDtypeStruct(export.symbolic_shape("a"), np.float32))
        x = np.zeros(n, np.float32)
        assert exported.call(x).tolist() == bits(x).tolist()


def test_no_bits_of_the_older_threefry():
    with jax.threefry_partitionable(False):
        bits = jax.jit(lambda x: jax.random.bits(jax.random.key(1), (*x.shape, 0)))
        exported = export.export(bits)(jax.ShapeDtypeStruct(export.symbolic_shape("a"), np.float32))
        assert exported.call(np.zeros(3, np.float32)).shape == (3, 0)


@pytest.mark.parametrize(
    "config",
    [
        lambda a, b: ((a, b, a), (0, 0, 0)),
        lambda a, b: ((-1, b, 2), (a - 2, -1, b)),
        lambda a, b: ((0, 1 - a, 1), (0, 0, b)),
    ],
)
def test_as_many_holes_as_elements(config):
    def padded(x):
        return jax.lax.pad(x, jnp.float32(7), config(*x.shape))

    exported = export.export(jax.jit(padded))(
        jax.ShapeDtypeStruct(
            export.symbolic_shape("a, b", constraints=["a >= 2", "b >= 2"]), np.float32
        )
    )
    for shape in ((2, 2), (3, 2), (2, 5)):
        x = np.random.default_rng(0).random(shape, np.float32)
        assert exported.call(x).tolist() == padded(x).tolist()


@pytest.mark.parametrize("shape", [(2, 2), (5, 2), (2, 5)])
def test_qr_of_unknown_shape(shape):
    def factors(x):
        return [jnp.linalg.qr(x, mode) for mode in ("reduced", "complete")]

    x = np.random.default_rng(0).random(shape, np.float32)
    exported = export.export(jax.jit(factors))(
        jax.ShapeDtypeStruct(export.symbolic_shape("a, b"), np.float32)
    )
    check(exported, [x], factors(x))

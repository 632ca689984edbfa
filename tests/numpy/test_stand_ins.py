"""Objects of users' classes with `__jax_array__` are operands everywhere, as the arrays that they
stand for."""

import dataclasses
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

X, SQUARE, PLACES = np.arange(1.0, 6.0, dtype="float32"), np.eye(5, dtype="float32"), np.arange(5)
OPERANDS = [
    (
        (X,),
        "abs amax angle around argmax argsort atleast_2d average cumsum cumulative_prod "
        "cumulative_sum diag diagflat diff ediff1d fft.fft fft.hfft fft.irfft fft.rfft flip i0 "
        "iscomplex isreal mean median ndim nonzero ones_like ptp ravel shape sin size sort std "
        "trim_zeros unwrap vander zeros_like",
    ),
    (
        (X, X),
        "add arctan2 array_equal convolve correlate digitize dot fmin hypot inner kron logaddexp "
        "matmul meshgrid mod outer polyadd searchsorted vdot linalg.outer",
    ),
    (
        (SQUARE,),
        "diagonal fft.fft2 fft.fftn fft.ifft2 linalg.det linalg.eigh linalg.inv linalg.norm "
        "linalg.svd rot90 trace tril triu",
    ),
    ((SQUARE, X), "linalg.solve matvec"),
    ((X, SQUARE), "vecmat"),
    ((SQUARE, SQUARE), "tensordot"),
    ((PLACES,), "bincount"),
    ((X, np.int32(1)), "delete roll take"),
    ((X, np.int32(1), np.float32(2.0)), "insert"),
]
CASES = [(args, name) for args, names in OPERANDS for name in names.split()]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Scaled:
    """An array kept as its half, so that its leaf is not the array."""

    half: object

    def __jax_array__(self):
        return 2 * jnp.asarray(self.half)


def wrapped(x):
    return Scaled(x / 2) if x.dtype.kind == "f" else Integer(x)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Integer:
    value: object

    def __jax_array__(self):
        return jnp.asarray(self.value)


@pytest.mark.parametrize(("args", "name"), CASES, ids=[name for _, name in CASES])
def test_operands(args, name):
    function = jnp
    for part in name.split("."):
        function = getattr(function, part)
    results = function(*map(wrapped, args)), function(*args)
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


LISTS = {
    "block": lambda x, n: jnp.block([[x, x], [x, x]]),
    "choose": lambda x, n: jnp.choose(n, [x] * 5),
    "column_stack": lambda x, n: jnp.column_stack([x, x]),
    "concatenate": lambda x, n: jnp.concatenate([x, x]),
    "dstack": lambda x, n: jnp.dstack([x, x]),
    "einsum": lambda x, n: jnp.einsum("i,i->", x, x),
    "histogram2d": lambda x, n: jnp.histogram2d(x, x, bins=[x, x]),
    "histogramdd": lambda x, n: jnp.histogramdd(jnp.stack([x, x], 1), bins=[x, x], weights=x),
    "ix_": lambda x, n: jnp.ix_(n, n),
    "lexsort": lambda x, n: jnp.lexsort([x, n]),
    "multi_dot": lambda x, n: jnp.linalg.multi_dot([x, jnp.eye(5), x]),
    "piecewise": lambda x, n: jnp.piecewise(x, [jnp.greater(x, 2)], [1.0, 2.0]),
    "ravel_multi_index": lambda x, n: jnp.ravel_multi_index([n, n], (5, 6)),
    "ravel_multi_index, clip": lambda x, n: jnp.ravel_multi_index((n, n), (2, 6), mode="clip"),
    "select": lambda x, n: jnp.select([jnp.greater(x, 2)], [x], x),
    "stack": lambda x, n: jnp.stack([x, x]),
    "take_along_axis": lambda x, n: jnp.take_along_axis(x, n, axis=0),
    "key of x.at": lambda x, n: jnp.zeros(5).at[n].set(x),
    "key": lambda x, n: jnp.arange(5)[n, None],
}


@pytest.mark.parametrize("name", LISTS)
def test_operands_in_lists(name):
    given, alone = (LISTS[name](*args) for args in ((wrapped(X), Integer(PLACES)), (X, PLACES)))
    for a, b in zip(*map(jax.tree.leaves, (given, alone)), strict=True):
        assert jax.typeof(a) == jax.typeof(b)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_calls_that_come_again():
    """C++ does not take the leaves of such an object for the array."""
    for _ in range(3):
        assert float(jnp.sum(Scaled(X / 2))) == X.sum()
    with jax.disable_jit():
        assert float(jnp.sum(Scaled(X / 2))) == X.sum()
    assert float(jax.jit(lambda x: jnp.matmul(x, X))(Scaled(X / 2))) == X @ X


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like", "full_like"])
def test_descriptions(name):
    """Shape and dtype of an object are enough for an array like it."""

    class Described:
        shape, dtype = (2, 3), np.dtype("int8")

        def __jax_array__(self):
            raise AssertionError

    found = getattr(jnp, name)(Described(), *[3] * (name == "full_like"))
    assert (found.shape, found.dtype) == ((2, 3), np.int8)


@pytest.mark.parametrize(
    "name",
    ["acos", "arccos", "mod", "remainder", "pow", "amax", "invert", "conjugate", "true_divide"],
)
def test_aliases_say_their_names(name):
    assert getattr(jnp, name).__name__ == getattr(jnp, name).__qualname__ == name


def test_aliases_share_programs():
    assert jnp.arccos.compiled is jnp.acos.compiled


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="C++ gives NumPy the bytes before Python 3.12"
)
def test_keys_are_no_numbers():
    keys = jax.random.split(jax.random.key(0))
    for convert in (np.asarray, np.array, np.sin, lambda k: np.array([k])):
        with pytest.raises(
            TypeError, match=r"(?s)PRNGKey dtype cannot be converted to a NumPy array.*key_data"
        ):
            convert(keys)
    with pytest.raises(BufferError, match="key_data"):
        memoryview(keys)
    words = np.asarray(jax.random.key_data(keys))
    assert words.shape == (2, 2)

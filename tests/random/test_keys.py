"""Random keys as arrays: dtype, text, words, structural operations, transformations, refusals."""

import copy
import pickle

import numpy as np
import pytest

import teucer as jax
from teucer import lax, random
from teucer import numpy as jnp
from teucer._base import config

IMPLS = ("threefry2x32", "rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32")


def words(keys):
    return np.asarray(random.key_data(keys))


@pytest.fixture(params=IMPLS)
def keys(request):
    return random.split(random.key(1, impl=request.param), 3)


def test_repr_and_dtype():
    k = random.key(0)
    assert repr(k) == str(k) == f"{k}" == "Array((), dtype=key<fry>) overlaying:\n[0 0]"
    assert k.dtype == random.key(1).dtype == random.key_dtype()
    assert k.dtype != random.key(0, impl="rbg").dtype
    assert k.dtype != jnp.float32
    assert (k.dtype.name, k.itemsize, k.nbytes, k.shape, k.ndim, k.size) == (
        "key<fry>",
        8,
        8,
        (),
        0,
        1,
    )
    assert jnp.issubdtype(k.dtype, jax.dtypes.prng_key)
    assert jnp.issubdtype(k.dtype, jax.dtypes.extended)
    assert not jnp.issubdtype(k.dtype, np.number)
    assert isinstance(k, jax.Array)


def test_wrap_is_inverse_of_key_data(keys):
    again = random.wrap_key_data(random.key_data(keys), impl=random.key_impl(keys))
    assert again.dtype == keys.dtype
    assert bool((again == keys).all())


def test_copies(keys):
    for other in (
        copy.copy(keys),
        copy.deepcopy(keys),
        pickle.loads(pickle.dumps(keys)),
        jax.device_put(keys),
        jax.device_get(keys),
        random.clone(keys),
        jax.device_put(keys, jax.devices()[-1]),
    ):
        assert other.dtype == keys.dtype
        np.testing.assert_array_equal(words(other), words(keys))


STRUCTURAL = {
    "index": (lambda k: k[1], lambda w: w[1]),
    "slice": (lambda k: k[1:], lambda w: w[1:]),
    "array_index": (lambda k: k[np.array([2, 0])], lambda w: w[np.array([2, 0])]),
    "reshape": (lambda k: k.reshape(3, 1), lambda w: w.reshape(3, 1, -1)),
    "transpose": (lambda k: k.reshape(1, 3).T, lambda w: w.reshape(3, 1, -1)),
    "stack": (lambda k: jnp.stack([k, k], 1), lambda w: np.stack([w, w], 1)),
    "concatenate": (lambda k: jnp.concatenate([k, k]), lambda w: np.concatenate([w, w])),
    "where": (
        lambda k: jnp.where(np.array([True, False, True]), k, k[0]),
        lambda w: np.stack([w[0], w[0], w[2]]),
    ),
    "broadcast": (
        lambda k: jnp.broadcast_to(k, (2, 3)),
        lambda w: np.broadcast_to(w, (2, *w.shape)),
    ),
    "rev": (lambda k: lax.rev(k, (0,)), lambda w: w[::-1]),
    "dynamic_slice": (lambda k: lax.dynamic_slice(k, (1,), (2,)), lambda w: w[1:]),
    "dynamic_update": (
        lambda k: lax.dynamic_update_slice(k, k[:1], (2,)),
        lambda w: np.stack([w[0], w[1], w[0]]),
    ),
    "at_set": (lambda k: k.at[0].set(k[2]), lambda w: np.stack([w[2], w[1], w[2]])),
    "iterate": (lambda k: list(k)[2], lambda w: w[2]),
}


@pytest.mark.parametrize("name", STRUCTURAL)
def test_structural_operations(keys, name):
    f, reference = STRUCTURAL[name]
    for g in (f, jax.jit(f)):
        found = g(keys)
        assert found.dtype == keys.dtype
        np.testing.assert_array_equal(words(found), reference(words(keys)))
    batched = jax.vmap(f)(jnp.stack([keys, keys]))
    np.testing.assert_array_equal(words(batched)[1], reference(words(keys)))


def test_equality(keys):
    assert (keys == keys).tolist() == [True] * 3
    assert (keys == keys[1]).tolist() == [False, True, False]
    assert (keys != keys[1]).tolist() == [True, False, True]
    assert jax.jit(lambda k: k == k[0])(keys).tolist() == [True, False, False]
    assert jax.vmap(lambda a, b: a == b)(keys, keys).tolist() == [True] * 3


def test_control_flow(keys):
    k = keys[0]
    chain = random.fold_in(random.fold_in(k, 0), 1)
    np.testing.assert_array_equal(
        words(lax.fori_loop(0, 2, lambda i, k: random.fold_in(k, i), k)), words(chain)
    )
    counted = lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, random.fold_in(c[1], c[0])), (0, k)
    )
    np.testing.assert_array_equal(words(counted[1]), words(chain))
    _, out = lax.scan(lambda c, k: (c, random.fold_in(k, 1)), 0, keys)
    np.testing.assert_array_equal(words(out)[2], words(random.fold_in(keys[2], 1)))
    np.testing.assert_array_equal(
        words(lax.cond(True, lambda k: k, lambda k: random.fold_in(k, 1), k)), words(k)
    )


def test_constants_of_programs():
    k = random.key(5)
    np.testing.assert_array_equal(
        words(jax.jit(lambda: random.fold_in(k, 2))()), words(random.fold_in(k, 2))
    )


def test_programs_tell_keys_apart():
    """C++ dispatches on words, shape and weak type: arrays of all kinds of keys and of their words
    need programs of their own."""
    f = jax.jit(lambda x: x)
    values = [
        random.key(0),
        random.key(0, impl="rbg"),
        random.key(0, impl="unsafe_rbg"),
        jnp.zeros(2, "uint32"),
        jnp.zeros(4, "uint32"),
        random.split(random.key(0), 4),
        jnp.zeros((4, 2), "uint32"),
    ]
    for _ in range(2):
        for x in values:
            assert (f(x).dtype, f(x).shape) == (x.dtype, x.shape)


def test_words_and_generator_by_their_private_names():
    """Programs read them; an array of numbers has neither, so that hasattr tells them apart."""
    keys = jax.random.split(jax.random.key(0), 3)
    assert (
        keys._base_array.tolist() == jax.random.key_data(keys).tolist()
        and keys._base_array.devices() == keys.devices()
    )
    assert keys._impl is keys.dtype._impl and keys._impl.key_shape == (2,)
    numbers = jnp.ones(3)
    assert not hasattr(numbers, "_base_array") and not hasattr(numbers, "_impl")
    keys.delete()
    assert keys._base_array.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(keys._base_array)


def test_jaxpr():
    assert (
        str(jax.make_jaxpr(lambda s: random.key(s))(0))
        == "{ lambda ; a:i32[]. let b:key<fry>[] = random_seed[impl=fry] a in (b,) }"
    )
    assert "random_split[shape=(2,)]" in str(jax.make_jaxpr(random.split)(random.key(0)))


def test_raw_keys_give_raw_keys():
    raw, typed = random.PRNGKey(3), random.key(3)
    np.testing.assert_array_equal(random.split(raw), words(random.split(typed)))
    np.testing.assert_array_equal(random.fold_in(raw, 1), words(random.fold_in(typed, 1)))
    np.testing.assert_array_equal(random.normal(raw, (3,)), random.normal(typed, (3,)))
    np.testing.assert_array_equal(random.normal(np.asarray(raw), (3,)), random.normal(typed, (3,)))
    np.testing.assert_array_equal(jax.jit(random.split)(raw), random.split(raw))


@pytest.mark.parametrize("num", [(2, 3), [2, 3], range(2, 4)], ids=repr)
def test_keys_are_split_into_a_shape(num):
    keys = random.split(random.key(0), num)
    assert keys.shape == (2, 3)
    flat = random.split(random.key(0), 6)
    np.testing.assert_array_equal(random.key_data(keys).reshape(6, -1), random.key_data(flat))


def test_options():
    with jax.default_prng_impl("rbg"):
        assert random.key(0).dtype.name == "key<rbg>"
        assert random.PRNGKey(0).shape == (4,)
        assert random.uniform(random.PRNGKey(0)).shape == ()
    with jax.enable_custom_prng(True):
        assert random.PRNGKey(0).dtype.name == "key<fry>"
    with (
        jax.legacy_prng_key("error"),
        pytest.raises(ValueError, match="Legacy uint32 key array passed as key"),
    ):
        random.uniform(random.PRNGKey(0))
    with (
        jax.legacy_prng_key("warn"),
        pytest.warns(UserWarning, match="Legacy uint32 key array passed as key"),
    ):
        random.uniform(random.PRNGKey(0))


REFUSED = [
    (lambda k: k + 1, TypeError, "add does not accept dtypes key<fry>, int32"),
    (lambda k: k * k, TypeError, "mul does not accept dtype key<fry>"),
    (lambda k: -k, TypeError, "neg does not accept dtype key<fry>"),
    (lambda k: k < k, TypeError, "lt does not accept dtype key<fry>"),
    (lambda k: k == 1, TypeError, "equal does not accept dtypes key<fry>, int32"),
    (
        lambda k: k == random.key(0, impl="rbg"),
        TypeError,
        "equal does not accept dtypes key<fry>, key<rbg>",
    ),
    (lambda k: k.tolist(), TypeError, "cannot be converted to a NumPy array"),
    (lambda k: hash(k), TypeError, "unhashable type"),
    (lambda k: lax.sort(k[None]), TypeError, "lt_to does not accept dtype key<fry>"),
    (
        lambda k: lax.convert_element_type(k, "uint32"),
        ValueError,
        "Cannot convert_element_type from key<fry> to uint32",
    ),
    (
        lambda k: jax.grad(lambda k: random.normal(k))(k),
        TypeError,
        "grad requires real- or complex-valued inputs",
    ),
    (
        lambda k: random.split(k[None]),
        ValueError,
        r"split accepts a single key, but was given a key array of shape \(1,\)",
    ),
    (
        lambda k: random.split(0),
        TypeError,
        "expected key_data to have ndim, shape, and dtype attributes. Got 0",
    ),
    (lambda k: random.split(None), TypeError, "unexpected PRNG key type"),
    (
        lambda k: random.split(jnp.zeros(2)),
        TypeError,
        r"expected key_data.dtype = uint32; got dtype=float32",
    ),
    (
        lambda k: random.split(jnp.zeros(3, "uint32")),
        TypeError,
        r"expected key_data.shape to end with \(2,\); got shape=\(3,\)",
    ),
    (lambda k: random.fold_in(k, -1), OverflowError, "-1 out of bounds for uint32"),
    (lambda k: random.fold_in(k, jnp.arange(2)), TypeError, "fold_in accepts a scalar"),
    (lambda k: random.key(k), TypeError, "key accepts a scalar seed, but was given a PRNG key"),
    (lambda k: random.key(1.5), TypeError, "PRNG key seed must be an integer"),
    (
        lambda k: random.PRNGKey(jnp.arange(3)),
        TypeError,
        "PRNGKey accepts a scalar seed, but was given an array of shape",
    ),
    (lambda k: random.PRNGKey(2**63), OverflowError, "Python int too large"),
    (lambda k: random.key(0, impl="foo"), ValueError, 'unrecognized PRNG implementation "foo"'),
    (
        lambda k: random.key(0, impl="rbg", dtype=k.dtype),
        ValueError,
        "Cannot specify both `impl` and `dtype`",
    ),
    (lambda k: random.key(0, impl=3), TypeError, "unrecognized type <class 'int'>"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[2][:40])
def test_refused(case):
    f, error, message = case
    with pytest.raises(error, match=message):
        f(random.key(0))


@pytest.mark.parametrize(
    "seed, low",
    [
        (3, 8),
        (-1, 4),
        (2**40, 5),
        (np.uint32(2**32 - 1), 4),
        (np.int16(3), 8),
        (np.uint8(254), 3),
        (True, 6),
        (jnp.int32(4), 9),
    ],
)
def test_seed_offset(seed, low):
    """The words were printed by JAX 0.10.2, with jax_random_seed_offset = 5."""
    with config.random_seed_offset(5):
        assert random.key_data(random.key(seed)).tolist() == [0, low]
        assert jax.jit(lambda: random.key_data(random.key(seed)))().tolist() == [0, low]


def test_keys_of_every_generator_move():
    """C++ tells keys of generators apart by axes behind their words, of which parts from the host
    have none."""
    mesh = jax.make_mesh((2, 4), ("a", "b"))
    over_a, over_b = (jax.NamedSharding(mesh, jax.P(name)) for name in "ab")
    for impl in ("rbg", "unsafe_rbg", "threefry2x32"):
        keys = jax.random.split(jax.random.key(0, impl=impl), 8)
        moved = jax.device_put(keys, over_b)
        for other in (
            moved,
            jax.device_put(moved, over_a),
            jax.jit(lambda k: k, out_shardings=over_a)(keys),
            jax.make_array_from_callback((8,), over_b, lambda index, keys=keys: keys[index]),
        ):
            np.testing.assert_array_equal(jax.random.key_data(other), jax.random.key_data(keys))


@pytest.mark.parametrize(
    "f",
    [
        lambda k, v: jnp.full((2,), v, k.dtype),
        lambda k, v: jax.lax.full((2,), v, k.dtype),
        lambda k, v: jnp.full_like(k, v, shape=(2,)),
        lambda k, v: jax.lax.full_like(k, v, shape=(2,)),
    ],
)
@pytest.mark.parametrize("value", [100, -1, True, np.uint32(3), np.int8(-2), 2.0])
def test_keys_filled_with_a_number(f, value):
    """Each word is the number, wrapped around; a key fills with itself."""
    for impl in ("threefry2x32", "rbg"):
        key = random.key(0, impl=impl)
        found = f(key, value)
        assert found.dtype == key.dtype and found.shape == (2,)
        words = random.key_data(found)
        np.testing.assert_array_equal(words, np.full(words.shape, int(value) % 2**32, np.uint32))
        np.testing.assert_array_equal(random.key_data(f(key, key))[1], random.key_data(key))


def test_an_array_of_keys_is_no_dtype():
    key = jax.random.key(0)
    for f in (jnp.zeros, jnp.ones, jnp.empty, lambda n, dtype: jnp.full(n, 0, dtype)):
        with pytest.raises(ValueError, match="Passing an array as a dtype argument"):
            f(3, dtype=key)
    for f in (jnp.float32(1).astype, lambda dtype: jnp.arange(3, dtype=dtype)):
        with pytest.raises(ValueError, match="Passing an array as a dtype argument"):
            f(key)
    with pytest.raises(ValueError, match=r"Could not convert Array\(.*key<fry>(?s:.*)x.dtype"):
        jnp.issubdtype(key, jax.dtypes.prng_key)
    assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert jnp.zeros(2, key.dtype).dtype == key.dtype

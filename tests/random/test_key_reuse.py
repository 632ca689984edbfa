"""Random keys that are used twice.

In programs, loops and branches, by calls one after the other, and what is no reuse.
"""

import numpy as np
import pytest

import teucer as jax
from teucer import lax, random
from teucer import numpy as jnp
from teucer.errors import KeyReuseError
from teucer.experimental.key_reuse._core import (
    Forward,
    KeyReuseSignature,
    Sink,
    Source,
    check_key_reuse,
    consume,
    consume_p,
    function_type_signature,
    key_reuse_signatures,
)
from teucer.extend import core
from teucer.interpreters import batching, mlir
from teucer.lax import _random_keys as keys


def key(seed=0):
    return random.key(seed)


def loop(body):
    return lambda k: lax.scan(body, k, jnp.arange(3))


def split_step(k, _):
    k, sub = random.split(k)
    return k, random.normal(sub)


GOOD = {
    "once": random.normal,
    "split": lambda k: [random.normal(x) for x in random.split(k)],
    "fold_in": lambda k: (
        [random.normal(random.fold_in(k, i)) for i in range(3)] + [random.normal(k)]
    ),
    "clone": lambda k: (random.normal(k), random.normal(random.clone(k))),
    "data": lambda k: (random.key_data(k), random.normal(k), k == key(1)),
    "halves": lambda k: (
        lambda ks: (jax.vmap(random.normal)(ks[:2]), jax.vmap(random.normal)(ks[2:]))
    )(random.split(k, 4)),
    "reversed": lambda k: (lambda ks: (random.normal(ks[0]), random.normal(ks[::-1][0])))(
        random.split(k)
    ),
    "stacked": lambda k: (lambda a, b: jax.vmap(random.normal)(jnp.stack([a, b])))(
        *random.split(k)
    ),
    "branches": lambda k: lax.cond(random.key_data(k)[0] > 3, random.normal, random.uniform, k),
    "scan": loop(split_step),
    "scan over keys": lambda k: lax.map(random.normal, random.split(k, 5)),
    "scan of length 1": lambda k: lax.scan(lambda c, _: (c, random.normal(k)), 0, jnp.arange(1)),
    "while": lambda k: lax.while_loop(
        lambda c: c[1] < 3, lambda c: split_step(c[0], None), (k, jnp.float32(0))
    )[1],
    "fori": lambda k: lax.fori_loop(
        0, 3, lambda i, c: c + random.normal(random.fold_in(k, i)), 0.0
    ),
    "unused": lambda k: (random.normal(k), jax.jit(lambda k, x: x)(k, 1))[0],
    "vmap": lambda k: jax.vmap(random.normal)(random.split(k, 3)),
    "grad": lambda k: jax.grad(lambda x: x * random.normal(k))(1.0),
    "checkpoint": lambda k: jax.grad(jax.checkpoint(lambda x: jnp.sin(x * random.normal(k))))(1.0),
    "gamma": lambda k: random.gamma(k, 2.0),
    "permutation": lambda k: random.permutation(k, 10),
}

BAD = {
    "twice": (
        lambda k: random.normal(k) + random.uniform(k),
        "random_bits, argument 0 is already consumed",
    ),
    "after split": (lambda k: (random.split(k), random.normal(k)), "random_bits"),
    "split twice": (
        lambda k: (random.split(k), random.split(k)),
        "random_split, argument 0 is already consumed",
    ),
    "half of a split": (
        lambda k: (lambda ks: (random.normal(ks[1]), random.normal(ks[1])))(random.split(k)),
        "random_bits",
    ),
    "reshaped": (lambda k: random.normal(k) + random.normal(k.reshape(1)[0]), "random_bits"),
    "broadcast": (lambda k: jax.vmap(random.normal)(jnp.broadcast_to(k, (3,))), "random_bits"),
    "vmap": (
        lambda k: jax.vmap(lambda i: random.normal(k) + random.normal(k) + i)(jnp.arange(2.0)),
        "random_bits",
    ),
    "jit": (
        lambda k: jax.jit(random.normal)(k) + jax.jit(random.normal)(k),
        "In jit, argument 0 is already consumed",
    ),
    "jit, the same key": (
        lambda k: jax.jit(lambda a, b: random.normal(a) + random.normal(b))(k, k),
        "In jit, argument 1",
    ),
    "from a jit": (
        lambda k: random.normal(jax.jit(lambda k: (random.normal(k), k))(k)[1]),
        "random_bits",
    ),
    "within a jit": (jax.jit(lambda k: random.normal(k) + random.normal(k)), "random_bits"),
    "after a branch": (
        lambda k: random.normal(k) + lax.cond(True, random.normal, lambda k: jnp.float32(1), k),
        "cond",
    ),
    "before a branch": (
        lambda k: lax.cond(True, random.normal, lambda k: jnp.float32(1), k) + random.normal(k),
        "random_bits",
    ),
    "scan, closed over": (
        loop(lambda c, _: (c, random.normal(key_of_closure))),
        "scan body function leads to key reuse",
    ),
    "scan, carried": (
        loop(lambda k, _: (k, random.normal(k))),
        "scan body function leads to key reuse",
    ),
    "scan, over used keys": (
        lambda k: (lambda ks: (lax.map(random.normal, ks), random.normal(ks[1])))(
            random.split(k, 3)
        ),
        "random_bits",
    ),
    "while body": (
        lambda k: lax.while_loop(
            lambda c: c[1] < 3, lambda c: (c[0], c[1] + random.normal(c[0])), (k, 0.0)
        ),
        "while_loop body function leads to key reuse",
    ),
    "while cond": (
        lambda k: lax.while_loop(
            lambda c: c[1] < random.normal(c[0]), lambda c: (c[0], c[1] + 1), (k, 0.0)
        ),
        "while_loop cond function leads to key reuse",
    ),
    "while cond, carried behind constants": (
        lambda k: (
            lambda x: lax.while_loop(
                lambda c: c[1] < random.normal(c[0]), lambda c: (c[0], c[1] + x), (k, 0.0)
            )
        )(jnp.float32(random.key_data(k)[0]) + 1),
        "argument 1 is already consumed: the while_loop cond function leads to key reuse",
    ),
    "while cond, closed over": (
        lambda k: lax.while_loop(lambda c: c < random.normal(k), lambda c: c + 1, 0.0),
        "argument 0 is already consumed: the while_loop cond function leads to key reuse",
    ),
    "of an operation that is not known": (
        lambda k: random.normal(of_a_library_p.bind(k)),
        "random_bits",
    ),
    "given to an operation that is not known": (
        lambda k: (random.normal(k), of_a_library_p.bind(k)),
        "In of_a_library, argument 0",
    ),
    "fori": (
        lambda k: lax.fori_loop(0, 3, lambda i, c: c + random.normal(k), 0.0),
        "leads to key reuse",
    ),
    "checkpoint": (jax.checkpoint(lambda k: random.normal(k) * random.normal(k)), "random_bits"),
    "grad": (
        lambda k: jax.jit(jax.grad(lambda x, k: x * random.normal(k) * random.normal(k)))(1.0, k),
        "random_bits",
    ),
    "gamma": (lambda k: random.gamma(k, 2.0) + random.normal(k), "random_bits"),
    "made inside": (
        lambda k: (lambda n: random.normal(n) + random.normal(n))(key(7)),
        "random_bits",
    ),
}

key_of_closure = key(5)
of_a_library_p = core.Primitive("of_a_library")
of_a_library_p.def_impl(lambda k: k)
of_a_library_p.def_abstract_eval(lambda k: k)
mlir.register_lowering(of_a_library_p, lambda ctx, k: [k])
batching.primitive_batchers[of_a_library_p] = lambda args, dims: (
    of_a_library_p.bind(*args),
    dims[0],
)


@pytest.mark.parametrize("name", GOOD)
def test_no_reuse(name):
    f = jax.jit(lambda k: GOOD[name](k))
    with jax.debug_key_reuse(True):
        f(key())
        jax.jit(lambda k: jax.tree.leaves(GOOD[name](k)))(key(1))


@pytest.mark.parametrize("name", BAD)
def test_reuse_in_programs(name):
    f, message = BAD[name]
    with jax.debug_key_reuse(True), pytest.raises(KeyReuseError, match=message) as caught:
        jax.jit(lambda k: f(k))(key())
    assert "\n    key: key<fry>[" in str(caught.value)  # the argument of that number is one
    if name != "within a jit":
        jax.jit(lambda k: f(k))(key())  # nobody looks unless asked


def test_the_line_is_named():
    def f(k):
        x = random.normal(k)
        return x + random.uniform(k)  # the second use

    line = f.__code__.co_firstlineno + 2
    with (
        jax.debug_key_reuse(True),
        pytest.raises(KeyReuseError, match=rf"test_key_reuse.py:{line}"),
    ):
        jax.jit(f)(key())


# Calls one after the other


def test_reuse_by_calls():
    with jax.debug_key_reuse(True):
        k = key()
        random.fold_in(k, 1)
        random.normal(k)
        random.normal(random.clone(k))
        for use in (
            random.split,
            random.normal,
            jax.jit(random.normal),
            lambda k: jax.jit(lambda: random.normal(k))(),
        ):
            with pytest.raises(
                KeyReuseError, match="Previously-consumed key passed to .* at index 0"
            ):
                use(k)
    random.normal(k)


def test_reuse_without_jit():
    with jax.debug_key_reuse(True), jax.disable_jit():
        k = key()
        random.bits(k)
        with pytest.raises(
            KeyReuseError, match="Previously-consumed key passed to random_bits at index 0"
        ):
            random.bits(k)


def test_a_call_that_fails_uses_nothing():
    with jax.debug_key_reuse(True):
        k = key()
        with pytest.raises(KeyReuseError):
            jax.jit(lambda k: random.normal(k) + random.normal(k))(k)
        random.normal(k)


def test_parts_of_an_array_of_keys():
    first = jax.jit(lambda ks: random.normal(ks[0]))
    second = jax.jit(lambda ks: random.normal(ks[1]))
    with jax.debug_key_reuse(True):
        ks = random.split(key())
        first(ks)
        second(ks)
        with pytest.raises(KeyReuseError, match="index 0"):
            first(ks)


def test_the_same_program_sees_every_call():
    f = jax.jit(random.normal)
    k = key()
    f(k), f(k)
    with jax.debug_key_reuse(True):
        f(k)
        with pytest.raises(KeyReuseError):
            f(k)
    f(k)


def test_no_keys():
    with jax.debug_key_reuse(True):
        ks = random.split(key(), 0)
        out = jax.vmap(lambda k: [random.bits(x) for x in random.split(k)])(ks)
    assert out[0].shape == (0,)


def test_values_do_not_change():
    f = jax.jit(lambda k: loop(split_step)(k)[1])
    with jax.debug_key_reuse(True):
        looked_at = f(key(3))
    np.testing.assert_array_equal(looked_at, f(key(3)))


SIGNATURES = {
    consume_p: (consume, key()),
    keys.random_clone_p: (random.clone, key()),
    keys.random_bits_p: (random.bits, key()),
    keys.random_seed_p: (random.key, 0),
    keys.random_split_p: (random.split, key()),
    keys.random_wrap_p: (random.wrap_key_data, np.uint32([0, 0])),
    random.random_gamma_p: (random.gamma, key(), 1.0),
    lax.broadcast_in_dim_p: (lambda k: k[None], key()),
    lax.copy_p: (jnp.array, key()),
    lax.convert_element_type_p: (lambda k: lax.convert_element_type(k, k.dtype), key()),
    lax.reshape_p: (lambda k: k.reshape((1,)), key()),
    lax.squeeze_p: (jnp.squeeze, key()[None]),
    lax.dynamic_slice_p: (lambda k: lax.dynamic_slice(k, (0,), (1,)), key()[None]),
    lax.dynamic_update_slice_p: (
        lambda k: lax.dynamic_update_slice(k, k, (0,)),
        key()[None],
    ),
}


def test_every_signature_has_a_call():
    assert SIGNATURES.keys() == key_reuse_signatures.keys()


@pytest.mark.parametrize("primitive", SIGNATURES, ids=str)
def test_signatures_are_what_the_check_finds(primitive):
    fun, *args = SIGNATURES[primitive]
    assert function_type_signature(fun, *args) == key_reuse_signatures[primitive]


SIGNED = {
    "both used": (
        lambda a, b: (random.bits(a), random.bits(b)),
        KeyReuseSignature(Sink(0), Sink(1)),
    ),
    "crossed": (lambda a, b: (b, a), KeyReuseSignature(Forward(0, 1), Forward(1, 0))),
    "one element": (
        lambda a, b: random.bits(random.split(a)[0]),
        KeyReuseSignature(Sink(0)),
    ),
    "used result": (
        lambda a, b: (lambda k: (random.bits(k[0]), k))(random.split(a)),
        KeyReuseSignature(Sink(0), Source(1, [False, True])),
    ),
    "nothing": (lambda a, b: a == b, KeyReuseSignature()),
}


@pytest.mark.parametrize("name", SIGNED)
def test_signatures_of_functions(name):
    fun, expected = SIGNED[name]
    assert function_type_signature(fun, key(0), key(1)) == expected
    assert function_type_signature(jax.jit(fun), key(0), key(1)) == expected


def test_a_signature_of_elements():
    found = function_type_signature(lambda k: random.bits(k[1]), random.split(key()))
    assert found == KeyReuseSignature(Sink(0, [False, True]))
    assert repr(found) == "KeyReuseSignature(Sink(0, mask=[False, True]))"
    with pytest.raises(ValueError, match="Sink cannot be changed"):
        found.sinks[0].idx = 1


def test_the_check_goes_by_a_signature_that_is_set():
    """A primitive of a library, of which the check knows nothing, is taken to use its keys up."""
    mine = core.Primitive("mine")
    mine.def_abstract_eval(lambda k: k)

    def twice(k):
        return mine.bind(mine.bind(k))

    with pytest.raises(KeyReuseError, match="In mine, argument 0"):
        check_key_reuse(twice, key())
    key_reuse_signatures[mine] = KeyReuseSignature(Forward(0, 0))
    try:
        check_key_reuse(twice, key())
        assert function_type_signature(twice, key()) == KeyReuseSignature(Forward(0, 0))
        key_reuse_signatures[mine] = KeyReuseSignature(Sink(0), Source(0))
        check_key_reuse(lambda k: mine.bind(mine.bind(k)).shape, key())
        with pytest.raises(KeyReuseError, match="In mine, argument 0"):
            check_key_reuse(lambda k: (mine.bind(k), mine.bind(k)), key())
    finally:
        del key_reuse_signatures[mine]

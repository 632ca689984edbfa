"""The form in which threefry draws is that of the option where the call was traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer import export, lax, random
from teucer._base import config
from teucer.extend.core import jaxpr_as_fun
from teucer.extend.random import define_prng_impl, threefry_prng_impl

DRAWS: dict[str, Callable[[Any], Any]] = {
    "bits": lambda k: random.bits(k, (5,)),
    "bytes": lambda k: random.bits(k, (3,), "uint8"),
    "split": lambda k: random.key_data(random.split(k, 3)),
    "fold_in": lambda k: random.key_data(random.fold_in(k, 7)),
    "gamma": lambda k: random.gamma(k, 2.0, (3,)),
    "loggamma": lambda k: random.loggamma(k, 0.5, (3,)),
    "multinomial": lambda k: random.multinomial(k, 5, np.array([0.25, 0.75], "float32")),
    "permutation": lambda k: random.permutation(k, 7),
    "poisson": lambda k: random.poisson(k, 4.0, (5,)),
}
# The same words, by a generator of the user's: its functions read the option when they run.
OURS = define_prng_impl(
    key_shape=(2,),
    seed=threefry_prng_impl.seed,
    split=lambda key, shape: threefry_prng_impl.split(key, shape),
    random_bits=lambda key, width, shape: threefry_prng_impl.random_bits(key, width, shape),
    fold_in=lambda key, data: threefry_prng_impl.split(threefry_prng_impl.fold_in(key, data), ()),
)
KEYS = {"threefry": lambda: random.key(3), "ours": lambda: random.key(3, impl=OURS)}
FORMS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "jit": lambda f, k: jax.jit(f)(k),
    "jit of jit": lambda f, k: jax.jit(jax.jit(f))(k),
    "jaxpr": lambda f, k: jaxpr_as_fun(jax.make_jaxpr(f)(k))(k)[0],
    "scan": lambda f, k: lax.scan(lambda c, _: (c, f(c)), k, None, 2)[1][1],
    "cond": lambda f, k: jax.jit(lambda k: lax.cond(True, f, f, k))(k),
    "vmap": lambda f, k: jax.vmap(f)(k[None])[0],
    "checkpoint": lambda f, k: jax.jit(jax.checkpoint(f))(k),
    "lowered first": lambda f, k: jax.jit(f).trace(k).lower().compile()(k),
}


def within(partitionable: bool, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f, with the option set inside of it."""

    def g(key: Any) -> Any:
        with jax.threefry_partitionable(partitionable):
            return f(key)

    return g


@pytest.mark.parametrize(
    "draw, form",
    [*((draw, "jit") for draw in DRAWS), *(("gamma", form) for form in FORMS if form != "jit")],
)
def test_the_option_within_a_traced_function_counts(draw: str, form: str) -> None:
    for make in KEYS.values():
        key, f = make(), DRAWS[draw]
        # An option that is set outside again, while the program is made, changes nothing.
        for partitionable in (True, False):
            want = within(partitionable, f)(key)
            with jax.threefry_partitionable(not partitionable):
                got = FORMS[form](within(partitionable, f), key)
            if want.dtype == np.float32:
                np.testing.assert_allclose(got, want, rtol=1e-6)
            else:
                np.testing.assert_array_equal(got, want)


def test_both_forms_in_one_program() -> None:
    def both(key: Any) -> Any:
        return [within(p, DRAWS["bits"])(key) for p in (True, False, True)]

    key = random.key(5)
    new, old, again = jax.jit(both)(key)
    np.testing.assert_array_equal(new, again)
    np.testing.assert_array_equal(new, within(True, DRAWS["bits"])(key))
    np.testing.assert_array_equal(old, within(False, DRAWS["bits"])(key))
    assert (np.asarray(new) != np.asarray(old)).any()


def test_only_the_older_form_is_written_in_jaxprs() -> None:
    key = random.key(5)
    assert "partitionable" not in str(jax.make_jaxpr(DRAWS["bits"])(key))
    assert "partitionable=False" in str(jax.make_jaxpr(within(False, DRAWS["bits"]))(key))


def test_an_exported_program_keeps_its_form() -> None:
    words = random.key_data(random.key(3))

    def f(words: Any) -> Any:
        return within(False, DRAWS["bits"])(random.wrap_key_data(words))

    got = export.deserialize(export.export(jax.jit(f))(words).serialize()).call(words)
    np.testing.assert_array_equal(got, within(False, DRAWS["bits"])(random.key(3)))


def test_the_tail_of_gumbel_is_that_of_the_option_at_each_call() -> None:
    f, key = jax.jit(lambda k: random.gumbel(k, (20,))), random.key(0)
    low = f(key)
    with config.high_dynamic_range_gumbel(True):
        high = f(key)
    np.testing.assert_array_equal(high, random.gumbel(key, (20,), mode="high"))
    np.testing.assert_array_equal(low, f(key))

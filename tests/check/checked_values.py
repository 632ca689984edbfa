"""Programs for the rules on types, keys and values."""

import numpy as np
from check.checked import f32, fault, fine, i32

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

X, V = f32(4, 8), f32(10)
KEY = jax.random.key(0)
RAW = jax.random.PRNGKey(0)


@fault("T101", X)
def product_of_wrong_sizes(x):
    return x @ x


@fault("T101", X)
def sum_of_wrong_sizes(x):
    return x + jnp.ones(3)


@fault("T101", X)
def reshape_of_wrong_size(x):
    return x.reshape(5, 5)


@fault("T101", V)
def carry_changes_its_shape(x):
    return lax.scan(lambda c, y: (jnp.append(c, y), None), jnp.zeros(0), x)[0]


@fine("T101", X)
def product_of_right_sizes(x):
    return x @ x.T


@fine("T101", X)
def sum_of_a_row(x):
    return x + jnp.ones(8)


@fine("T101", X)
def reshape_of_right_size(x):
    return x.reshape(2, -1)


@fine("T101", V)
def carry_keeps_its_shape(x):
    return lax.scan(lambda c, y: (c + y, c), jnp.zeros(()), x)


@fault("T103", f32())
def branch_on_a_value(x):
    return x if x > 0 else -x


@fault("T103", i32())
def loop_over_a_value(n):
    return sum(i for i in range(n))


@fault("T103", X)
def numpy_of_a_value(x):
    return np.sin(np.asarray(x))


@fault("T103", i32())
def shape_from_a_value(n):
    return jnp.zeros(n)


@fault("T103", V)
def mask_of_a_value(x):
    return x[x > 0]


@fine("T103", f32())
def choice_by_where(x):
    return jnp.where(x > 0, x, -x)


@fine("T103", i32())
def loop_over_a_value_on_the_device(n):
    return lax.fori_loop(0, n, lambda i, c: c + i, 0)


@fine("T103", X)
def branch_on_a_shape(x):
    return x if x.shape[0] > 2 else -x


@fine("T103", V)
def mask_by_where(x):
    return jnp.where(x > 0, x, 0).sum()


@fault("T201", KEY)
def two_draws(key):
    return jax.random.normal(key, (3,)) + jax.random.uniform(key, (3,))


@fault("T201", KEY)
def draw_and_split(key):
    x = jax.random.normal(key)
    return x, jax.random.split(key)


@fault("T201", KEY)
def one_key_for_all_steps(key):
    return lax.fori_loop(0, 5, lambda i, c: c + jax.random.normal(key), 0.0)


@fault("T201", RAW)
def two_draws_from_a_raw_key(key):
    return jax.random.normal(key, (3,)) + jax.random.uniform(key, (3,))


@fault("T201", RAW)
def raw_key_split_and_used(key):
    a, b = jax.random.split(key)
    return jax.random.normal(a), jax.random.normal(key), b


@fine("T201", KEY)
def split_first(key):
    a, b = jax.random.split(key)
    return jax.random.normal(a) + jax.random.normal(b)


@fine("T201", KEY)
def folded_in(key):
    return lax.fori_loop(0, 5, lambda i, c: c + jax.random.normal(jax.random.fold_in(key, i)), 0.0)


@fine("T201", RAW)
def raw_split_first(key):
    a, b = jax.random.split(key)
    return jax.random.normal(a) + jax.random.normal(b)


@fine("T201", RAW)
def raw_keys_of_steps(key):
    keys = jax.random.split(key, 5)
    return lax.scan(lambda c, k: (c + jax.random.normal(k), None), 0.0, keys)[0]


@fine("T201", KEY)
def one_of_two_branches(key):
    return lax.cond(True, jax.random.normal, jax.random.uniform, key)


@fault("T301", X)
def element_that_is_not_there(x):
    return x[jnp.array([1, 9])]


@fault("T301", X)
def update_that_is_not_there(x):
    return x.at[4].set(1.0)


@fault("T301", X)
def slice_beyond_the_end(x):
    return lax.dynamic_slice(x, (5, 0), (1, 8))


@fault("T301", V)
def loop_from_beyond(x):
    return lax.fori_loop(0, 3, lambda i, c: c + x[i + 10], 0.0)


@fine("T301", X)
def last_element(x):
    return x[jnp.array([0, -1])], x[-4]


@fine("T301", X)
def update_of_the_last(x):
    return x.at[3].set(1.0).at[-4].add(1.0)


@fine("T301", X, i32())
def element_by_an_argument(x, i):
    return x[i], x.at[i].set(0.0)


@fine("T301", V)
def loop_up_to_the_end(x):
    return lax.fori_loop(0, 10, lambda i, c: c + x[i], 0.0)


@fault("T302", i32(3))
def division_by_a_sum_of_nothing(x):
    return x // jnp.sum(jnp.zeros(3, jnp.int32))


@fault("T302", X)
def division_by_one_too_few(x):
    n = x[:1].shape[0]
    return x.sum() / (jnp.asarray(n) - 1)


@fault("T302", X)
def division_by_zeros(x):
    return x / jnp.zeros(8)


@fault("T302", i32(3))
def remainder_by_zero(x):
    return lax.rem(x, jnp.zeros(3, jnp.int32))


@fine("T302", X)
def division_by_an_argument(x):
    return x / x[0]


@fine("T302", X)
def division_that_is_guarded(x):
    n = jnp.zeros(8)
    return jnp.where(n > 0, x / n, 0.0)


@fine("T302", X)
def division_by_a_size(x):
    return x / x.shape[0]


@fine("T302", X)
def nan_that_is_meant(x):
    return jnp.where(x > 0, x, jnp.zeros(()) / jnp.zeros(()))


@fault("T303", X)
def log_of_a_negative_number(x):
    return jnp.log(-jnp.exp(x))


@fault("T303", X)
def root_of_a_negative_number(x):
    return jnp.sqrt(-1.0 - x**2)


@fault("T303", X)
def asin_beyond_one(x):
    return jnp.arcsin(2.0 + jnp.abs(x))


@fault("T303", X)
def log1p_below_minus_one(x):
    return jnp.log1p(-2.0 - jax.nn.sigmoid(x))


@fine("T303", X)
def log_of_an_argument(x):
    return jnp.log(x)


@fine("T303", X)
def root_of_a_sum_of_squares(x):
    return jnp.sqrt(1.0 + x**2)


@fine("T303", X)
def asin_of_a_sine(x):
    return jnp.arcsin(jnp.sin(x))


@fine("T303", X)
def log_of_zero_at_the_edge(x):
    return jnp.log(jnp.abs(x))


@fault("T304", X)
def root_of_a_sine(x):
    return jnp.sqrt(jnp.sin(x))


@fault("T304", KEY)
def log_of_normal_numbers(key):
    return jnp.log(jax.random.normal(key, (3,)))


@fault("T304", X)
def log_of_tanh(x):
    return jnp.log(jnp.tanh(x))


@fault("T304", KEY)
def asin_of_a_wide_interval(key):
    return jnp.arcsin(jax.random.uniform(key, (3,), minval=-2.0, maxval=2.0))


@fine("T304", X)
def root_of_one_minus_a_square(x):
    return jnp.sqrt(1.0 - jnp.sin(x) ** 2)


@fine("T304", X)
def log_where_it_is_positive(x):
    y = jnp.tanh(x)
    return jnp.log(jnp.where(y > 0, y, 1.0))


@fine("T304", KEY)
def log_of_uniform_numbers(key):
    return jnp.log(jax.random.uniform(key, (3,), minval=0.1))


@fine("T304", X)
def variance_of_a_probability(x):
    p = jax.nn.sigmoid(x)
    return jnp.sqrt(p - p**2)


@fault("T305", X)
def equal_to_nan(x):
    return x == jnp.nan


@fault("T305", X)
def not_equal_to_nan(x):
    return jnp.where(x != jnp.nan, x, 0.0)


@fault("T305", X)
def equal_to_nan_of_numpy(x):
    return jnp.any(x == np.float32("nan"))


@fault("T305", X)
def nan_on_the_left(x):
    return jnp.equal(jnp.nan, x)


@fine("T305", X)
def is_nan(x):
    return jnp.isnan(x)


@fine("T305", X)
def not_equal_to_itself(x):
    return x != x


@fine("T305", X)
def equal_to_infinity(x):
    return x == jnp.inf


@fine("T305", X)
def nan_as_a_value(x):
    return jnp.where(x == 0, jnp.nan, x)

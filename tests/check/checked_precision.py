"""Programs for the rules on precision, speed and gradients."""

import numpy as np
from check.checked import f32, fault, fine, i32

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

X, V = f32(4, 8), f32(10)
H = jax.ShapeDtypeStruct((100_000,), "bfloat16")
BIG = np.ones((2000, 1000), np.float32)


@fault("T401", X)
def log_of_one_plus(x):
    return jnp.log(1 + x)


@fault("T401", X)
def exp_minus_one(x):
    return jnp.exp(x) - 1


@fault("T401", X)
def log_of_softmax(x):
    return jnp.log(jax.nn.softmax(x))


@fault("T401", X)
def log_of_sum_of_exp(x):
    return jnp.log(jnp.sum(jnp.exp(x), axis=-1))


@fault("T401", X)
def softplus_by_hand(x):
    return jnp.log(1 + jnp.exp(x))


@fault("T401", X)
def cross_entropy_by_hand(x):
    p = jax.nn.sigmoid(x)
    return -jnp.log(p) - jnp.log(1 - p)


@fine("T401", X)
def log1p(x):
    return jnp.log1p(x) + jax.nn.softplus(x) + jnp.expm1(x)


@fine("T401", X)
def log_softmax(x):
    return jax.nn.log_softmax(x) + jax.nn.logsumexp(x)


@fine("T401", i32(4))
def log_of_one_plus_a_count(n):
    return jnp.log(1 + n)


@fine("T401", X)
def shifted_sum_of_exp(x):
    m = x.max(-1, keepdims=True)
    return jnp.log(jnp.sum(jnp.exp(x - m), axis=-1)) + m[:, 0]


@fine("T401", X)
def log_of_an_epsilon(x):
    return jnp.log(x + 1e-6)


@fault("T402", X)
def softmax_by_hand(x):
    return jnp.exp(x) / jnp.sum(jnp.exp(x))


@fault("T402", X)
def softmax_by_rows(x):
    e = jnp.exp(x)
    return e / e.sum(-1, keepdims=True)


@fault("T402", X, X)
def attention_by_hand(q, k):
    scores = jnp.exp(q @ k.T / jnp.sqrt(8.0))
    return scores / jnp.sum(scores, axis=1, keepdims=True)


@fault("T402", X)
def boltzmann_weights(energy):
    w = jnp.exp(-energy / 0.1)
    return w / w.sum()


@fine("T402", X)
def shifted_softmax(x):
    e = jnp.exp(x - x.max())
    return e / e.sum()


@fine("T402", X)
def softmax_of_bounded_numbers(x):
    e = jnp.exp(jnp.tanh(x))
    return e / e.sum()


@fine("T402", X)
def softmax(x):
    return jax.nn.softmax(x)


@fine("T402", X)
def share_of_a_sum(x):
    y = jnp.abs(x)
    return y / y.sum()


@fault("T403", X)
def variance_of_squares(x):
    return (x**2).mean() - x.mean() ** 2


@fault("T403", X)
def variance_of_squares_by_rows(x):
    return jnp.mean(x * x, axis=1) - jnp.mean(x, axis=1) ** 2


@fault("T403", X)
def variance_of_squares_by_jnp(x):
    m = jnp.mean(x, 0)
    return jnp.mean(jnp.square(x), 0) - m * m


@fault("T403", X)
def deviation_of_squares(x):
    return jnp.sqrt(jnp.mean(x**2) - jnp.mean(x) ** 2)


@fine("T403", X)
def variance(x):
    return jnp.var(x) + jnp.std(x)


@fine("T403", X)
def variance_around_the_mean(x):
    return ((x - x.mean()) ** 2).mean()


@fine("T403", X, X)
def difference_of_squares(x, y):
    return (x**2).mean() - y.mean() ** 2


@fine("T403", X)
def difference_of_means(x):
    return (x**2).mean() - x.mean()


@fault("T404", f32())
def float_counter(x):
    return lax.fori_loop(0, 2**25, lambda i, c: c + 1.0, x)


@fault("T404", H)
def bfloat16_running_sum(x):
    return lax.scan(lambda c, y: (c + jnp.abs(y), None), jnp.zeros((), x.dtype), x)[0]


@fault("T404", H)
def bfloat16_sum_kept_narrow(x):
    return lax.reduce_sum_p.bind(x, axes=(0,), out_sharding=None)


@fault("T404")
def float_positions():
    return jnp.arange(2**25, dtype=jnp.float32)


@fine("T404", f32())
def short_float_counter(x):
    return lax.fori_loop(0, 1000, lambda i, c: c + 1.0, x)


@fine("T404", H)
def bfloat16_sum_in_float32(x):
    return jnp.sum(x)


@fine("T404")
def integer_positions():
    return jnp.arange(2**25)


@fine("T404", i32())
def integer_counter(x):
    return lax.fori_loop(0, 2**25, lambda i, c: c + 1, x)


@fault("T501", f32(3, 2000))
def closed_over(x):
    return x @ BIG


@fault("T501", f32(3, 2000))
def closed_over_on_the_device(x):
    return x @ jnp.asarray(BIG)


@fault("T501", V)
def closed_over_in_a_loop(x):
    return lax.fori_loop(0, 3, lambda i, c: c + BIG.sum() * jnp.asarray(BIG)[0, :10], x)


@fault("T501", f32(3, 2000))
def closed_over_in_an_inner_jit(x):
    return jax.jit(lambda y: y @ BIG)(x)


@fine("T501", f32(3, 2000), f32(2000, 1000))
def given(x, w):
    return x @ w


@fine("T501", V)
def small_table(x):
    return x + np.arange(10, dtype=np.float32)


@fine("T501", V)
def made_in_the_program(x):
    return x @ jnp.ones((10, 200_000))


@fine("T501", f32(3, 2000))
def size_of_a_large_array(x):
    return x * BIG.shape[0]


@fault("T502", V)
def callback_in_a_scan(x):
    def step(c, y):
        return c + jax.pure_callback(np.sin, f32(), y), None

    return lax.scan(step, 0.0, x)[0]


@fault("T502", V)
def io_callback_in_a_loop(x):
    def step(i, c):
        return c + jax.experimental.io_callback(lambda v: v, f32(), c)

    return lax.fori_loop(0, 10, step, x.sum())


@fault("T502", f32())
def callback_in_a_while(x):
    return lax.while_loop(lambda c: c < 10, lambda c: jax.pure_callback(np.sqrt, f32(), c) + 2.0, x)


@fault("T502", V)
def callback_in_a_nested_loop(x):
    def inner(i, c):
        return c + jax.pure_callback(np.sin, f32(), c)

    return lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 3, inner, c), x.sum())


@fine("T502", V)
def callback_once(x):
    return jax.pure_callback(np.sin, f32(10), x)


@fine("T502", V)
def callback_after_a_loop(x):
    y = lax.fori_loop(0, 10, lambda i, c: c + x, x)
    return jax.pure_callback(np.sin, f32(10), y)


@fine("T502", V)
def print_in_a_loop(x):
    def step(i, c):
        jax.debug.print("{}", i)
        return c + 1

    return lax.fori_loop(0, 10, step, x)


@fine("T502", V)
def loop_without_callback(x):
    return lax.fori_loop(0, 10, lambda i, c: jnp.sin(c), x)


@fault("T503", X)
def unrolled(x):
    for _ in range(100):
        x = jnp.sin(x) * 2 + x
    return x


@fault("T503", f32(400))
def unrolled_elements(x):
    total = 0.0
    for i in range(400):
        total = total + x[i] ** 2
    return total


@fault("T503", f32(100))
def unrolled_updates(x):
    for i in range(1, 100):
        x = x.at[i].set(x[i - 1] * 0.5 + x[i])
    return x


@fault("T503", X)
def unrolled_while(x):
    n = 0
    while n < 90:
        x = jnp.tanh(x + 1) - x
        n += 1
    return x


@fine("T503", X)
def few_layers(x):
    for _ in range(12):
        x = jnp.sin(x) * 2 + x
    return x


@fine("T503", X)
def rolled(x):
    return lax.fori_loop(0, 100, lambda i, c: jnp.sin(c) * 2 + c, x)


@fine("T503", X)
def many_lines(x):
    a = jnp.sin(x) + jnp.cos(x)
    b = jnp.tanh(a) * a
    return jax.nn.softmax(b) + jax.nn.log_softmax(b) + jnp.var(b) + jnp.linalg.norm(b)


@fine("T503", f32(8))
def library_loop(x):
    return jax.scipy.special.digamma(x) + jnp.polyval(jnp.ones(20), x)


@fault("T703", X)
def rounded_loss(x):
    return jnp.sum(jnp.round(x))


@fault("T703", X)
def argmax_as_a_loss(x):
    return jnp.mean(jnp.argmax(x, -1) == 1)


@fault("T703", X)
def stopped_loss(x):
    return jnp.sum(lax.stop_gradient(x) ** 2)


@fault("T703", X)
def integer_loss(x):
    return jnp.mean(x.astype(jnp.int32).astype(jnp.float32))


@fault("T703", X)
def thresholded_loss(x):
    return jnp.sum(jnp.where(x > 0.5, 1.0, 0.0))


@fine("T703", X)
def straight_through(x):
    return jnp.sum(x + lax.stop_gradient(jnp.round(x) - x))


@fine("T703", X)
def partly_stopped(x):
    return jnp.sum(lax.stop_gradient(x) * x)


@fine("T703", X)
def rectified(x):
    return jnp.sum(jnp.where(x > 0, x, 0.0))


@fine("T703", X)
def labels(x):
    return jnp.argmax(x, -1)


@fault("T702", X)
def softmax_of_one(x):
    return jax.nn.softmax(x[:, :1])


@fault("T702", X)
def relu_of_a_negative_number(x):
    return jax.nn.relu(-jnp.exp(x))


@fault("T702", X)
def tanh_of_large_numbers(x):
    return jnp.tanh(100.0 + jax.nn.sigmoid(x))


@fault("T702", X)
def sigmoid_of_large_numbers(x):
    return jax.nn.sigmoid(jnp.exp(x) + 50.0)


@fine("T702", X)
def softmax_of_classes(x):
    return jax.nn.softmax(x[:, :2])


@fine("T702", X)
def relu_of_a_shifted_number(x):
    return jax.nn.relu(1.0 - jnp.exp(x))


@fine("T702", X)
def tanh_of_an_argument(x):
    return jnp.tanh(100.0 * x)


@fine("T702", X)
def sigmoid_of_an_exp(x):
    return jax.nn.sigmoid(jnp.exp(x))


@fault("T701", X)
def gradient_of_round(x):
    return jax.grad(lambda x: jnp.sum(jnp.round(x)))(x)


@fault("T701", X)
def step_by_accuracy(w):
    return w - 0.1 * jax.grad(lambda w: jnp.mean(jnp.argmax(w, -1) == 1))(w)


@fault("T701", X)
def gradient_of_what_is_stopped(x):
    return jax.value_and_grad(lambda x: jnp.sum(lax.stop_gradient(x) ** 2))(x)


@fault("T701", f32())
def derivative_of_floor(x):
    return jax.grad(jnp.floor)(x)


@fine("T701", X)
def gradient_of_squares(x):
    return jax.grad(lambda x: jnp.sum(x**2))(x)


@fine("T701", X)
def gradient_of_one_of_two(x):
    return jax.grad(lambda p: jnp.sum(p[0] ** 2))((x, x))


@fine("T701", X)
def zeros_that_are_meant(x):
    return jnp.zeros_like(x), jnp.round(x)


@fine("T701", X)
def gradient_through_a_rounding(x):
    return jax.grad(lambda x: jnp.sum(x + lax.stop_gradient(jnp.round(x) - x)))(x)


@fault("T405", X)
def log_where_positive(x):
    return jax.grad(lambda x: jnp.where(x > 0, jnp.log(x), 0.0).sum())(x)


@fault("T405", X)
def root_where_positive(x):
    return jax.grad(lambda x: jnp.sum(jnp.where(x < 1.0, x, jnp.sqrt(x))))(x)


@fault("T405", X)
def quotient_where_not_zero(x):
    return jax.grad(lambda x: jnp.sum(jnp.where(x == 0, 1.0, jnp.sin(x) / x)))(x)


@fault("T405", X)
def power_where_positive(x):
    return jax.grad(lambda x: jnp.sum(jnp.where(x > 0, 2.0 * x**0.5, 0.0)))(x)


@fine("T405", X)
def log_of_a_safe_number(x):
    def f(x):
        safe = jnp.where(x > 0, x, 1.0)
        return jnp.where(x > 0, jnp.log(safe), 0.0).sum()

    return jax.grad(f)(x)


@fine("T405", X)
def choice_without_singularity(x):
    return jax.grad(lambda x: jnp.where(x > 0, x**2, -x).sum())(x)


@fine("T405", X)
def log_of_something_else(x):
    return jax.grad(lambda x: jnp.where(x > 0, jnp.log(1.0 + x**2), 0.0).sum())(x)


@fine("T405", X)
def functions_of_the_library(x):
    return jax.grad(lambda x: (jax.nn.elu(x) + jnp.sinc(x) + jax.nn.softplus(x)).sum())(x)


@fault("T406", X)
def log_where_positive_only(x):
    return jnp.where(x > 0, jnp.log(x), 0.0)


@fault("T406", X)
def root_where_positive_only(x):
    return jnp.where(x >= 0, jnp.sqrt(x), 0.0)


@fault("T406", X)
def quotient_where_positive_only(x):
    return jnp.where(x > 0, 1.0 / x, 0.0)


@fault("T406", X)
def arc_where_inside_only(x):
    return jnp.where(x < 1.0, jnp.arccos(x), 0.0)


@fine("T406", X)
def log_of_a_safe_number_only(x):
    return jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0)


@fine("T406", X)
def choice_between_polynomials(x):
    return jnp.where(x > 0, x**2, x**3)


@fine("T406", X)
def choice_by_another(x):
    return jnp.where(x > 0, jnp.sqrt(1.0 + x * x), 0.0)


@fine("T406", X, X)
def quotient_of_another(x, y):
    return jnp.where(x > 0, x / y, 0.0)


@fault("T505", V)
def squares_one_by_one(x):
    return lax.fori_loop(0, 1000, lambda i, y: y.at[i].set(jnp.sin(i * 0.1)), jnp.zeros(1000))


@fault("T505", f32(100))
def elements_one_by_one(x):
    return lax.fori_loop(0, 100, lambda i, y: y.at[i].set(x[i] ** 2), jnp.zeros(100))


@fault("T505", f32(100, 3))
def rows_one_by_one(x):
    return lax.fori_loop(0, 100, lambda i, y: y.at[i].set(jnp.tanh(x[i])), jnp.zeros((100, 3)))


@fault("T505", f32(100), i32())
def elements_up_to_an_argument(x, n):
    return lax.fori_loop(0, n, lambda i, y: y.at[i].set(x[i] + 1.0), jnp.zeros(100))


@fine("T505", f32(100))
def recurrence(x):
    return lax.fori_loop(1, 100, lambda i, y: y.at[i].set(y[i - 1] + x[i]), jnp.zeros(100))


@fine("T505", f32(100))
def additions_to_one_place(x):
    return lax.fori_loop(0, 100, lambda i, y: y.at[0].add(x[i]), jnp.zeros(3))


@fine("T505", f32(100))
def few_elements(x):
    return lax.fori_loop(0, 4, lambda i, y: y.at[i].set(x[i]), jnp.zeros(4))


@fine("T505", f32(100))
def states_that_are_kept(x):
    def step(i, c):
        total, y = c
        total = total + x[i]
        return total, y.at[i].set(total)

    return lax.fori_loop(0, 100, step, (0.0, jnp.zeros(100)))

"""Faults that users reported in public, written small. `report` names the thread."""

import numpy as np
from check.checked import f32, fault, i32

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

X, V, S, I = f32(4, 8), f32(10), f32(), i32()
KEY, RAW = jax.random.key(0), jax.random.PRNGKey(0)
TABLE = np.arange(10)
LARGE = np.ones((200_000, 10, 10), np.float32)
SPARSE = np.zeros((1_000_000, 2), np.int32)
BF16 = jax.ShapeDtypeStruct((20_000,), "bfloat16")


def reported(number, thread, *args):
    return fault(number, *args, report=thread)


# --- Sizes and values that Python asks for -------------------------------------------------------


@reported("T103", "jax 5186", I)
def arange_of_an_argument(n):
    return jnp.arange(0, n, 1)


@reported("T103", "jax 19433", i32(1))
def arange_around_an_element(x):
    return jnp.arange(x[0] - 1, x[0] + 1)


@reported("T103", "jax 14279", I)
def shape_with_an_argument(n):
    return jnp.zeros((8, n))


@reported("T103", "jax 12331", V, I)
def squeeze_of_a_traced_axis(x, axis):
    return jnp.squeeze(x[None], axis)


@reported("T103", "jax 7952", X, I)
def sum_over_a_traced_axis(x, axis):
    return jnp.sum(x, axis=(axis,))


@reported("T103", "jax 553", i32(3))
def numpy_array_at_a_traced_index(i):
    return TABLE[i]


@reported("T103", "jax 3160", V)
def numpy_function_of_an_argument(x):
    return np.append(x[0], x[:-1])


@reported("T103", "jax 4471", V)
def mask_made_within(x):
    return x[x > 1.0].sum()


@reported("T103", "jax 4418", X)
def where_of_one_argument(x):
    rows = jnp.where(~x.any(axis=1))
    return jnp.ones(4).at[rows].set(0)


@reported("T103", "elixir-nx 221", i32(6))
def elements_above(x):
    return x[x >= 3]


@reported("T103", "secretflow 406", X, i32(4))
def mean_of_a_cluster(x, labels):
    return jnp.mean(x[labels == 1], axis=0)


@reported("T103", "jax 24516", S)
def branch_in_a_checkpoint(x):
    return jax.checkpoint(lambda x: x if x > 0 else jnp.sin(x))(x)


@reported("T103", "jax 16430", S, S)
def nullable_or_default(x, y):
    return x or y


@reported("T103", "diffrax 379", S, I)
def steps_as_an_argument(x, max_steps):
    return x if max_steps == 1 else x * 2


@reported("T103", "jax 25186", V, I)
def list_at_a_traced_index(x, i):
    return [x, x * 2][i]


@reported("T103", "jax 7222", V, I)
def slice_at_a_traced_start(x, i):
    return x[i : i + 2]


@reported("T103", "jax 2323", V, I)
def slice_of_a_traced_size(x, n):
    return lax.dynamic_slice_in_dim(x, 0, n)


@reported("T103", "aesara 43", X, I)
def reshape_to_an_argument(x, n):
    return x.reshape(n, -1)


@reported("T103", "jaxsim 319", V)
def branch_on_a_norm(x):
    return jnp.zeros(10) if jnp.allclose(x, 0.0) else x / jnp.linalg.norm(x)


@reported("T103", "jax 7545", i32(2))
def numpy_parameters_at_an_index(i):
    return jnp.sum(np.ones((5, 2))[i])


# --- Shapes and types ----------------------------------------------------------------------------


@reported("T101", "jax 15178", S)
def scan_that_changes_a_shape(x):
    return lax.scan(lambda c, _: (c.reshape(1, 1), None), x, None, length=1)[0]


@reported("T101", "brax 228", S)
def scan_that_rewards_a_row(x):
    return lax.scan(lambda c, _: (jnp.ones(1) * c, None), x, None, length=3)[0]


@reported("T101", "jax 1534", V)
def scan_without_a_carry(x):
    return lax.scan(lambda c, y: (0, 2 * y), None, x)


@reported("T101", "jax 1686", X)
def loop_that_starts_with_a_number(x):
    return lax.fori_loop(0, 3, lambda i, c: c - x[:, i] * x[:, i + 1], 0)


@reported("T101", "jax 17264", f32(4))
def loop_over_nothing(x):
    empty = jnp.empty(0)
    return lax.fori_loop(0, 0, lambda i, c: c + empty[i], x)


@reported("T101", "jax 3285", f32(0))
def sum_of_nothing(x):
    return lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0)


@reported("T101", "jax 7329", f32(4))
def mask_of_another_length(x):
    return x[np.array([True, False])]


@reported("T101", "dynamax 400", f32(5, 10, 3), f32(4, 4))
def batch_times_a_matrix(x, a):
    return x @ a


# --- Arguments, keys and donation ----------------------------------------------------------------


@reported("T106", "jax 3163", 0, I)
def total_that_begins_as_a_number(x, y):
    return x + y


@reported("T106", "jax 4274", 0.0)
def float_that_becomes_strong(x):
    return x + np.float32(0.0)


@reported("T106", "mujoco 2306", {"time": 0.0, "pos": V})
def step_of_a_simulation(d):
    return {"time": d["time"] + jnp.float32(0.1), "pos": d["pos"] * 0.9}


@reported("T106", "jaxopt 451", {"stepsize": 1.0, "value": S})
def update_of_a_solver(state):
    return {"stepsize": jnp.minimum(state["stepsize"], state["value"]), "value": state["value"]}


@reported("T201", "TF_JAX_tutorials 4", RAW)
def split_key_and_its_parent(key):
    new, _ = jax.random.split(key)
    return jax.random.randint(key, (3,), 0, 2), new


@reported("T201", "jax 2009", RAW)
def two_uniform_arrays(key):
    return jax.random.uniform(key, (10, 10)), jax.random.uniform(key, (10, 10))


@reported("T201", "blackjax 53", RAW)
def key_used_and_split(key):
    u = jax.random.normal(key)
    key, _ = jax.random.split(key)
    return u, jax.random.normal(key)


@reported("T201", "jax 192", KEY)
def typed_key_twice(key):
    return jax.random.uniform(key), jax.random.uniform(key)


@reported("T201", "TF_JAX_tutorials 4 (cell 24)")
def one_seed_several_times():
    return [jax.random.normal(jax.random.PRNGKey(0)) for _ in range(3)]


@reported("T201", "wax-ml 45", RAW)
def one_key_in_an_unroll(key):
    return lax.scan(lambda c, _: (c + jax.random.normal(key), None), 0.0, None, length=5)[0]


# --- Indices -------------------------------------------------------------------------------------


@reported("T301", "jax 14193", i32(5))
def take_beyond(x):
    return jnp.take(x, jnp.array([10]))


@reported("T301", "jax 3774", i32(3, 3))
def vocabulary_that_is_too_small(table):
    return table.take(jnp.array([4]), axis=0)


@reported("T301", "jax 9126", V)
def scatter_beyond(x):
    return x.at[10].set(1.0)


@reported("T301", "tt-mlir 9211")
def positions_beyond_a_table():
    return jnp.zeros(256)[jnp.arange(65536) + 256]


# --- Numbers -------------------------------------------------------------------------------------


@reported("T401", "jax 1200", V)
def log_of_one_plus_in_jax(x):
    return jnp.log(1.0 + x)


@reported("T401", "tensor2tensor 1424", V)
def exp_minus_one_in_trax(x):
    return jnp.exp(x) - 1.0


@reported("T401", "gonomics 597", S, S)
def sum_in_log_space(x, y):
    return x + jnp.log(1.0 + jnp.exp(y - x))


@reported("T401", "jax 1841", X)
def log_softmax_of_a_worker(o):
    return o - jnp.log(jnp.exp(o).sum(axis=1, keepdims=True))


@reported("T401", "PytorchSSD 22", X)
def log_sum_exp_without_the_maximum(x):
    return jnp.log(jnp.sum(jnp.exp(x), 1, keepdims=True))


@reported("T402", "tensorflow 10142", X)
def softmax_that_overflows(x):
    e = jnp.exp(x)
    return e / jnp.sum(e, axis=-1, keepdims=True)


@reported("T402", "uTensor 175", V)
def softmax_of_large_logits(logits):
    return jnp.exp(logits) / jnp.exp(logits).sum()


@reported("T403", "flax 1491", X)
def batch_norm(x):
    mean = x.mean(0)
    var = jnp.mean(lax.square(x), 0) - lax.square(mean)
    return (x - mean) * lax.rsqrt(var + 1e-5)


@reported("T403", "objax 182", X)
def variance_of_objax(x):
    return (x**2).mean(axis=0) - x.mean(axis=0) ** 2


@reported("T403", "equinox 314", V)
def layer_norm(x):
    mean = jnp.mean(x)
    var = jnp.mean(x * x) - mean * mean
    return (x - mean) / jnp.sqrt(var + 1e-5)


@reported("T404", "ml_dtypes 63", BF16)
def bfloat16_accumulator(x):
    return lax.fori_loop(0, 20_000, lambda i, c: c + jnp.abs(x[i]), jnp.zeros((), x.dtype))


@reported("T404", "numpy 18099")
def float_range_of_lines():
    return jnp.arange(3635 * 5682, dtype=jnp.float32)


@reported("T405", "jax 5798", V)
def root_above_one(x):
    return jax.grad(lambda x: jnp.where(x < 1.0, x, jnp.sqrt(x)).sum())(x)


@reported("T405", "jax 2630", V)
def root_of_what_is_positive(x):
    return jax.grad(lambda x: jnp.where(x <= 0, 0.0, jnp.sqrt(x)).sum())(x)


@reported("T405", "keras 20110", V, V)
def divide_no_nan(x, y):
    return jax.grad(lambda x, y: jnp.where(y == 0, 0.0, x / y).sum(), argnums=1)(x, y)


@reported("T405", "PyAutoArray 548", V)
def signals_over_their_maximum(x):
    def f(x):
        most = x.max()
        return jnp.where(most > 0, x / most, x).sum()

    return jax.grad(f)(x)


@reported("T405", "jax 654", X)
def distances_without_the_diagonal(x):
    def f(x):
        d = jnp.sum(x, -1)
        return jnp.where(d != 0, 1.0 / d, 0.0).sum()

    return jax.grad(f)(x)


# --- Speed and memory ----------------------------------------------------------------------------


@reported("T501", "jax 21300")
def constant_that_is_folded():
    return jax.vmap(jax.vmap(jnp.sum))(LARGE)


@reported("T501", "jax 14655", V)
def indices_of_a_sparse_matrix(x):
    return x + jnp.asarray(SPARSE)[:10, 0]


@reported("T501", "jax 11448", V)
def loop_over_a_large_constant(x):
    return lax.fori_loop(0, 3, lambda i, c: c + jnp.asarray(SPARSE)[i, 0], x)


@reported("T501", "jax 10596", f32(200_000, 10, 10))
def constant_of_a_transform(x):
    return jnp.fft.fft(LARGE) * x


@reported("T503", "jax 2777", X)
def sampling_steps(x):
    for _ in range(64):
        gate = jnp.tanh(x)
        x = 0.5 * (x + gate * x + (1 - gate) * x)
    return x


@reported("T503", "jax 1223", f32(192))
def pixels_one_after_the_other(x):
    for i in range(1, 192):
        x = x.at[i].set(jnp.tanh(x[i - 1]) + x[i])
    return x


@reported("T503", "ScoreMD 7", X)
def langevin_steps(x):
    for _ in range(100):
        x = x - 0.01 * x + 0.1 * jnp.sin(x)
    return x


@reported("T502", "jax 29322", V)
def python_at_each_step(x):
    return lax.scan(lambda c, y: (c + jax.pure_callback(np.cos, S, y), None), 0.0, x)[0]


# --- Gradients -----------------------------------------------------------------------------------


@reported("T701", "dm-haiku 442", X)
def gradient_after_argmax(x):
    return jax.grad(lambda w: jnp.mean((jnp.argmax(w, 1).astype(jnp.float32) - 1.0) ** 2))(x)


@reported("T701", "keras 11157", V)
def gradient_after_round(x):
    return jax.grad(lambda x: jnp.mean((jnp.round(x) - 1.0) ** 2))(x)


@reported("T703", "Keras-GAN 61", X)
def discriminator_of_argmax_loss(x):
    return jnp.mean(jax.nn.sigmoid(jnp.argmax(x, -1).astype(jnp.float32)))

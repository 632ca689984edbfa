"""stax: the shapes foretold are those that come out. optimizers.

Each rule against NumPy, and every one descends.
"""

import math

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.example_libraries import optimizers, stax

IMAGES = (2, 9, 8, 3)
LAYERS = {
    "dense": (stax.Dense(5), (4, 3)),
    "conv": (stax.Conv(5, (3, 2)), IMAGES),
    "conv_same": (stax.Conv(5, (3, 2), (2, 3), "SAME"), IMAGES),
    "conv_nchw": (stax.GeneralConv(("NCHW", "OIHW", "NCHW"), 5, (3, 2)), (2, 3, 9, 8)),
    "conv_transpose": (stax.ConvTranspose(5, (3, 2), (2, 3)), IMAGES),
    "conv_transpose_same": (stax.ConvTranspose(5, (3, 2), (2, 3), "SAME"), IMAGES),
    "conv1d_transpose": (stax.Conv1DTranspose(5, (3,), (2,)), (2, 8, 3)),
    "batch_norm": (stax.BatchNorm(), IMAGES),
    "batch_norm_one_axis": (stax.BatchNorm(axis=0), (6, 3)),
    "max_pool": (stax.MaxPool((2, 3)), IMAGES),
    "sum_pool": (stax.SumPool((2, 3), (2, 1), "SAME"), IMAGES),
    "avg_pool": (stax.AvgPool((2, 3), (2, 1), "SAME"), IMAGES),
    "max_pool_nchw": (stax.MaxPool((2, 2), spec="NCHW"), (2, 3, 8, 8)),
    "flatten": (stax.Flatten, IMAGES),
    "serial": (stax.serial(stax.Conv(4, (3, 3)), stax.Relu, stax.Flatten, stax.Dense(2)), IMAGES),
    "side_by_side": (
        stax.serial(
            stax.FanOut(2), stax.parallel(stax.Dense(4), stax.Identity), stax.FanInConcat()
        ),
        (5, 3),
    ),
    "residual": (
        stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Identity), stax.FanInSum),
        (5, 3),
    ),
    "shape_dependent": (stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1])), (5, 3)),
}
WITH_BATCH = sorted(set(LAYERS) - {"batch_norm_one_axis"})


def initialised(layer, shape):
    init_fun, apply_fun = layer
    out_shape, params = init_fun(jax.random.key(1), shape)
    return out_shape, params, apply_fun


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_shape_foretold_is_the_shape(name):
    layer, shape = LAYERS[name]
    out_shape, params, apply_fun = initialised(layer, shape)
    inputs = jax.random.normal(jax.random.key(0), shape)
    assert apply_fun(params, inputs).shape == out_shape
    assert jax.jit(apply_fun)(params, inputs).shape == out_shape


@pytest.mark.parametrize("name", WITH_BATCH)
def test_unknown_batch_size_is_passed_on(name):
    layer, shape = LAYERS[name]
    known, _, _ = initialised(layer, shape)
    unknown, _, _ = initialised(layer, (-1, *shape[1:]))
    assert abs(unknown[0]) in (1, abs(known[0] // shape[0]))
    assert unknown[0] < 0
    assert unknown[1:] == known[1:]


def test_dense_is_affine():
    _, (W, b), apply_fun = initialised(stax.Dense(4), (5, 3))
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    np.testing.assert_allclose(
        apply_fun((W, b), x), x @ np.asarray(W) + np.asarray(b), rtol=1e-5, atol=1e-6
    )


def test_average_counts_no_padding():
    _, params, apply_fun = initialised(stax.AvgPool((3, 3), padding="SAME"), (1, 5, 5, 1))
    np.testing.assert_array_equal(apply_fun(params, jnp.ones((1, 5, 5, 1))), np.ones((1, 5, 5, 1)))


def test_pools_of_a_row():
    row = jnp.array([1.0, 3.0, 2.0, 5.0]).reshape(1, 4, 1)
    results = {
        pool: initialised(pool((2,)), row.shape)[2]((), row).ravel().tolist()
        for pool in (stax.MaxPool, stax.SumPool)
    }
    assert list(results.values()) == [[3.0, 3.0, 5.0], [4.0, 5.0, 7.0]]


def test_batch_norm_standardises_then_scales():
    x = jax.random.normal(jax.random.key(0), (50, 3)) * 4 + 7
    _, _, apply_fun = initialised(stax.BatchNorm(axis=0), x.shape)
    y = np.asarray(apply_fun((jnp.array([1.0, 2.0, 3.0]), jnp.array([2.0, 1.0, 0.5])), x))
    np.testing.assert_allclose(y.mean(axis=0), [1, 2, 3], atol=1e-4)
    np.testing.assert_allclose(y.std(axis=0), [2, 1, 0.5], rtol=1e-3)


@pytest.mark.parametrize(
    ("center", "scale"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_batch_norm_has_the_parameters_asked_for(center, scale):
    _, (beta, gamma), apply_fun = initialised(stax.BatchNorm(center=center, scale=scale), IMAGES)
    assert np.shape(beta) == ((3,) if center else (0,))
    assert np.shape(gamma) == ((3,) if scale else (0,))
    assert apply_fun((beta, gamma), jnp.ones(IMAGES)).shape == IMAGES


def test_dropout_keeps_its_share():
    _, _, apply_fun = initialised(stax.Dropout(0.8), (10_000,))
    y = np.asarray(apply_fun((), jnp.ones(10_000), rng=jax.random.key(0)))
    assert set(np.unique(y)) == {0.0, 1.25}
    assert np.mean(y > 0) == pytest.approx(0.8, abs=0.02)


def test_dropout_outside_training_does_nothing():
    _, _, apply_fun = initialised(stax.Dropout(0.5, mode="test"), (3,))
    assert apply_fun((), jnp.ones(3), rng=jax.random.key(0)).tolist() == [1, 1, 1]


def test_dropout_without_key():
    with pytest.raises(
        ValueError,
        match=(
            r"Dropout: apply_fun was called without a random key\.\nCall apply_fun\(params, "
            r"inputs, rng=key\)"
        ),
    ):
        stax.serial(stax.Dense(2), stax.Dropout(0.5))[1](
            [(jnp.ones((2, 2)), jnp.ones(2)), ()], jnp.ones((1, 2))
        )


def test_serial_splits_its_key():
    layer = stax.serial(stax.Dropout(0.5), stax.Identity)
    assert layer[1]([(), ()], jnp.ones(20), rng=jax.random.key(0)).shape == (20,)


ACTIVATIONS = {
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
    "Exp": np.exp,
    "LogSoftmax": lambda x: x - np.log(np.sum(np.exp(x))),
    "Softmax": lambda x: np.exp(x) / np.sum(np.exp(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "LeakyRelu": lambda x: np.where(x > 0, x, 0.01 * x),
    "Selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "Gelu": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "Identity": lambda x: x,
}


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activation(name):
    x = np.linspace(-3, 3, 13, dtype=np.float32)
    shape, params, apply_fun = initialised(getattr(stax, name), x.shape)
    assert (shape, params) == (x.shape, ())
    np.testing.assert_allclose(apply_fun((), x), ACTIVATIONS[name](x), rtol=1e-5, atol=1e-6)


# Each rule once more, in NumPy and as a loop: g -> the next x.


def np_sgd(x, gradients):
    for g in gradients:
        x = x - 0.1 * g
    return x


def np_momentum(x, gradients, look_ahead=False):
    velocity = 0
    for g in gradients:
        velocity = 0.9 * velocity + g
        x = x - 0.1 * (0.9 * velocity + g if look_ahead else velocity)
    return x


def np_adagrad(x, gradients):
    squares, mean = 0, 0
    for g in gradients:
        squares = squares + g**2
        mean = 0.1 * g / np.sqrt(squares) + 0.9 * mean
        x = x - 0.1 * mean
    return x


def np_rmsprop(x, gradients, momentum=0.0):
    squares, velocity = 0, 0
    for g in gradients:
        squares = 0.9 * squares + 0.1 * g**2
        velocity = momentum * velocity + 0.1 * g / np.sqrt(squares + 1e-8)
        x = x - velocity
    return x


def np_adam(x, gradients):
    mean, square = 0, 0
    for t, g in enumerate(gradients, 1):
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g**2
        x = x - 0.1 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    return x


def np_adamax(x, gradients):
    mean, largest = 0, 0
    for t, g in enumerate(gradients, 1):
        mean, largest = 0.9 * mean + 0.1 * g, np.maximum(0.999 * largest, np.abs(g))
        x = x - 0.1 / (1 - 0.9**t) * mean / (largest + 1e-8)
    return x


def np_sm3(x, gradients):
    rows, columns, mean = np.zeros(len(x)), np.zeros(x.shape[1]), 0
    for g in gradients:
        squares = np.minimum(rows[:, None], columns[None, :]) + g**2
        mean = 0.1 * g / np.sqrt(squares) + 0.9 * mean
        x, rows, columns = x - 0.1 * mean, squares.max(axis=1), squares.max(axis=0)
    return x


OPTIMIZERS = {
    "sgd": (optimizers.sgd(0.1), np_sgd),
    "momentum": (optimizers.momentum(0.1, 0.9), np_momentum),
    "nesterov": (
        optimizers.nesterov(0.1, 0.9),
        lambda x, gradients: np_momentum(x, gradients, look_ahead=True),
    ),
    "adagrad": (optimizers.adagrad(0.1), np_adagrad),
    "rmsprop": (optimizers.rmsprop(0.1), np_rmsprop),
    "rmsprop_momentum": (
        optimizers.rmsprop_momentum(0.1),
        lambda x, gradients: np_rmsprop(x, gradients, momentum=0.9),
    ),
    "adam": (optimizers.adam(0.1), np_adam),
    "adamax": (optimizers.adamax(0.1), np_adamax),
    "sm3": (optimizers.sm3(0.1), np_sm3),
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizer_against_its_formula(name):
    (init_fn, update_fn, params_fn), reference = OPTIMIZERS[name]
    rng = np.random.default_rng(0)
    x, gradients = rng.standard_normal((3, 4)), rng.standard_normal((6, 3, 4))
    state = init_fn([jnp.asarray(x, jnp.float32)])
    for index, g in enumerate(gradients):
        state = jax.jit(update_fn)(index, [jnp.asarray(g, jnp.float32)], state)
    (result,) = jax.jit(params_fn)(state)
    # Adam divides by 1 - 0.999**t, of which float32 keeps four digits at small t.
    np.testing.assert_allclose(result, reference(x, gradients), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_optimizer_descends_on_a_tree(name):
    (init_fn, update_fn, params_fn), _ = OPTIMIZERS[name]

    def loss(params):
        return jnp.sum((params["a"] - 1.0) ** 2) + (params["b"][0] + 2.0) ** 2

    params = {"a": jnp.zeros((2, 3)), "b": (jnp.zeros(()),)}

    def step(index, state):
        return update_fn(index, jax.grad(loss)(params_fn(state)), state)

    state = jax.lax.fori_loop(0, 400, step, init_fn(params))
    assert loss(params_fn(state)) < 0.05 * loss(params)


@pytest.mark.parametrize("name", ["adam", "adamax"])
def test_dtype_of_the_parameters_is_kept(name):
    (init_fn, update_fn, params_fn), _ = OPTIMIZERS[name]
    x = jnp.ones(2, jnp.bfloat16)
    assert params_fn(update_fn(jnp.int32(0), x, init_fn(x))).dtype == jnp.bfloat16


def test_gradients_of_another_form():
    init_fn, update_fn, _ = optimizers.sgd(0.1)
    with pytest.raises(
        TypeError,
        match=(
            r"(?s)sgd: the gradients are not a tree like the "
            r"parameters\..*parameters:.*gradients:"
        ),
    ):
        update_fn(0, {"w": 1.0}, init_fn([1.0]))


def test_update_that_changes_its_state():
    @optimizers.optimizer
    def broken(rate):
        return (
            (lambda x: (x, x)),
            (lambda index, gradient, state: (state[0],)),
            (lambda state: state[0]),
        )

    init_fn, update_fn, _ = broken(0.1)
    with pytest.raises(
        TypeError, match=r"(?s)broken: update returned a state of another form.*given:.*returned:"
    ):
        update_fn(0, 1.0, init_fn(1.0))


def test_state_unpacks_and_packs():
    init_fn, _, params_fn = optimizers.adam(0.1)
    state = init_fn({"a": jnp.ones(2), "b": jnp.zeros(3)})
    tree = optimizers.unpack_optimizer_state(state)
    assert [len(list(tree[name])) for name in ("a", "b")] == [1, 1]
    assert [leaf.shape for leaf in tree["b"].subtree] == [(3,)] * 3
    packed = optimizers.pack_optimizer_state(tree)
    assert jax.tree.structure(packed) == jax.tree.structure(state)
    assert params_fn(packed)["a"].tolist() == [1, 1]


def test_packing_what_was_not_unpacked():
    with pytest.raises(TypeError, match="pack_optimizer_state: every leaf must be a JoinPoint"):
        optimizers.pack_optimizer_state([1.0])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (optimizers.constant(0.5), lambda i: 0.5),
        (optimizers.make_schedule(0.5), lambda i: 0.5),
        (optimizers.exponential_decay(0.5, 10, 0.25), lambda i: 0.5 * 0.25 ** (i / 10)),
        (optimizers.inverse_time_decay(0.5, 10, 0.25), lambda i: 0.5 / (1 + 0.25 * i / 10)),
        (
            optimizers.inverse_time_decay(0.5, 10, 0.25, staircase=True),
            lambda i: 0.5 / (1 + 0.25 * math.floor(i / 10)),
        ),
        (
            optimizers.polynomial_decay(0.5, 20, 0.1, 2.0),
            lambda i: (1 - min(i, 20) / 20) ** 2 * 0.4 + 0.1,
        ),
        (
            optimizers.piecewise_constant([5, 12], [3.0, 2.0, 1.0]),
            lambda i: 3.0 if i <= 5 else 2.0 if i <= 12 else 1.0,
        ),
    ],
    ids=[
        "constant",
        "number",
        "exponential",
        "inverse_time",
        "staircase",
        "polynomial",
        "piecewise",
    ],
)
def test_schedule(schedule, expected):
    steps = range(25)
    np.testing.assert_allclose(
        [schedule(i) for i in steps], [expected(i) for i in steps], rtol=1e-6
    )
    np.testing.assert_allclose(
        [jax.jit(schedule)(i) for i in steps], [expected(i) for i in steps], rtol=1e-5
    )


@pytest.mark.parametrize(("boundaries", "values"), [([3, 6], [1.0, 0.5]), ([[3, 6]], [1.0, 0.5])])
def test_piecewise_constant_of_wrong_lengths(boundaries, values):
    with pytest.raises(
        ValueError,
        match=(
            r"(?s)piecewise_constant: boundaries and values must be sequences.*boundaries: "
            r"shape.*values: shape"
        ),
    ):
        optimizers.piecewise_constant(boundaries, values)


@pytest.mark.parametrize("step_size", ["fast", np.ones(3)])
def test_step_size_that_is_none(step_size):
    with pytest.raises(TypeError, match="make_schedule: a step size is a number or a function"):
        optimizers.sgd(step_size)


def test_clip_grads_scales_all_alike():
    gradients = {"a": jnp.array([3.0, 0.0]), "b": jnp.array(4.0)}
    assert optimizers.l2_norm(gradients) == pytest.approx(5.0)
    clipped = optimizers.clip_grads(gradients, 1.0)
    np.testing.assert_allclose(clipped["a"], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped["b"], 0.8, rtol=1e-6)
    assert optimizers.clip_grads(gradients, 10.0)["a"].tolist() == [3.0, 0.0]

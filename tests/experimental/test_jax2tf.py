"""jax2tf: what it does where TensorFlow is installed, and what it says where it is not."""

import importlib
import importlib.util

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

HERE = importlib.util.find_spec("tensorflow") is not None
X, W = np.ones((2, 3), np.float32), np.full((3, 4), 0.1, np.float32)


def f(x, w):
    return jnp.tanh(x @ w).sum(-1)


@pytest.mark.skipif(HERE, reason="TensorFlow is installed")
def test_without_tensorflow_it_says_what_to_do():
    with pytest.raises(
        ModuleNotFoundError, match=r"pip install tensorflow(.|\n)*jax.export.export"
    ) as caught:
        importlib.import_module("teucer.experimental.jax2tf")
    assert caught.value.name == "tensorflow"


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip(
        "tensorflow", reason="TensorFlow is not installed; its wheel has 500 MB"
    )


@pytest.fixture(scope="module")
def jax2tf(tf):
    return importlib.import_module("teucer.experimental.jax2tf")


@pytest.mark.slow
@pytest.mark.parametrize("options", [None, {}, {"jit_compile": True}])
@pytest.mark.parametrize(
    "function, args",
    [
        (f, (X, W)),
        (lambda x: {"a": [x * 2, x.astype(jnp.bfloat16)]}, (X,)),
        (jax.scipy.special.erf, (X,)),
        (lambda x: jax.lax.top_k(x, 2), (X,)),
        (lambda seed: jax.random.normal(jax.random.key(seed), (3,)), (np.int32(3),)),
        (
            lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x),
            (np.arange(4, dtype=np.float32),),
        ),
        (lambda x: x + 1, (np.float64(1e-9),)),
        (lambda x, unused: ~x, (np.array([True]), X)),
    ],
)
def test_values(jax2tf, tf, function, args, options):
    converted = jax2tf.convert(function)
    found = (converted if options is None else tf.function(converted, autograph=False, **options))(
        *args
    )
    jax.tree.map(
        lambda y, z: np.testing.assert_allclose(
            np.asarray(y, np.float32), np.asarray(z, np.float32), 1e-6
        ),
        found,
        function(*args),
    )


@pytest.mark.slow
def test_gradients(jax2tf, tf):
    w, x = tf.Variable(W), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(jax2tf.convert(f)(X, w))
    np.testing.assert_allclose(tape.gradient(y, w), jax.grad(lambda w: f(X, w).sum())(W), 1e-6)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            y, n = jax2tf.convert(lambda x, i: (jnp.sin(x) * i, i + 1))(x, tf.constant(3))
        dy = tape.gradient(y, x)
    assert int(n) == 4 and np.allclose(
        [dy, outer.gradient(dy, x)], [3 * np.cos(2.0), -3 * np.sin(2.0)]
    )
    with tf.GradientTape() as tape:
        y = jax2tf.convert(jnp.sin, with_gradient=False)(x)
    with pytest.raises(LookupError, match="with_gradient=False"):
        tape.gradient(y, x)


@pytest.mark.slow
def test_a_saved_model_at_several_sizes(jax2tf, tf, tmp_path):
    def predict(params, x):
        return jnp.tanh(x @ params["w"] + params["b"][0]), x.shape[0] * jnp.ones(())

    params = {"w": W, "b": [np.ones(4, np.float32)]}
    module = tf.Module()
    module.params = tf.nest.map_structure(tf.Variable, params)
    module.f = tf.function(
        lambda x: jax2tf.convert(predict, polymorphic_shapes=[None, "(b, 3)"])(module.params, x),
        autograph=False,
        input_signature=[tf.TensorSpec([None, 3], tf.float32)],
    )
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(module, str(tmp_path), options=options)
    loaded = tf.saved_model.load(str(tmp_path))
    for n in (1, 5):
        x = tf.Variable(np.ones((n, 3), np.float32))
        with tf.GradientTape() as tape:
            y, size = loaded.f(x)
        np.testing.assert_allclose(y, predict(params, np.ones((n, 3)))[0], 1e-6)
        assert float(size) == n and tape.gradient(y, x).shape == (n, 3)


@pytest.mark.slow
def test_tensorflow_functions_as_callbacks(jax2tf, tf):
    np.testing.assert_allclose(
        jax.jit(jax2tf.call_tf(lambda x: {"a": tf.sin(x)}))(X)["a"], np.sin(X), 1e-6
    )
    for side_effects in (False, True):
        g = jax2tf.call_tf(lambda x, i: (tf.reduce_sum(x**3), i), has_side_effects=side_effects)
        np.testing.assert_allclose(
            jax.grad(lambda x, g=g: jax.jit(g)(x, jnp.int32(3))[0])(X), 3 * X**2
        )
    struct = jax.ShapeDtypeStruct((6, 2), np.int32)
    assert jax2tf.call_tf(lambda x: tf.cast(tf.where(x > 0), tf.int32), output_shape_dtype=struct)(
        X
    ).shape == (6, 2)
    np.testing.assert_allclose(jax2tf.call_tf(jax2tf.convert(jnp.cos))(X), np.cos(X), 1e-6)


@pytest.mark.slow
def test_refusals_say_what_to_do(jax2tf, tf):
    spec = [tf.TensorSpec([None], tf.float32)]
    for options, match in (
        ({}, r"polymorphic_shapes=\["),
        ({"polymorphic_shapes": ["(1,)"]}, "Give it a name there"),
    ):
        with pytest.raises(ValueError, match=match):
            tf.function(jax2tf.convert(jnp.sin, **options), autograph=False, input_signature=spec)(
                X[0]
            )
    with pytest.raises(NotImplementedError, match="lapack_sgesdd_ffi of jaxlib"):
        jax2tf.convert(lambda x: jnp.linalg.svd(x)[1])(X)
    with pytest.raises(NotImplementedError, match="Leave out"):
        jax2tf.convert(f, enable_xla=False)
    with pytest.raises(ValueError, match=r"TensorFlow says \(None, 2\)"):
        jax2tf.call_tf(tf.where)(X > 0)
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax2tf.convert(jax.jit(jnp.sin, in_shardings=jax.NamedSharding(mesh, jax.P("x"))))
    with pytest.raises(NotImplementedError, match="over 2 devices"):
        spread(X)


@pytest.mark.slow
def test_types_and_shapes(jax2tf, tf):
    assert [jax2tf.dtype_of_val(v) for v in (3, 3.0, tf.constant(3.0, tf.float64))] == [
        tf.int32,
        tf.float32,
        tf.float32,
    ]
    shapes = jax2tf.eval_polymorphic_shape(
        lambda x, y: (jnp.concatenate([x, y]), x.sum()), polymorphic_shapes=["(a, c)", "(b, c)"]
    )(np.ones((2, 3)), np.ones((4, 3)))
    assert shapes == ("(b + a, c)", "()") and str(jax2tf.PolyShape("b", None, ...)) == "(b, _, ...)"

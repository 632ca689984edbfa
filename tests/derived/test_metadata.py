"""What the compiler is told of operations.

In blocks, on values, by calls; and where they are to be computed.
"""

import threading

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer.experimental import checkify
from teucer.experimental.compute_on import compute_on, compute_on2
from teucer.experimental.scheduling_groups import scheduling_group, xla_metadata_call
from teucer.experimental.xla_metadata import (
    fuse_limit,
    must_fuse_call,
    set_xla_metadata,
    xla_metadata_call2,
)


def told(f, *args, op):
    """What is said of the one operation of a kind in the program of a function."""
    (line,) = [
        line
        for line in jax.jit(f).lower(*args).as_text().splitlines()
        if op in line and "func.func" not in line
    ]
    return line.partition("mhlo.frontend_attributes = ")[2].partition("}")[0].strip("{")


def test_blocks_nest_and_take_back():
    def f(x):
        with set_xla_metadata(a="b", n=3, flag=True):
            y = jnp.sin(x)
            with set_xla_metadata(a=None, c="d"):
                y = jnp.cos(y)
        return jnp.tanh(y)

    assert told(f, 1.0, op="stablehlo.sine") == 'a = "b", flag = "true", n = "3"'
    assert told(f, 1.0, op="stablehlo.cosine") == 'c = "d", flag = "true", n = "3"'
    assert told(f, 1.0, op="stablehlo.tanh") == ""


def test_jaxprs_say_it():
    def f(x):
        with set_xla_metadata(a="b"):
            return jnp.sin(x)

    (eqn,) = jax.make_jaxpr(f)(1.0).eqns
    assert eqn.ctx.xla_metadata == {"a": "b"}
    (plain,) = jax.make_jaxpr(jnp.sin)(1.0).eqns
    assert plain.ctx.xla_metadata == {}


def test_it_is_a_part_of_the_key():
    f = jax.jit(lambda x: x + 1)
    with set_xla_metadata(a="b"):
        assert 'a = "b"' in f.lower(1.0).as_text() and f(1.0) == 2
    assert "frontend_attributes" not in f.lower(1.0).as_text() and f(1.0) == 2
    with set_xla_metadata(a="c"):
        assert 'a = "c"' in f.lower(1.0).as_text()


def test_transformations_keep_it():
    def f(x):
        with set_xla_metadata(a="b"):
            return jnp.sin(x)

    assert told(jax.grad(jax.jit(f)), 1.0, op="stablehlo.cosine") == 'a = "b"'
    assert told(jax.vmap(jax.jit(f)), jnp.ones(3), op="stablehlo.sine") == 'a = "b"'
    body = lambda c, _: (f(c), None)
    assert (
        told(lambda x: lax.scan(body, x, None, length=3)[0], 1.0, op="stablehlo.sine") == 'a = "b"'
    )
    branches = lambda x: lax.cond(x > 0, f, lambda x: x, x)
    assert told(branches, 1.0, op="stablehlo.sine") == 'a = "b"'
    assert told(jax.checkpoint(f), 1.0, op="stablehlo.sine") == 'a = "b"'


def test_the_compiler_hears_of_it():
    def f(x):
        with set_xla_metadata(a="b"):
            return jnp.sin(x) @ x

    assert 'frontend_attributes={a="b"}' in jax.jit(f).lower(jnp.ones((2, 2))).compile().as_text()
    np.testing.assert_allclose(jax.jit(f)(jnp.eye(2)), np.sin(1) * np.eye(2), rtol=1e-6)


def test_names_stay():
    def f(x):
        with jax.named_scope("outer"), set_xla_metadata(a="b"), jax.named_scope("inner"):
            return jnp.sin(x)

    assert "outer/inner/sin" in jax.jit(f).lower(1.0).as_text(debug_info=True)
    assert told(f, 1.0, op="stablehlo.sine") == 'a = "b"'


def test_threads_do_not_share_it():
    seen = []
    with set_xla_metadata(a="b"):
        thread = threading.Thread(
            target=lambda: seen.append(jax.make_jaxpr(jnp.sin)(1.0).eqns[0].ctx.xla_metadata)
        )
        thread.start()
        thread.join()
    assert seen == [{}]


def test_decorator_of_jitted_functions():
    f = set_xla_metadata(a="b")(jax.jit(lambda x: x * 2))
    assert 'a = "b"' in f.lower(1.0).as_text() and f(2.0) == 4


@pytest.mark.parametrize(
    "transform", [lambda f: f, jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f))]
)
def test_values(transform):
    f = lambda x: set_xla_metadata({"a": jnp.sin(x), "b": x}, tag="t")
    x = jnp.arange(3.0)
    out = transform(f)(x)
    np.testing.assert_allclose(out["a"], np.sin(x), rtol=1e-6)
    np.testing.assert_array_equal(out["b"], x)
    assert told(transform(f), x, op="stablehlo.sine") == 'tag = "t"'


def test_values_are_differentiated():
    f = lambda x: set_xla_metadata(jnp.sin(x), tag="t")
    assert jax.grad(f)(0.0) == 1 and jax.jvp(f, (0.0,), (2.0,))[1] == 2
    assert told(jax.grad(f), 1.0, op="stablehlo.cosine") == ""


def test_calls():
    g = xla_metadata_call(lambda x, *, k: jnp.sin(x) * k, inlineable="false", order=2)
    f = lambda x: g(g(x, k=2.0), k=2.0).sum()
    x = jnp.arange(3.0)
    text = jax.jit(f).lower(x).as_text()
    assert (
        text.count("call @xla_metadata_call") == 2
        and text.count("func.func private @xla_metadata_call") == 1
    )
    assert 'inlineable = "false", order = "2"' in text
    plain = lambda x: jnp.sum(2 * jnp.sin(2 * jnp.sin(x)))
    both = jnp.stack([x, x + 1])
    for transform, arg in (
        (jax.grad, x),
        (lambda f: jax.jit(jax.grad(f)), x),
        (jax.checkpoint, x),
        (lambda f: jax.grad(jax.checkpoint(f)), x),
        (lambda f: jax.vmap(jax.grad(f)), both),
    ):
        np.testing.assert_allclose(transform(f)(arg), transform(plain)(arg), rtol=1e-6)


def test_calls_close_over_values():
    @jax.jit
    def f(x):
        y = x + 2
        return xla_metadata_call(lambda a: a * y, inlineable="false")(x)

    np.testing.assert_array_equal(f(jnp.arange(3)), [0, 3, 8])


def test_scheduling_groups():
    text = jax.jit(scheduling_group("g")(jnp.sin)).lower(1.0).as_text()
    assert 'scheduling_group = "g"' in text


@pytest.mark.parametrize(
    "kind, said",
    [
        ("device_host", '_xla_compute_type = "host"'),
        ("device", ""),
        ("tpu_sparsecore", '_xla_compute_type = "sparse"'),
        ("gpu_stream:1", '_xla_stream_annotation = "1", inlineable = "false"'),
    ],
)
def test_compute_on(kind, said):
    assert told(compute_on(kind)(lambda x: jnp.sin(x)), 1.0, op="stablehlo.sine") == said


def test_compute_on_the_host_runs():
    assert jax.jit(compute_on("device_host")(jnp.cos))(0.0) == 1
    assert jax.jit(compute_on(compute_type="device_host")(jnp.cos))(0.0) == 1
    options = {"compute_type": "device_host", "out_memory_spaces": jax.memory.Space.Device}
    for cos in (compute_on(**options)(jnp.cos), compute_on(jnp.cos, **options)):
        assert jax.jit(cos)(0.0) == 1
    with pytest.raises(TypeError, match="with a function out_memory_spaces too"):
        compute_on(jnp.cos, compute_type="device_host")
    with pytest.raises(ValueError, match="Invalid compute type elsewhere"):
        compute_on("elsewhere")


def test_calls_are_checked():
    g = xla_metadata_call(lambda x: jnp.log(x) * 2, inlineable="false")
    error, _ = jax.jit(checkify.checkify(g, errors=checkify.nan_checks))(-1.0)
    assert "nan generated by primitive: log" in error.get()
    assert checkify.checkify(g, errors=checkify.nan_checks)(1.0)[0].get() is None


def test_derivatives_are_told_something_else():
    f = xla_metadata_call2({"tier": 1, "hot": True}, ad_metadata={"tier": "b"})(
        lambda x: jnp.sin(x) * 2
    )
    assert f(0.5) == jnp.sin(0.5) * 2
    text = jax.jit(jax.grad(f)).lower(1.0).as_text()
    assert (
        'mhlo.frontend_attributes = {hot = "true", tier = "1"}' in text
        or 'tier = "1", hot = "true"' in text
    )
    assert 'mhlo.frontend_attributes = {tier = "b"}' in text
    same = jax.jit(jax.grad(xla_metadata_call2(jnp.sin, {"tier": "a"}))).lower(1.0).as_text()
    assert same.count('tier = "a"') == 2
    dropped = (
        jax.jit(jax.grad(xla_metadata_call2(jnp.sin, {"tier": "a"}, ad_metadata="drop")))
        .lower(1.0)
        .as_text()
    )
    assert dropped.count('tier = "a"') == 1
    with pytest.raises(TypeError, match="expected a callable to wrap, got 3"):
        xla_metadata_call2(3)
    with pytest.raises(
        TypeError, match="ad_metadata must be 'same', 'drop', or a dict of metadata, got 'no'"
    ):
        xla_metadata_call2({"a": 1}, ad_metadata="no")


def test_limits_of_fusion():
    def f(x):
        with fuse_limit():
            return jnp.sin(x)

    assert 'FUSE_LIMIT = "true"' in jax.jit(f).lower(1.0).as_text()
    assert 'MUST_FUSE = "7"' in jax.jit(must_fuse_call("7")(jnp.sin)).lower(1.0).as_text()


def test_functions_computed_on_the_host():
    """With their results in the memories that are said; under transformations."""
    space = jax.memory.Space

    @compute_on2(compute_type="device_host", out_memory_spaces=(space.Host, space.Device))
    def f(x, y):
        y = jax.device_put(y, space.Host)
        return x * y, jnp.sin(x) * y

    x, y = jax.device_put(jnp.arange(4.0), space.Host), jnp.ones(4)
    for g in (f, jax.jit(f)):
        kept, moved = g(x, y)
        assert [a.sharding.memory_kind for a in (kept, moved)] == ["pinned_host", "device"]
        np.testing.assert_allclose(moved, np.sin(np.arange(4.0)), rtol=1e-6)
    double = compute_on2(
        lambda x: {"a": jnp.sin(x) * 2}, compute_type="device_host", out_memory_spaces=space.Device
    )
    assert '_xla_compute_type = "host"' in jax.jit(double).lower(y).as_text()
    g = jax.jit(jax.vmap(jax.grad(lambda x: double(x)["a"])))(y)
    np.testing.assert_allclose(g, 2 * np.cos(np.ones(4)), rtol=1e-6)
    with pytest.raises(ValueError, match="Invalid compute type elsewhere"):
        compute_on2(f, compute_type="elsewhere", out_memory_spaces=space.Device)
    with pytest.raises(ValueError, match="out_memory_spaces specification must be a tree prefix"):
        compute_on2(jnp.sin, compute_type="device", out_memory_spaces=(space.Host,) * 2)(y)
    with pytest.raises(NotImplementedError, match="compiler_options are of compilers of TPUs"):
        compute_on2(
            f, compute_type="device", out_memory_spaces=space.Device, compiler_options={"a": 1}
        )


@pytest.mark.parametrize(
    "value", [object(), None, b"x", [1], (1,), {}], ids=lambda x: type(x).__name__
)
def test_values_of_metadata_are_strings_and_numbers(value):
    expected = "metadata values must be str, bool, int, or float, got .* for key 'bad'"
    with pytest.raises(TypeError, match=expected):
        xla_metadata_call(jnp.sin, bad=value)
    with pytest.raises(TypeError, match=expected):
        xla_metadata_call2(jnp.sin, {"bad": value})
    with pytest.raises(TypeError, match=expected):
        xla_metadata_call2(jnp.sin, {"a": "b"}, ad_metadata={"bad": value})
    with pytest.raises(TypeError, match="metadata must be a dict"):
        xla_metadata_call2(jnp.sin, "notadict")


@pytest.mark.parametrize("told", ["same", "drop", {"group": "b"}], ids=str)
def test_checked_calls_are_told_the_same(told):
    f = xla_metadata_call2(jnp.sin, {"group": "a"}, ad_metadata=told)
    checked = checkify.checkify(jax.grad(f), errors=checkify.nan_checks)
    expected, found = (jax.jit(g).lower(1.0).as_text() for g in (jax.grad(f), checked))
    for text in ('group = "a"', 'group = "b"'):
        assert (text in found) == (text in expected)
    assert "xla_metadata =" not in found


@pytest.mark.parametrize("kind", ["device_host", "tpu_sparsecore", None])
def test_interpreters_may_ask_where_an_equation_computes(kind):
    f = jnp.sin if kind is None else compute_on(kind)(jnp.sin)
    (eqn,) = jax.make_jaxpr(f)(1.0).eqns
    assert eqn.ctx.compute_type == kind

"""Jaxprs as text, and what staging makes of Python."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax


def text(f, *args):
    return str(jax.make_jaxpr(f)(*args))


# As JAX 0.10.2 prints them.
def test_golden_texts():
    x = jnp.ones(3)
    assert text(jnp.sin, x) == "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    assert text(lambda x: jnp.sin(x) * 2, x) == (
        "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b 2.0:f32[] in (c,) }")
    assert text(lambda x: (x, 1, 2.0), 1.0) == "{ lambda ; a:f32[]. let  in (a, 1:i32[], 2.0:f32[]) }"
    assert text(lambda x: jax.jit(lambda y: jnp.sin(y))(x) + 1, 1.0) == """\
{ lambda ; a:f32[]. let
    b:f32[] = jit[
      name=<lambda>
      jaxpr={ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    ] a
    c:f32[] = add b 1.0:f32[]
  in (c,) }"""
    assert text(lambda x: lax.top_k(x, 2)[0], jnp.ones(5)).startswith("{ lambda ; a:f32[5]. let b:f32[2] _:i32[2] = top_k")


def test_constants():
    c = jnp.arange(4.0)
    closed = jax.make_jaxpr(lambda x: x + c)(jnp.ones(4))
    assert str(closed) == "{ lambda a:f32[4]; b:f32[4]. let c:f32[4] = add b a in (c,) }"
    assert closed.consts[0] is c
    np.testing.assert_array_equal(jax.core.eval_jaxpr(closed.jaxpr, closed.consts, jnp.ones(4))[0], np.arange(4) + 1)


def test_make_jaxpr_options():
    closed, shapes = jax.make_jaxpr(lambda x: {"a": x}, return_shape=True)(jnp.ones(2))
    assert shapes == {"a": jax.ShapeDtypeStruct((2,), "float32")}
    assert "3" in str(jax.make_jaxpr(lambda x, n: x * n, static_argnums=1)(1.0, 3.0))
    assert closed.in_avals[0].shape == (2,)


def test_source_lines():
    printed = jax.make_jaxpr(lambda x: jnp.sin(x))(1.0).pretty_print(source_info=True)
    assert "test_jaxprs.py" in printed


def test_literals_keep_their_types():
    assert text(lambda x: x * 2, jnp.ones(2, jnp.int32)).count("2:i32[]") == 1
    assert text(lambda x: x * True, jnp.ones(2)) is not None


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda x: 1 if x else 2, jax.errors.TracerBoolConversionError, r"f32\[\]"),
    (lambda x: int(x), jax.errors.ConcretizationTypeError, r"f32\[\]"),
    (lambda x: float(x), jax.errors.ConcretizationTypeError, r"f32\[\]"),
    (lambda x: complex(x), jax.errors.ConcretizationTypeError, r"f32\[\]"),
    (lambda x: np.asarray(x), jax.errors.TracerArrayConversionError, r"f32\[\]"),
    (lambda x: np.sin(x), jax.errors.TracerArrayConversionError, r"f32\[\]"),
    (lambda x: [1, 2][x.astype(int)], jax.errors.TracerIntegerConversionError, r"i32\[\]"),
    (lambda x: range(x.astype(int)), jax.errors.TracerIntegerConversionError, r"i32\[\]"),
    (lambda x: jnp.ones(x.astype(int)), TypeError, "Shapes must be 1D sequences of concrete values"),
    (lambda x: jnp.ones(3)[x > 0], jax.errors.NonConcreteBooleanIndexError, "bool"),
    (lambda x: {x: 1}, TypeError, "unhashable"),
    (lambda x: x.item(), jax.errors.ConcretizationTypeError, r"f32\[\]"),
    (lambda x: x.tolist(), jax.errors.ConcretizationTypeError, r"f32\[\]"),
])
def test_concretisation_errors(call, error, message):
    with pytest.raises(error, match=message):
        jax.jit(call)(1.0)


def test_leaked_tracers():
    kept = []
    jax.jit(lambda x: kept.append(x * 2) or x)(1.0)
    for use in (lambda: kept[0] + 1, lambda: jax.jit(lambda y: y + kept[0])(1.0), lambda: jax.vmap(lambda y: y + kept[0])(
            jnp.ones(2)), lambda: jax.grad(lambda y: y * kept[0])(1.0)):
        with pytest.raises(jax.errors.UnexpectedTracerError, match=r"(?s)unexpected tracer.*f32\[\].*test_jaxprs.py"):
            use()
    kept.clear()
    jax.grad(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        kept[0] * 2


def test_tracebacks_show_user_frames_only():
    import traceback

    def g(x):
        return jnp.dot(x, jnp.ones(5))
    with pytest.raises(TypeError) as info:
        jax.jit(jax.grad(lambda x: g(x).sum()))(jnp.ones(3))
    files = {f.filename for f in traceback.extract_tb(info.value.__traceback__)}
    assert not [name for name in files if "/teucer/" in name and "/tests/" not in name]

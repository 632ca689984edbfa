"""Tokens: what makes them, what carries them, and foreign functions that take and give them."""

import ctypes
import os
import shutil
import subprocess

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp

TOKEN = jax.ffi.abstract_token
CALL = jax.ffi.ffi_call("f", (TOKEN, jax.ShapeDtypeStruct((), np.float32)))
SOURCE = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static float last = 0;
static ffi::Error Add(ffi::Token, ffi::BufferR0<ffi::F32> x, ffi::Result<ffi::Token>,
                      ffi::Result<ffi::BufferR0<ffi::F32>> y) {
  *y->typed_data() = last = 10 * last + *x.typed_data();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    add, Add, ffi::Ffi::Bind().Arg<ffi::Token>().Arg<ffi::BufferR0<ffi::F32>>()
                              .Ret<ffi::Token>().Ret<ffi::BufferR0<ffi::F32>>());
"""


def test_programs_take_and_give_tokens():
    token = lax.create_token(3)
    out, x = jax.jit(lambda t, x: (t, x + 1))(token, 1)
    assert type(token) is type(out) is jax.extend.core.Token and x == 2
    assert jax.typeof(token) == TOKEN and type(TOKEN) is jax.extend.core.AbstractToken
    assert str(jax.make_jaxpr(lambda t: lax.after_all(t, lax.create_token()))(token)) == (
        "{ lambda ; a:Tok. let b:Tok = create_token ; c:Tok = after_all a b in (c,) }"
    )
    jax.block_until_ready([out, lax.after_all(), lax.after_all(token, out)])


@pytest.mark.parametrize(
    "f",
    [
        lambda t: lax.scan(lambda t, x: (lax.after_all(t), x), t, jnp.arange(2))[0],
        lambda t: lax.scan(lambda t, x: (t, x), t, jnp.arange(2))[0],
        lambda t: lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, lax.after_all(s[1])), (0, t)
        )[1],
        lambda t: lax.cond(True, lambda t: t, lambda t: lax.after_all(t), t),
        jax.checkpoint(lambda t: lax.after_all(t)),
    ],
    ids=["scan", "scan-as-it-is", "while", "cond", "checkpoint"],
)
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_control_flow_carries_tokens(f, transform):
    assert jax.typeof(transform(f)(lax.create_token())) == TOKEN


def test_derivatives_and_batches_leave_tokens_as_they_are():
    def f(x, t):
        return jnp.sin(x), lax.after_all(t)

    (y, token), dx = jax.value_and_grad(f, has_aux=True)(0.5, lax.create_token())
    assert np.allclose([y, dx], [np.sin(0.5), np.cos(0.5)]) and jax.typeof(token) == TOKEN
    ys, token = jax.vmap(f, (0, None), (0, None))(jnp.arange(3.0), token)
    assert ys.shape == (3,) and jax.typeof(token) == TOKEN


def test_what_is_no_token_is_refused():
    with pytest.raises(TypeError, match=r"must be tokens.\n    operand 1: 3 of type"):
        lax.after_all(lax.create_token(), 3)
    with pytest.raises(NotImplementedError, match="call to `f` takes or gives a token"):
        jax.vmap(lambda x: CALL(lax.create_token(), x))(jnp.ones(3))


def test_foreign_functions_are_given_tokens():
    text = jax.jit(lambda x: CALL(lax.create_token(), x)[1]).lower(1.0).as_text()
    assert "(!stablehlo.token, tensor<f32>) -> (!stablehlo.token, tensor<f32>)" in text
    text = jax.jit(lax.after_all).lower(lax.create_token(), lax.create_token()).as_text()
    assert "stablehlo.optimization_barrier %arg0, %arg1" in text


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="there is no C++ compiler"
)
def test_tokens_order_foreign_functions(tmp_path):
    (tmp_path / "add.cc").write_text(SOURCE)
    subprocess.run(
        [
            os.environ.get("CXX", "g++"),
            "-std=c++17",
            "-shared",
            "-fPIC",
            f"-I{jax.ffi.include_dir()}",
            str(tmp_path / "add.cc"),
            "-o",
            str(tmp_path / "add.so"),
        ],
        check=True,
    )
    library = ctypes.CDLL(str(tmp_path / "add.so"))
    jax.ffi.register_ffi_target("token_add", jax.ffi.pycapsule(library.add))
    add = jax.ffi.ffi_call("token_add", (TOKEN, jax.ShapeDtypeStruct((), np.float32)))

    @jax.jit
    def f(t, x, y, z):
        t, first = add(t, x)
        t, second = add(lax.after_all(t), y)
        t, third = add(t, z)
        return t, (third, second, first)

    token, found = f(lax.create_token(), 1.0, 2.0, 3.0)
    assert [float(x) for x in found] == [123.0, 12.0, 1.0]
    assert float(add(token, np.float32(4))[1]) == 1234.0

"""`psend` and `precv`.

Types, and the text for GPUs; other platforms are refused by name when a program is lowered.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

P = jax.P
PERM = [(0, 1), (1, 0)]


def shifted(x):
    return lax.precv(lax.psend(x, "x", PERM), jax.ShapeDtypeStruct(x.shape, x.dtype), "x", PERM)


@pytest.fixture(params=[True, False], ids=["vma", "plain"])
def program(request):
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(
        shifted, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=request.param
    )


def test_they_are_traced(program):
    traced = jax.jit(program).trace(jnp.arange(4.0))
    assert str(traced.jaxpr).count(":Tok = psend[axis_name=('x',) perm=((0, 1), (1, 0))]") == 1
    assert traced.out_info.shape == (4,)


def test_the_token_orders_them_on_gpus(program):
    text = jax.jit(program).trace(jnp.arange(4.0)).lower(lowering_platforms=("cuda",)).as_text()
    sent, received = text.index('"stablehlo.send"(%arg1'), text.index('"stablehlo.recv"')
    assert sent < text.index("stablehlo.optimization_barrier") < received
    assert text.count("source_target_pairs = dense<[[0, 1], [1, 0]]>") == 2


@pytest.mark.parametrize(
    "run",
    [
        lambda f: jax.jit(f)(jnp.arange(4.0)),
        lambda f: jax.jit(f).lower(jnp.arange(4.0)),
        lambda f: jax.jit(f).trace(jnp.arange(4.0)).lower(lowering_platforms=("tpu",)),
    ],
)
def test_other_platforms_are_refused_when_lowering(program, run):
    with pytest.raises(
        NotImplementedError,
        match=r"psend is currently only implemented on GPU(?s:.*)jax.lax.ppermute",
    ):
        run(program)


def test_what_is_refused(program):
    with pytest.raises(
        NotImplementedError, match=r"Eager shard_map cannot hold what psend gives(?s:.*)jax.jit"
    ):
        program(jnp.arange(4.0))
    with pytest.raises(NameError, match="unbound axis name: x(?s:.*)psend"):
        shifted(np.ones(4, np.float32))
    for perm, message in (
        ([(0, 0), (0, 1)], "psend sources and destinations must be unique"),
        ([(0, 7)], "must be elements"),
    ):
        with pytest.raises(ValueError, match=message):
            jax.make_jaxpr(lambda x, perm=perm: lax.psend(x, "x", perm), axis_env=[("x", 2)])(1.0)
    with pytest.raises(TypeError, match="precv: the first argument is a token"):
        jax.make_jaxpr(lambda x: lax.precv(x, x, "x", PERM), axis_env=[("x", 2)])(1.0)

"""`jax.sharding.no_collectives`: operations that communicate along a mesh axis are refused."""

import re

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P, lax
from teucer._base.errors import ForbiddenCollectiveError
from teucer.sharding import AxisType, NamedSharding, auto_axes, no_collectives, reshard

VALUE = np.arange(16, dtype=np.float32).reshape(4, 4)


@pytest.fixture(autouse=True)
def mesh():
    mesh = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4])
    with jax.set_mesh(mesh):
        yield mesh


def over(f, layout, out):
    return jax.shard_map(f, in_specs=layout, out_specs=out)


def unreduced(x):
    return lax.reduce_sum(x, (0,), out_sharding=P("y", unreduced={"x"}))


# Name: a function of an array over ("x", "y"), and what JAX 0.12.0.1 says of it within
# no_collectives({"x"}), None where it is allowed.
LOSES = "loses sharding axis 'x' in the output without marking it unreduced"
CASES = {
    "elementwise": (lambda x: x + 1, None),
    "transpose": (lambda x: x.T, None),
    "broadcast": (lambda x: jnp.broadcast_to(x, (2, 4, 4)), None),
    "where": (lambda x: jnp.where(x > 0, x, 0), None),
    "stack": (lambda x: jnp.stack([x, x]), None),
    "reshape": (lambda x: x[None].reshape(4, 1, 4), None),
    "sum along y": (lambda x: x.sum(1), None),
    "sum left to be taken": (unreduced, None),
    "device_put": (lambda x: jax.device_put(x, P()), None),
    "reshard along y": (lambda x: reshard(x, P("x")), None),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), None),
    "gradient": (lambda x: jax.grad(lambda w: jnp.sin(w).sum())(jnp.ones(4)), None),
    "sum": (lambda x: x.sum(), f"`reduce_sum` {LOSES}"),
    "sum along x": (lambda x: x.sum(0), f"`reduce_sum` {LOSES}"),
    "max": (lambda x: x.max(), f"`reduce_max` {LOSES}"),
    "argmax": (lambda x: jnp.argmax(x, 0), f"`argmax` {LOSES}"),
    "reshard": (lambda x: reshard(x, P()), f"`reshard` {LOSES}"),
    "exchanged": (
        lambda x: reshard(x, P("y", "x")),
        "`reshard` changes the sharded dimension of axis 'x'",
    ),
    "of parts": (
        lambda x: reshard(unreduced(x), P("y")),
        "`reshard` consumes unreduced axis 'x' without keeping it unreduced in the output",
    ),
    "product": (
        lambda x: jnp.dot(x, x.T, out_sharding=P("x")),
        "`dot_general` changes the sharded dimension of axis 'x'",
    ),
    "contraction": (
        lambda x: jnp.dot(reshard(x, P("x")).T, reshard(x, P("x")), out_sharding=P("x")),
        "`dot_general` contracts over axis 'x' without marking it unreduced in the output",
    ),
    "contraction left": (
        lambda x: jnp.dot(
            reshard(x, P("x")).T, reshard(x, P("x")), out_sharding=P(unreduced={"x"})
        ),
        None,
    ),
    "within loops": (
        lambda x: lax.scan(lambda c, _: (c, c.sum()), x, None, length=2)[1],
        f"`reduce_sum` {LOSES}",
    ),
    "within branches": (
        lambda x: lax.cond(x.shape == (4, 4), jnp.sum, jnp.max, x),
        LOSES,
    ),
    "within jit": (lambda x: jax.jit(jnp.sum)(x), f"`reduce_sum` {LOSES}"),
    "transposed": (
        lambda x: jax.vjp(lambda w: x * w, reshard(VALUE[0], P("y")))[1](x)[0],
        LOSES,
    ),
    "auto_axes": (
        lambda x: auto_axes(lambda x: x.sum(0), out_sharding=P("y"))(x),
        f"`reshard` {LOSES}",
    ),
    "parts alone": (over(lambda x: x + lax.axis_index("x"), P("x", "y"), P("x", "y")), None),
    "casts": (
        over(
            lambda x: lax.pcast(x, ("x", "y"), to="unreduced"),
            P("x", "y"),
            P(unreduced={"x", "y"}),
        ),
        None,
    ),
    "psum along y": (over(lambda x: lax.psum(x, "y"), P("x", "y"), P("x")), None),
    "psum": (over(lambda x: lax.psum(x, "x"), P("x", "y"), P(None, "y")), "`psum` acts on"),
    "psum of both": (over(lambda x: lax.psum(x, ("x", "y")), P("x", "y"), P()), "`psum` acts on"),
    "psum unchecked": (
        lambda x: jax.shard_map(
            lambda x: lax.psum(x, "x"),
            in_specs=P("x", "y"),
            out_specs=P(None, "y"),
            check_vma=False,
        )(x),
        "`psum` acts on axis 'x'",
    ),
    "ppermute": (
        over(lambda x: lax.ppermute(x, "x", [(0, 1), (1, 0)]), P("x", "y"), P("x", "y")),
        "`ppermute` acts on axis 'x'",
    ),
    "all_gather": (
        over(lambda x: lax.all_gather(x, "x", tiled=True), P("x", "y"), P("x", "y")),
        "`all_gather` acts on axis 'x'",
    ),
    "all_to_all": (
        over(lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True), P("x", "y"), P("x", "y")),
        "`all_to_all` acts on axis 'x'",
    ),
    "psum_scatter": (
        over(lambda x: lax.psum_scatter(x, "x", tiled=True), P(None, "y"), P("x", "y")),
        "`reduce_scatter` acts on axis 'x'",
    ),
    "vmap's axis": (
        lambda x: jax.vmap(lambda r: lax.psum(r, "x"), axis_name="x")(np.ones((2, 3))),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_what_communicates_is_refused(name, jit):
    f, says = CASES[name]
    f = jax.jit(f) if jit else f
    x = reshard(VALUE, P(None, "y") if name == "psum_scatter" else P("x", "y"))
    f(x)  # the context is part of the keys of caches
    with no_collectives({"x"}):
        if says is None:
            f(x)
        else:
            with pytest.raises(ForbiddenCollectiveError, match=re.escape(says)) as caught:
                f(x)
            start = "Collective across axis 'x' is forbidden by `no_collectives`, but "
            assert str(caught.value).startswith(start)
    f(x)


def test_as_a_decorator_and_other_axes():
    x = reshard(VALUE, P("x", "y"))

    @no_collectives({"x", "y"})
    def f(x):
        return x.sum()

    with pytest.raises(ForbiddenCollectiveError):
        f(x)
    with no_collectives({"z"}), no_collectives(frozenset()):
        assert float(x.sum()) == VALUE.sum()
    for wrong in ("x", ["x"], None, True):
        with pytest.raises(TypeError, match=r"Expected axis name\(s\) as set or frozenset"):
            no_collectives(wrong)


def test_compiled_before_and_auto_axes():
    """What the compiler does along Auto axes no type says; what is compiled runs."""
    x = reshard(VALUE, P("x", "y"))
    lowered = jax.jit(jnp.sum).lower(x)
    auto = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    with jax.set_mesh(auto):
        y = jax.device_put(VALUE, NamedSharding(auto, P("x")))
        with no_collectives({"x"}):
            assert float(lowered.compile()(x)) == VALUE.sum() == float(y.sum())

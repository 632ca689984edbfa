"""The rules on several devices."""

import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

P = jax.P
AUTO = jax.sharding.AxisType.Auto
N = 4
W, X, Y = (jax.ShapeDtypeStruct(s, "float32") for s in ((3,), (8, 3), (8,)))


@pytest.fixture
def mesh():
    return jax.make_mesh((N,), ("i",), axis_types=(AUTO,), devices=jax.devices()[:N])


def loss(w, x):
    return jnp.sum((x @ w) ** 2)


def mean_loss(w, x):
    return lax.pmean(loss(w, x), "i")


def total_loss(w, x):
    return lax.psum(loss(w, x), "i")


def varying(w):
    return lax.pcast(w, ("i",), to="varying")


def psum_of_gradient(w, x):
    return lax.psum(jax.grad(loss)(w, x), "i")


def psum_of_value_and_gradient(w, x):
    value, g = jax.value_and_grad(loss)(w, x)
    return lax.psum(g * 0.5, "i") + lax.psum(value, "i")


def psum_of_gradient_of_vmap(w, x):
    return lax.psum(jax.vmap(jax.grad(loss), (None, 0))(w, x[:, None]).sum(0), "i")


def psum_of_gradient_of_sum(w, x):
    return lax.psum(jax.grad(total_loss)(w, x), "i")


def pmean_of_gradient(w, x):
    return lax.pmean(jax.grad(loss)(w, x), "i")


def gradient_alone(w, x):
    return jax.grad(loss)(w, x)


def gradient_of_mean(w, x):
    return jax.grad(mean_loss)(w, x)


def psum_of_gradient_of_parts(w, x):
    return lax.psum(jax.grad(loss)(varying(w), x), "i")


def mean_by_hand(w, x):
    return lax.psum(jax.grad(loss)(w, x), "i") / N


def sharded(f, mesh, out=P(), **options):
    return jax.shard_map(f, mesh=mesh, in_specs=(P(), P("i")), out_specs=out, **options)


@pytest.mark.parametrize(
    "f",
    [
        psum_of_gradient,  # netket 2228 and 2229: n times too large
        psum_of_value_and_gradient,
        psum_of_gradient_of_vmap,
        psum_of_gradient_of_sum,
    ],
)
def test_a_gradient_that_is_summed_twice(mesh, f):
    report = jax.debug.check(sharded(f, mesh), W, X)
    assert report.numbers == ("T603",), str(report)
    assert f"{N} times too large" in report.findings[0].message
    assert "lax.psum" in report.findings[0].text


@pytest.mark.parametrize(
    "f",
    [
        pmean_of_gradient,
        gradient_alone,
        gradient_of_mean,
        psum_of_gradient_of_parts,
        mean_by_hand,
        total_loss,
    ],
)
def test_a_gradient_that_is_summed_once(mesh, f):
    report = jax.debug.check(sharded(f, mesh), W, X)
    assert not report, str(report)


def test_without_the_check_of_varying_axes(mesh):
    """There the derivative sums nothing, but the cotangent of a psum: jax 3970."""
    unchecked = {"check_vma": False}
    assert not jax.debug.check(sharded(psum_of_gradient, mesh, **unchecked), W, X)
    twice = jax.debug.check(sharded(psum_of_gradient_of_sum, mesh, **unchecked), W, X)
    assert twice.numbers == ("T603",)

    def summed_mean(w, x):
        return lax.psum(jax.grad(mean_loss)(w, x), "i")

    assert not jax.debug.check(sharded(summed_mean, mesh, **unchecked), W, X)


def per_example(params, x):
    return jax.vmap(jax.grad(lambda p, y: jnp.dot(p, y)), (None, 0))(params, x)


def test_a_sum_that_is_given_as_parts(mesh):
    """jax 36886: the gradient of each example was wanted."""
    report = jax.debug.check(sharded(per_example, mesh, P("i")), W, X)
    assert report.numbers == ("T602",), str(report)
    local = lambda w, x: jax.grad(loss)(w, x)[None]
    assert jax.debug.check(sharded(local, mesh, P("i")), W, X).numbers == ("T602",)
    # Parts, sums, and losses of each device are what they are said to be.
    parts = lambda w, x: per_example(varying(w), x)
    assert not jax.debug.check(sharded(parts, mesh, P("i")), W, X)
    assert not jax.debug.check(sharded(gradient_alone, mesh), W, X)
    assert not jax.debug.check(sharded(lambda w, x: x @ w, mesh, P("i")), W, X)


def test_an_array_on_every_device_beside_a_sharded_one(mesh):
    rows = jax.NamedSharding(mesh, P("i"))
    whole = jax.NamedSharding(mesh, P())
    x = X.update(sharding=rows)
    f = lambda w, x, y: jnp.sum((x @ w - y) ** 2)
    report = jax.debug.check(f, W.update(sharding=whole), x, Y.update(sharding=whole))
    assert report.numbers == ("T601",) and "y has 8 rows, as x has" in str(report)
    assert not jax.debug.check(f, W.update(sharding=whole), x, Y.update(sharding=rows))
    assert not jax.debug.check(f, W, X, Y)
    in_map = jax.shard_map(
        lambda x, y: lax.psum(jnp.sum(x) + jnp.sum(y), "i"),
        mesh=mesh,
        in_specs=(P("i"), P()),
        out_specs=P(),
    )
    assert not jax.debug.check(in_map, X, Y)  # as many by chance
    many, labels = (jax.ShapeDtypeStruct(s, "float32") for s in ((512, 3), (512,)))
    assert jax.debug.check(in_map, many, labels).numbers == ("T601",)
    assert not jax.debug.check(in_map, X, jax.ShapeDtypeStruct((5,), "float32"))


def test_collectives_that_an_annotation_would_remove(mesh):
    """Asked for only: the compiler says it."""
    rows = jax.NamedSharding(mesh, P("i"))
    columns = jax.NamedSharding(mesh, P(None, "i"))
    a, b = (jax.ShapeDtypeStruct((64, 64), "float32", sharding=s) for s in (rows, columns))
    f = jax.jit(lambda a, b: a * 2 + b, out_shardings=rows)
    report = jax.debug.check(f, a, b, compiled=True)
    assert report.numbers == ("T604",) and report.findings[0].remedy
    assert not jax.debug.check(f, a, b)
    assert not jax.debug.check(f, a, a, compiled=True)

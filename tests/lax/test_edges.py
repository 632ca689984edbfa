"""Edges of indexing, sorting and sampling.

Places outside, NaN, equal keys, zeros of both signs, extremes of every dtype.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax, random
from teucer._base import config, dtypes

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
KEY = random.key(0)


def wide(dtype: str) -> Any:
    return config.enable_x64(dtype in ("float64", "int64", "uint64", "complex128"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_keys_keep_their_order(dtype: str) -> None:
    """Zeros of both signs are equal, and so are all NaNs, behind all numbers."""
    with wide(dtype):
        x = jnp.array([0.0, -0.0, 0.0, -0.0, 1, np.nan, -np.nan, np.nan, -1], dtype)
        np.testing.assert_array_equal(jnp.argsort(x), [8, 0, 1, 2, 3, 4, 5, 6, 7])
        np.testing.assert_array_equal(jnp.argsort(x[:4]), [0, 1, 2, 3])
        keys, places = lax.sort_key_val(x, jnp.arange(9))
        np.testing.assert_array_equal(places, [8, 0, 1, 2, 3, 4, 5, 6, 7])
        np.testing.assert_array_equal(
            np.signbit(np.asarray(keys[1:5], np.float64)), [False, True, False, True]
        )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_equal_complex_keys_keep_their_order(dtype: str) -> None:
    with wide(dtype):
        x = np.array(
            [complex(0.0, 0.0), complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0)], dtype
        )
        np.testing.assert_array_equal(jnp.argsort(x), [0, 1, 2, 3])


@pytest.mark.parametrize(
    "dims", [((1, 2), (1, 0)), ((2, 1), (0, 1)), ((2, 1), (1, 0)), ((1, 2), (0, 1))]
)
def test_gradients_of_products_over_axes_in_any_order(dims: Any) -> None:
    rng = np.random.default_rng(0)
    shape = {dims[1][dims[0].index(1)]: 2, dims[1][dims[0].index(2)]: 5}
    a, b = (
        rng.normal(size=(3, 2, 5)).astype(np.float32),
        rng.normal(size=(shape[0], shape[1], 4)).astype(np.float32),
    )
    weights = rng.normal(size=(3, 4)).astype(np.float32)

    def f(a: Any, b: Any) -> Any:
        return (lax.dot_general(a, b, (dims, ((), ()))) * weights).sum()

    letters = "".join(
        "ij"[dims[0].index(1) if dims[1][dims[0].index(1)] == k else dims[0].index(2)]
        for k in (0, 1)
    )
    order = "".join("ij"[dims[0].index(k)] for k in (1, 2))
    da, db = jax.grad(f, (0, 1))(a, b)
    np.testing.assert_allclose(da, np.einsum(f"nm,{letters}m->n{order}", weights, b), rtol=1e-4)
    np.testing.assert_allclose(db, np.einsum(f"nm,n{order}->{letters}m", weights, a), rtol=1e-4)


@pytest.mark.parametrize("fill", [None, 5.0, np.nan])
def test_what_is_filled_has_no_tangent(fill: Any) -> None:
    """Places outside give a constant, in forward as in reverse mode, under vmap too."""

    def f(x: Any) -> Any:
        return x.at[jnp.array([0, 7])].get(mode="fill", fill_value=fill)

    x, t = jnp.arange(3.0), jnp.arange(3.0) + 5
    np.testing.assert_array_equal(jax.jvp(f, (x,), (t,))[1], [5, 0])
    np.testing.assert_array_equal(
        jax.vmap(lambda t: jax.jvp(f, (x,), (t,))[1])(jnp.stack([t, t])), [[5, 0], [5, 0]]
    )
    np.testing.assert_array_equal(jax.grad(lambda x: f(x)[0] + f(x)[1])(x), [1, 0, 0])


@pytest.mark.parametrize("method", ["max", "min"])
def test_gradients_of_extremes_with_nan(method: str) -> None:
    """Where the result is NaN neither operand is it."""
    x, y = jnp.array([1.0, np.nan, 3.0]), jnp.array([1.0, 5.0, 2.0])

    def f(x: Any, y: Any) -> Any:
        return getattr(x.at[jnp.arange(3)], method)(y).sum()

    dx, dy = jax.grad(f, (0, 1))(x, y)
    one = np.array([0.5, 0, 1]) if method == "max" else np.array([0.5, 0, 0])
    np.testing.assert_array_equal(dx, one)
    np.testing.assert_array_equal(dy, [0.5, 0, 1 - one[2]])


@pytest.mark.parametrize("dtype", INTS)
def test_integers_reach_their_bounds(dtype: str) -> None:
    """Both ends of the range of every dtype come up, and nothing beyond."""
    with wide(dtype):
        info = dtypes.iinfo(dtype)
        for low, high in (
            (info.max - 2, info.max),
            (info.min, info.min + 3),
            (0, 1),
            (info.max - 1, info.max),
        ):
            low, high = (np.asarray(bound, dtype)[()] for bound in (low, high))
            x = np.asarray(random.randint(KEY, (400,), low, high, dtype)).astype(object)
            assert set(x) == set(range(int(low), int(high))), (low, high)
        ends = (np.asarray(bound, dtype)[()] for bound in (info.min, info.max))
        x = np.asarray(random.randint(KEY, (2000,), *ends, dtype))
        assert x.dtype == dtype and len(set(x.tolist())) > 200
        for low, high in ((5, 5), (7, 3)):
            assert set(np.asarray(random.randint(KEY, (10,), low, high, dtype)).tolist()) == {low}


def test_the_greatest_integer_comes_up() -> None:
    """A bound beyond the dtype, which 64 bits can hold, makes its last number possible."""
    with config.enable_x64(True):
        for dtype, bits in (("int32", 31), ("uint32", 32), ("int8", 7), ("uint8", 8)):
            x = np.asarray(random.randint(KEY, (300,), 2**bits - 3, 2**bits, dtype)).astype(
                np.int64
            )
            assert set(x.tolist()) == {2**bits - 3, 2**bits - 2, 2**bits - 1}, dtype


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", [(0, 1), (-1, 1), (2, 2), (2, 1), (1e3, 1e3 + 1)])
def test_uniform_numbers_keep_their_bounds(dtype: str, bounds: tuple[float, float]) -> None:
    """None is below minval, also where bounds are equal or reversed; none is above maxval."""
    with wide(dtype):
        low, high = (float(np.asarray(jnp.asarray(b, dtype), np.float64)) for b in bounds)
        x = np.asarray(random.uniform(KEY, (3000,), dtype, *bounds), np.float64)
        assert (x >= low).all() and (x <= max(low, high)).all()
        if high > low:
            assert x.min() < low + 0.05 * (high - low) + 1 and len(set(x.tolist())) > 1


def test_batched_gathers_promise_nothing() -> None:
    """That indices of each element are sorted and distinct says nothing of all together."""

    def f(x: Any, i: Any) -> Any:
        return x.at[i].get(indices_are_sorted=True, unique_indices=True)

    text = str(jax.make_jaxpr(jax.vmap(f, (None, 0)))(jnp.zeros(3), jnp.zeros((2, 2), int)))
    assert "unique_indices=False" in text and "indices_are_sorted=False" in text
    np.testing.assert_array_equal(
        jax.vmap(f, (None, 0))(jnp.arange(3.0), jnp.array([[0, 1], [0, 2]])), [[0, 1], [0, 2]]
    )


def test_a_batched_condition_with_an_effect_is_refused() -> None:
    """A callback in the condition of a loop would run for elements that have ended."""
    from teucer.experimental import io_callback

    def f(n: Any) -> Any:
        def going(i: Any) -> Any:
            return io_callback(
                lambda i, n: np.bool_(i < n), jax.ShapeDtypeStruct((), np.bool_), i, n
            )

        return lax.while_loop(going, lambda i: i + 1, 0)

    assert f(3) == 3
    with pytest.raises(NotImplementedError):
        jax.vmap(f)(jnp.arange(3))


def test_arrays_in_another_memory_and_back() -> None:
    """is_equivalent_to tells memories apart."""
    x = jnp.arange(4.0)
    kinds = [m.kind for m in x.device.addressable_memories()]
    for kind in kinds:
        there = jax.device_put(x, x.sharding.with_memory_kind(kind))
        assert there.sharding.memory_kind == kind
        back = jax.device_put(there, x.sharding)
        assert back.sharding.memory_kind == x.sharding.memory_kind
        np.testing.assert_array_equal(back, x)
        for other in kinds:
            same = x.sharding.with_memory_kind(kind).is_equivalent_to(
                x.sharding.with_memory_kind(other), 1
            )
            assert same == (kind == other)


def test_vmap_over_a_mesh_axis_after_one_that_is_not() -> None:
    """A batched jaxpr is kept for its axis, not for the size alone."""
    mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def f(x: Any) -> Any:
        where = jax.NamedSharding(mesh, jax.P(None))
        return lax.scan(
            lambda c, a: (lax.with_sharding_constraint(c * 2, where), None), x, jnp.arange(2)
        )[0]

    g = jax.jit(f)
    x = jnp.ones((2, 3))

    def text(**options: Any) -> str:
        return jax.jit(jax.vmap(g, **options)).lower(x).as_text()

    plain = text()
    over = text(spmd_axis_name="x")
    assert '"x"' in over and plain != over
    assert text() == plain and text(spmd_axis_name="x") == over


def test_offloading_saves_what_it_names() -> None:
    """A policy that offloads keeps the value: it is not computed again."""
    from teucer.ad_checkpoint import checkpoint_name

    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["s"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    def f(x: Any) -> Any:
        return jnp.exp(checkpoint_name(jnp.sin(x), "s")).sum()

    def sines(f: Any) -> int:
        return str(jax.make_jaxpr(jax.grad(f))(jnp.ones(3))).count("= sin ")

    assert sines(jax.checkpoint(f, policy=policy)) == 1
    assert sines(jax.checkpoint(f, policy=jax.checkpoint_policies.nothing_saveable)) == 2
    printed = str(jax.make_jaxpr(jax.grad(jax.checkpoint(f, policy=policy)))(jnp.ones(3)))
    assert re.findall(r"device_put\[copy=False device=MemorySpace\.(\w+)\]", printed) == [
        "Host",
        "Device",
    ]


def test_inputs_are_not_residuals_of_scans() -> None:
    """Of sin(c x) the backward scan reads xs as it was given: the forward one does not stack it
    again."""

    def f(c: Any, xs: Any) -> Any:
        return lax.scan(lambda s, x: (s + jnp.sin(c * x), None), 0.0, xs)[0]

    jaxpr = jax.make_jaxpr(jax.grad(f))(jnp.float32(2), jnp.arange(5.0)).jaxpr
    scans = [eqn for eqn in jaxpr.eqns if str(eqn.primitive) == "scan"]
    forward, backward = scans
    stacked = [v for v in forward.outvars if getattr(v.aval, "shape", ()) == (5,)]
    assert len(stacked) <= 1, forward
    assert any(v is jaxpr.invars[1] for v in backward.invars)


def test_second_derivatives_of_cbrt_have_their_limits() -> None:
    for outer in (jax.grad, jax.jacfwd):
        second = outer(jax.grad(jnp.cbrt))
        got = [float(second(x)) for x in (0.0, -0.0, np.inf, -np.inf)]
        assert got == [-np.inf, np.inf, 0, 0]

"""jit(dynamic_dims=...).

One compilation for all sizes up to a bound, under every transformation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import errors
from teucer._base import config
from teucer._executables.compile import clear_memory
from teucer._programs import compiler

RNG = np.random.default_rng(0)
W = RNG.normal(size=(3, 4)).astype(np.float32)
SIZES = (1, 2, 5, 16, 0)


def rows(n: int, k: int = 3) -> Any:
    return np.random.default_rng(n).normal(size=(n, k)).astype(np.float32)


def equal(found: Any, expected: Any) -> None:
    ys, zs = jax.tree.leaves(found), jax.tree.leaves(expected)
    for y, z in zip(ys, zs, strict=True):
        assert y.aval is z.aval
        np.testing.assert_allclose(y, z, rtol=2e-5, atol=1e-6)


def network(w: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ w)
    return {
        "loss": jnp.mean(hidden**2),
        "last": hidden[-1:],
        "softmax": jax.nn.softmax(hidden, axis=0),
        "twice": 2 * x,
    }


def loss(w: Any, x: Any) -> Any:
    # The square root has no derivative at 0, which is what is behind the elements.
    return jnp.sqrt(jnp.abs(x @ w)).sum() / x.shape[0]


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self, f: Any) -> None:
        self.f, self.times, self.__name__ = f, 0, f.__name__

    def __call__(self, *args: Any) -> Any:
        self.times += 1
        return self.f(*args)


def test_one_trace_for_all_sizes() -> None:
    f = Counted(network)
    g = jax.jit(f, dynamic_dims={1: 16})
    for n in SIZES[:-1]:
        equal(g(W, rows(n)), jax.jit(network)(W, rows(n)))
    assert f.times == 1
    equal(g(W, rows(0)), jax.jit(network)(W, rows(0)))  # empty arrays have a program of their own
    assert f.times == 2


def test_one_compilation_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    original = compiler.compile_module
    monkeypatch.setattr(
        compiler,
        "compile_module",
        lambda text, *a, **k: compiled.append(text) or original(text, *a, **k),
    )
    clear_memory()
    g = jax.jit(jax.grad(loss), dynamic_dims={"x": 16})
    for n in SIZES[:-1]:
        g(W, rows(n))
    h = jax.grad(jax.jit(loss, dynamic_dims={"x": 16}))
    for n in SIZES[:-1]:
        h(W, rows(n))
    mains = [t for t in compiled if "loss" in t.partition("\n")[0]]
    assert (
        len(mains) == 3
    )  # the jitted gradient; the forward pass and the backward pass of the other


@pytest.mark.parametrize("n", SIZES[:-1])
def test_under_transformations(n: int) -> None:
    g, x = jax.jit(loss, dynamic_dims={"x": 16}), rows(n)
    equal(jax.grad(g, (0, 1))(W, x), jax.grad(loss, (0, 1))(W, x))
    equal(jax.jit(jax.grad(loss, 1), dynamic_dims={1: 16})(W, x), jax.grad(loss, 1)(W, x))
    equal(
        jax.vmap(g, (None, 0))(W, np.stack([x, 2 * x])),
        jax.vmap(loss, (None, 0))(W, np.stack([x, 2 * x])),
    )
    equal(
        jax.vmap(jax.grad(g), (None, 0))(W, np.stack([x, x])),
        jax.vmap(jax.grad(loss), (None, 0))(W, np.stack([x, x])),
    )
    equal(jax.jit(g)(W, x), jax.jit(loss)(W, x))
    equal(jax.jvp(g, (W, x), (W, x)), jax.jvp(loss, (W, x), (W, x)))
    equal(jax.hessian(g)(W, x), jax.hessian(loss)(W, x))
    y, f_lin = jax.linearize(g, W, x)
    equal(jax.jit(f_lin)(W, x), jax.jvp(loss, (W, x), (W, x))[1])
    total, last = jax.lax.scan(lambda c, w: (c + g(w, x), g(w, x)), 0.0, np.stack([W, -W]))
    equal(
        (total, last),
        jax.lax.scan(lambda c, w: (c + loss(w, x), loss(w, x)), 0.0, np.stack([W, -W])),
    )
    equal(jax.lax.cond(True, g, lambda w, x: jnp.zeros(()), W, x), loss(W, x))
    equal(jax.checkpoint(g)(W, x), loss(W, x))


def control_flow(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        c = jax.lax.cond(row[0] > 0, lambda c: c + row.sum(), lambda c: c * 0.5, c)
        return c, jnp.stack([c, row[1]])

    def halve(s: Any) -> Any:
        return s[0] / 2, s[1] + 1

    total, ys = jax.lax.scan(step, 1.0, x)
    back, zs = jax.lax.scan(step, 1.0, x, reverse=True)
    bound = jax.lax.while_loop(lambda s: jnp.max(jnp.abs(s[0])) > 0.1, halve, (x, 0))
    doubled = jax.lax.fori_loop(0, 3, lambda i, y: y + jnp.cumsum(y, axis=0), x)
    each = jax.lax.map(
        lambda row: jax.lax.while_loop(lambda r: r.sum() > 1, lambda r: r / 2, row), x
    )
    rooted = jax.vmap(
        lambda row: jax.lax.while_loop(lambda r: jnp.abs(r).sum() > 1, lambda r: r / 2, row)
    )(x)
    return (
        total,
        ys,
        back,
        zs,
        bound,
        doubled,
        each,
        rooted,
        jax.jit(jnp.sort)(x[:, 0]),
        jax.checkpoint(jnp.sin)(x),
    )


@pytest.mark.parametrize("n", SIZES[:-1])
def test_control_flow(n: int) -> None:
    equal(CONTROL(rows(n)), jax.jit(control_flow)(rows(n)))
    derivative = jax.jit(
        jax.grad(
            lambda x: sum(
                jnp.sum(jax.lax.scan(lambda c, r: (c * jnp.sin(r).sum(), c), 1.0, x, reverse=b)[1])
                for b in (False, True)
            )
        ),
        dynamic_dims={"x": 16},
    )
    expected = jax.grad(
        lambda x: sum(
            jnp.sum(jax.lax.scan(lambda c, r: (c * jnp.sin(r).sum(), c), 1.0, x, reverse=b)[1])
            for b in (False, True)
        )
    )
    equal(derivative(rows(n)), expected(rows(n)))


CONTROL = jax.jit(control_flow, dynamic_dims={"x": 16})


def test_random_numbers_do_not_depend_on_the_bound() -> None:
    def draw(x: Any) -> Any:
        key = jax.random.key(3)
        keys = jax.random.split(key, x.shape[0])
        return (
            jax.random.normal(key, x.shape),
            jax.random.uniform(key, (2, x.shape[0])),
            jax.random.bits(key, (x.shape[0],), jnp.uint8),
            jax.vmap(lambda k: jax.random.uniform(k, (2,)))(keys),
            jax.random.key_data(keys),
            jax.random.gamma(key, 2.0, x.shape),
            jax.vmap(lambda k: jax.random.beta(k, 2.0, 3.0))(keys),
            jax.random.permutation(key, x, independent=True),
            jax.random.permutation(key, x.shape[0]),
        )

    g = jax.jit(draw, dynamic_dims={"x": 16})
    for n in (1, 2, 5, 16):
        equal(g(rows(n)), draw(rows(n)))
    with (
        config.threefry_partitionable(False),
        pytest.raises(NotImplementedError, match="depend on how many are drawn"),
    ):
        g(rows(2))


@pytest.mark.parametrize(
    "draw",
    [lambda k, x: jax.random.gamma(k, 2.0, x.shape), lambda k, x: jax.random.permutation(k, x)],
)
def test_generators_that_do_not_count_are_refused(draw: Any) -> None:
    with pytest.raises(NotImplementedError, match="depend on how many are drawn"):
        jax.jit(draw, dynamic_dims={"x": 16})(jax.random.key(0, impl="rbg"), rows(2))


def test_axes_share_a_dimension_if_they_share_a_size() -> None:
    f = Counted(lambda x, y: (x.sum(), (x[:, None] * y).sum(0)))
    f.__name__ = "f"
    g = jax.jit(f, dynamic_dims={0: 9, 1: {0: 9}})
    for n in (1, 3, 9):
        x, y = rows(n, 1)[:, 0], rows(n, 2)
        equal(g(x, y), f.f(jnp.asarray(x), jnp.asarray(y)))
    assert f.times == 1
    with pytest.raises((TypeError, ValueError), match="incompatible shapes|broadcast"):
        g(rows(3, 1)[:, 0], rows(4, 2))


def test_two_dimensions_and_trees() -> None:
    def f(tree: Any, *, scale: Any) -> Any:
        x = tree["x"]
        return {
            "flat": jnp.cumsum(x.reshape(-1)) * scale[0],
            "gram": x.T @ x,
            "t": jnp.concatenate([x, tree["y"]], 1),
            "s": scale * 2,
        }

    g = jax.jit(f, dynamic_dims={"tree": {0: 8, -1: (2, 6)}, "scale": 4})
    for n, m, k, s in ((1, 3, 2, 1), (8, 6, 3, 4), (4, 5, 6, 2), (3, 3, 3, 3)):
        tree, scale = {"x": rows(n, m), "y": rows(n, k)}, rows(s, 1)[:, 0]
        equal(g(tree, scale=scale), jax.jit(f)(tree, scale=scale))


def test_power_of_two_compiles_each_power() -> None:
    f = Counted(lambda x: x.sum(0))
    f.__name__ = "f"
    g = jax.jit(f, dynamic_dims={0: "power of two"})
    for n in (1, 3, 4, 5, 7, 8, 100, 128, 65):
        equal(g(rows(n)), jnp.asarray(rows(n)).sum(0))
    assert f.times == 4  # 1, 4, 8, 128


def test_size_zero_in_the_range() -> None:
    g = jax.jit(lambda x: (x.sum(), x * 2, jnp.concatenate([x, x])), dynamic_dims={"x": (0, 4)})
    for n in (0, 1, 4):
        x = rows(n, 1)[:, 0]
        equal(g(x), jax.jit(lambda x: (x.sum(), x * 2, jnp.concatenate([x, x])))(x))
    with pytest.raises(NotImplementedError, match=r"(?s)argmax.*may be empty.*f32\[n0\]"):
        jax.jit(lambda x: jax.lax.argmax(x, 0, np.int32), dynamic_dims={"x": (0, 4)})(
            rows(2, 1)[:, 0]
        )


def test_arguments_of_every_kind() -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    g = jax.jit(lambda k, x, s: (jax.random.key_data(k), x + s, k), dynamic_dims={"k": 8, "x": 8})
    found = g(keys, jnp.arange(3), 2)
    equal(found[0], jax.random.key_data(keys))
    assert found[2].aval is keys.aval
    equal(found[1], jnp.arange(3) + 2)
    equal(g(keys[:1], np.arange(2) > 0, 2.0)[1], (jnp.arange(2) > 0) + 2.0)


def test_nodes_passed_by_name_are_made_of_arrays_only() -> None:
    class Pair:
        """A node that looks at its children when it is made."""

        def __init__(self, a: Any, b: Any) -> None:
            assert a.shape == b.shape
            self.a, self.b = a, b

    jax.tree_util.register_pytree_node(
        Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children)
    )
    f = jax.jit(lambda x, *, pair: x.sum() + pair.a.sum() - pair.b.sum(), dynamic_dims={"pair": 8})
    assert f(rows(2), pair=Pair(np.ones(3, np.float32), np.zeros(3, np.float32))) == np.float32(
        rows(2).sum() + 3
    )


def test_sizes_beyond_the_bound() -> None:
    g = jax.jit(loss, dynamic_dims={"x": 4})
    with pytest.raises(
        ValueError,
        match=r"(?s)x is longer than dynamic_dims allow.*f32\[5,3\], axis 0 has size 5, bound 4",
    ):
        g(W, rows(5))


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ({0: {3: 4}}, "axis 3 in dynamic_dims is not an axis of w"),
        ([1], "must be a dict"),
        ({1.5: 4}, "position or the name"),
        ({0: {0: 2.5}}, "its bound, an int"),
        ({0: (3, 2)}, "not empty"),
        ({7: 4}, "only accepts 2 positional arguments"),
        ({"z": 4}, "invalid argnames"),
        ({0: {"a": 4}}, "an axis in dynamic_dims is an int"),
    ],
)
def test_bad_specifications(spec: Any, match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        jax.jit(loss, dynamic_dims=spec)(W, rows(2))


def test_refusals_name_the_primitive_and_the_line() -> None:
    g = jax.jit(lambda x: jnp.linalg.eigh(x), dynamic_dims={"x": {0: 8, 1: 8}})
    with pytest.raises(
        NotImplementedError,
        match=r"(?s)eigh: not done with a dynamic dim.*test_dynamic_dims.py.*f32\[n0,n0\]",
    ):
        g(np.eye(3, dtype=np.float32))
    h = jax.jit(
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
        dynamic_dims={"x": 8},
    )
    with pytest.raises(
        NotImplementedError, match=r"(?s)pure_callback: not done with a dynamic dimension"
    ):
        h(np.ones(3, np.float32))


def test_static_and_donated_arguments() -> None:
    g = jax.jit(
        lambda n, x, y: (x * n, y + 1), static_argnums=0, donate_argnums=2, dynamic_dims={1: 8}
    )
    y = jnp.ones(3)
    equal(g(2, rows(2), y), (2 * jnp.asarray(rows(2)), jnp.full(3, 2.0, np.float32)))
    assert y.is_deleted()


QUESTIONS = {
    "size": lambda x: x * 10 if x.shape[0] == 1 else x,
    "not": lambda x: x if x.shape[0] != 1 else x * 10,
    "shape": lambda x: x * 10 if x.shape == (1,) else x,
    "in": lambda x: x * 10 if x.shape[0] in (7, 1) else x,
    "numpy": lambda x: x * 10 if x.shape[0] == np.int64(1) else x,
    "numpy first": lambda x: x * 10 if np.int64(1) == x.shape[0] else x,
    "float": lambda x: x * 10 if x.shape[0] == 1.0 else x,
    "array_equal": lambda x: x * 10 if np.array_equal(x.shape, (1,)) else x,
    "cond": lambda x: jax.lax.cond(x.shape[0] == 1, lambda: x * 10, lambda: x),
    "two sizes": lambda x: x * 10 if x.shape[0] == 2 * x.shape[0] - 1 else x,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_equality_that_is_not_decided_is_refused(question: str) -> None:
    f, x = QUESTIONS[question], rows(1, 1)[:, 0]
    with pytest.raises(
        errors.InconclusiveDimensionOperation,
        match=r"(?s)'n0' == .* is inconclusive.*from 1 to 6.*\.py:\d+.*jnp.asarray\(x.shape\[0\]\)",
    ):
        jax.jit(f, dynamic_dims={0: 6})(x)
    # A range in which there is one answer.
    equal(jax.jit(f, dynamic_dims={0: (1, 1)})(x), 10 * jnp.asarray(x))
    equal(jax.jit(f, dynamic_dims={0: "power of two"})(x), 10 * jnp.asarray(x))
    equal(jax.jit(f, dynamic_dims={0: (2, 6)})(rows(2, 1)[:, 0]), jnp.asarray(rows(2, 1)[:, 0]))


def test_equality_of_what_is_not_a_size() -> None:
    def f(x: Any, y: Any) -> Any:
        # Of one range and of different sizes in this call.
        assert x.shape != y.shape and x.shape[0] not in (None, "1", 1.5)
        one = x.shape[0] == jnp.asarray(1)
        return jax.lax.cond(jnp.asarray(x.shape[0]) == 1, lambda: x * 10, lambda: x), jnp.where(
            one, x * 10, x
        )

    for n in (1, 2):
        x = rows(n, 1)[:, 0]
        equal(
            jax.jit(f, dynamic_dims={0: 6, 1: 6})(x, rows(3)),
            (jnp.asarray(x) * (10 if n == 1 else 1),) * 2,
        )


def test_equality_in_the_library_is_decided_by_the_polynomials() -> None:
    def f(x: Any, y: Any) -> Any:
        return jnp.einsum("ij,kj,j->ik", x, y, jnp.ones(3)), jnp.broadcast_shapes(
            x.shape, (1, 3)
        ) == x.shape

    equal(
        jax.jit(f, dynamic_dims={0: 6, 1: 6})(rows(2), rows(4))[0], jnp.asarray(rows(2)) @ rows(4).T
    )


NEGATIVE = {
    "ones": lambda x: jnp.ones(x.shape[0] - 3),
    "difference": lambda x: jnp.zeros(4 - x.shape[0]),
    "pad": lambda x: jax.lax.pad(x, 7.0, [(0, -2, 0)]),
    "full": lambda x: jax.lax.full((x.shape[0] - 3,), 1.0),
    "iota": lambda x: jax.lax.iota(np.int32, x.shape[0] - 3),
    "broadcast_to": lambda x: jnp.broadcast_to(1.0, (2, x.shape[0] - 3)),
    "normal": lambda x: jax.random.normal(jax.random.key(0), (x.shape[0] - 3,)),
    "split": lambda x: jax.random.split(jax.random.key(0), x.shape[0] - 3),
    "tile": lambda x: jnp.tile(x, x.shape[0] - 3),
    "tri": lambda x: jnp.tri(x.shape[0] - 3),
    "nonzero": lambda x: jnp.nonzero(x, size=x.shape[0] - 3),
}


@pytest.mark.parametrize("case", NEGATIVE)
def test_sizes_that_may_be_negative_are_refused(case: str) -> None:
    with pytest.raises(
        errors.InconclusiveDimensionOperation,
        match=(
            r"(?s)n0.* >= '0' is inconclusive.*negative.*from -\d to "
            r"\d.*test_dynamic_dims.py.*max_dim"
        ),
    ):
        jax.jit(NEGATIVE[case], dynamic_dims={0: 6})(rows(1, 1)[:, 0])


def test_sizes_that_are_cut_at_zero() -> None:
    f = jax.jit(lambda x: jnp.ones(jax.core.max_dim(x.shape[0] - 3, 0)), dynamic_dims={0: 6})
    assert [f(rows(n)).shape for n in (1, 3, 5)] == [(0,), (0,), (2,)]


HOLES = {
    "pad": lambda x: jax.lax.pad(x, 1.0, [(0, 0, 1)]),
    "pad and cut": lambda x: jax.lax.pad(x, 1.0, [(2, -1, 2)]),
    "reduce_window": lambda x: jax.lax.reduce_window(
        x, 0.0, jax.lax.add, (2,), (1,), [(1, 0)], base_dilation=(2,)
    ),
    "convolution": lambda x: jax.lax.conv_general_dilated(
        x[None, None], np.ones((1, 1, 2), np.float32), (1,), [(1, 1)], lhs_dilation=(3,)
    ),
}


@pytest.mark.parametrize("case", HOLES)
def test_there_are_no_holes_in_an_empty_array(case: str) -> None:
    f = HOLES[case]
    fs = [f] if case == "convolution" else [f, jax.grad(lambda x: (f(x) ** 2).sum())]
    for g in fs:
        h = jax.jit(g, dynamic_dims={0: (0, 6)})
        for n in (0, 1, 3):
            equal(h(rows(n, 1)[:, 0]), jax.jit(g)(rows(n, 1)[:, 0]))


NEEDS_AN_ELEMENT = {
    "histogram": lambda x: jnp.histogram(x, 3),
    "histogram_bin_edges": lambda x: jnp.histogram_bin_edges(x, 3),
    "take": lambda x: jnp.take(x, np.array([0, 1])),
    "index": lambda x: x[np.array([0, 1])],
    "get": lambda x: x.at[np.array([0])].get(mode="fill"),
    "take_along_axis": lambda x: jnp.take_along_axis(x, np.array([0]), 0),
    "median": jnp.median,
    "percentile": lambda x: jnp.percentile(x, 50),
    "nanpercentile": lambda x: jnp.nanpercentile(x, 50),
    "pad maximum": lambda x: jnp.pad(x, 1, mode="maximum"),
    "pad mean": lambda x: jnp.pad(x, 1, mode="mean"),
    "pad median": lambda x: jnp.pad(x, 1, mode="median"),
    "pad minimum": lambda x: jnp.pad(x, 1, mode="minimum"),
}


@pytest.mark.parametrize("case", NEEDS_AN_ELEMENT)
def test_what_needs_an_element_is_refused_where_there_may_be_none(case: str) -> None:
    with pytest.raises(
        errors.InconclusiveDimensionOperation,
        match=r"(?s)'n0' == '0' is inconclusive.*from 0 to 6.*test_dynamic",
    ):
        jax.jit(NEEDS_AN_ELEMENT[case], dynamic_dims={0: (0, 6)})(rows(2, 1)[:, 0])


@pytest.mark.parametrize("f", [jnp.cov, lambda x: jnp.cov(x, rowvar=False), jnp.corrcoef])
def test_covariances_of_one_variable_have_another_shape(f: Any) -> None:
    with pytest.raises(
        errors.InconclusiveDimensionOperation, match=r"cov: .*'n0' == '1' is inconclusive"
    ):
        jax.jit(f, dynamic_dims={0: 6})(rows(3))
    equal(jax.jit(f, dynamic_dims={0: (2, 6)})(rows(4)), f(jnp.asarray(rows(4))))


def test_nan_behind_the_elements_is_not_reported() -> None:
    f = jax.jit(lambda x: x / x, dynamic_dims={0: 6})
    with jax.debug_nans(True):
        equal(f(np.ones(3, np.float32)), jnp.ones(3))
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in div"):
            f(np.zeros(3, np.float32))


def squares(x: Any) -> Any:
    return jnp.exp(-((x[:, None] - x) ** 2)) + jnp.eye(x.shape[0])


WORKS = {
    "insert": lambda x: (
        jnp.insert(x, 1, 9.0),
        jnp.insert(x, -1, 9.0),
        jnp.insert(x, jnp.array([0, 2]), jnp.array([8.0, 9.0])),
    ),
    "delete": lambda x: (jnp.delete(x, 1), jnp.delete(x, -1), jnp.delete(x, x.argmax())),
    "diagonal": lambda x: jnp.diagonal(squares(x), 1),
    "diagonal below": lambda x: jnp.diagonal(squares(x), -2),
    "derivative of a diagonal": jax.grad(
        lambda x: jnp.log(jnp.diagonal(jnp.linalg.cholesky(squares(x)))).sum()
    ),
    "corrcoef": lambda x: jnp.corrcoef(squares(x)),
    "steps": lambda x: x.at[::2].set(0.0),
    "pad edge": lambda x: jnp.pad(x, 2, mode="edge"),
    "pad reflect": lambda x: jnp.pad(x, (1, 2), mode="reflect"),
    "pad symmetric": lambda x: jnp.pad(x, (3, 2), mode="symmetric"),
    "pad odd": lambda x: jnp.pad(x, (2, 1), mode="reflect", reflect_type="odd"),
    "pad wrap": lambda x: jnp.pad(x, (1, 3), mode="wrap"),
    "fill_diagonal": lambda x: jnp.fill_diagonal(squares(x), 7.0, inplace=False),
    "jacrev": jax.jacrev(lambda x: x**2),
    "jacfwd": jax.jacfwd(lambda x: x**2),
    "hessian": jax.hessian(lambda x: (x**3).sum()),
    "one_hot": lambda x: jax.nn.one_hot(np.int32([1, 2]), x.shape[0]),
    "bernoulli": lambda x: jax.random.bernoulli(jax.random.key(0), 0.3, x.shape),
    "truncated_normal": lambda x: jax.random.truncated_normal(
        jax.random.key(0), -1.0, 1.0, x.shape
    ),
    "uniform": lambda x: jax.random.uniform(jax.random.key(0), x.shape, minval=x),
    "multivariate_normal": lambda x: jax.random.multivariate_normal(
        jax.random.key(0), np.zeros(2), np.eye(2), x.shape
    ),
}


@pytest.mark.parametrize("case", WORKS)
def test_operations_that_count_along_an_axis(case: str) -> None:
    f = WORKS[case]
    g = jax.jit(f, dynamic_dims={0: (3, 6)})
    for n in (3, 6):
        equal(g(rows(n, 1)[:, 0]), jax.jit(f)(rows(n, 1)[:, 0]))


@pytest.mark.parametrize(
    "f", [lambda x: jnp.insert(x, slice(0, 2), 9.0), lambda x: jnp.delete(x, slice(1, None))]
)
def test_insert_and_delete_of_slices_are_refused_by_name(f: Any) -> None:
    with pytest.raises(
        NotImplementedError,
        match=r"(insert|delete): by slices, .*not done along an axis of symbolic size",
    ):
        jax.jit(f, dynamic_dims={0: (3, 6)})(rows(4, 1)[:, 0])


def test_what_is_left_of_an_axis_that_may_be_short() -> None:
    def f(x: Any) -> Any:
        return x[1:] - x[:-1], x[2:] - x[:-2]

    def curvature(x: Any) -> Any:
        return x[2:] - 2 * x[1:-1] + x[:-2]

    for g, low in ((f, 0), (curvature, 1)):
        h = jax.jit(g, dynamic_dims={0: (low, 6)})
        for n in (low, 1, 2, 5):
            equal(h(rows(n, 1)[:, 0]), jax.jit(g)(rows(n, 1)[:, 0]))


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (
            lambda x: jax.lax.slice(x @ x.T, (0, 0), (x.shape[0], 1), (x.shape[0], 1)),
            "a step is dynamic",
        ),
        (
            lambda x: jax.lax.pad(x, 0.0, [(0, 0, 0), (0, 0, x.shape[0])]),
            "the number of holes between elements is dynamic",
        ),
    ],
)
def test_dynamic_steps_are_refused(f: Any, why: str) -> None:
    with pytest.raises(NotImplementedError, match=f"(?s){why}.*test_dynamic_dims.py"):
        jax.jit(f, dynamic_dims={0: 6})(rows(2))


def prefix_sums(x):
    ref = jax.new_ref(jnp.zeros_like(x))
    total = jax.new_ref(0.0)

    def body(_, i):
        total[...] += x[i]
        ref[i] = total[...]
        return None, None

    jax.lax.scan(body, None, jnp.arange(x.shape[0]))
    return jax.freeze(ref)


def test_references_within():
    f = jax.jit(prefix_sums, dynamic_dims={"x": 8})
    g = jax.jit(
        jax.grad(lambda x: (jnp.arange(x.shape[0]) * prefix_sums(x)).sum()), dynamic_dims={"x": 8}
    )
    for n in (1, 3, 8):
        x = np.arange(1.0, n + 1, dtype=np.float32)
        np.testing.assert_allclose(f(x), np.cumsum(x), rtol=1e-6)
        np.testing.assert_allclose(g(x), np.cumsum(np.arange(n)[::-1])[::-1], rtol=1e-6)


def test_references_as_arguments():
    total, closed = jax.new_ref(0.0), jax.new_ref(0.0)

    @jax.jit(dynamic_dims={"x": 8, "row": 8})
    def f(total, x, row):
        total[...] += x.sum()
        closed[...] += 1
        row[1:] *= 2

    for n in (2, 5):
        row = jax.new_ref(jnp.ones(n))
        f(total, np.ones(n, np.float32), row)
        assert row[...].tolist() == [1, *[2] * (n - 1)]
    assert (total[...], closed[...]) == (7, 2)
    with pytest.raises(ValueError, match="only one reference"):
        f(row, np.ones(5, np.float32), row)

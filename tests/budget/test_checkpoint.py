"""`checkpoint(f, budget=...)`: the same bits, within the budget."""

import numpy as np
import pytest
from optimize.stepwise import stepwise

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._transform.jit_calls import hoist_consts

D, N, LAYERS = 64, 512, 6
SLOW = pytest.mark.slow


def layer(p, x):
    h = jnp.tanh(x @ p["a"])
    return x + jax.nn.gelu(h @ p["b"]) @ p["c"]


def parameters(seed=0, layers=LAYERS):
    rng = np.random.default_rng(seed)
    shapes = {"a": (D, D), "b": (D, 4 * D), "c": (4 * D, D)}
    return {
        name: jnp.asarray(0.1 * rng.normal(size=(layers, *shape)), jnp.float32)
        for name, shape in shapes.items()
    }


PS, X = parameters(), jnp.asarray(np.random.default_rng(1).normal(size=(N, D)), jnp.float32)


def unrolled(ps, x):
    for i in range(LAYERS):
        x = layer({name: p[i] for name, p in ps.items()}, x)
    return (x**2).sum()


def scanned(ps, x):
    return (lax.scan(lambda c, p: (layer(p, c), None), x, ps)[0] ** 2).sum()


def temporaries(f, *args):
    return jax.jit(f).lower(*args).compile().memory_analysis().temp_size_in_bytes


def assert_same(f, g, *args):
    """The same bits, one operation after the other. As compiled, XLA fuses other loops, and
    contracts other products and sums in them: the same but for rounding."""
    leaves = jax.tree.leaves(args)
    once, again = (
        stepwise(hoist_consts(closed.jaxpr).jaxpr, *closed.consts, *leaves)
        for closed in (jax.make_jaxpr(h)(*args) for h in (f, g))
    )
    for a, b in zip(once, again, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(*[jax.tree.leaves(jax.jit(h)(*args)) for h in (f, g)], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * float(abs(b).max()))


@pytest.mark.parametrize("loss", [unrolled, scanned])
@pytest.mark.parametrize(
    "part", [pytest.param(0.0, marks=SLOW), 0.3, *[pytest.param(p, marks=SLOW) for p in (0.6, 1.0)]]
)
def test_the_budget_is_kept_and_bits_are_the_same(loss, part):
    """Between the smallest budget and what it takes without one."""
    with pytest.raises(ValueError, match=r"The smallest budget that can is (\d+) bytes") as err:
        jax.checkpoint(loss, budget=1)(PS, X)
    smallest = int(str(err.value).split("can is ")[1].split()[0])
    whole = jax.checkpoint(loss, budget="1 TiB").plan(PS, X)
    budget = int(smallest + part * (whole.peak - smallest))
    f = jax.checkpoint(loss, budget=budget)
    plan = f.plan(PS, X)
    assert plan.peak <= budget
    gradient = jax.jit(jax.value_and_grad(f))
    assert temporaries(gradient, PS, X) <= 1.05 * budget
    assert_same(jax.value_and_grad(f), jax.value_and_grad(loss), PS, X)
    if part == 1.0:
        assert plan.seconds == plan.least_seconds
    else:
        assert plan.seconds > plan.least_seconds and plan.kept < whole.kept


def test_layers_that_repeat_get_one_choice():
    plan = jax.checkpoint(unrolled, budget=0.3).plan(PS, X)
    assert max(row.times for row in plan.chosen) >= LAYERS - 1
    assert "saves" in str(plan) and "test_checkpoint.py" in str(plan)


@pytest.mark.parametrize("budget", ["2 GiB", "2gib", "3 GB", 2**31, np.int64(2**31), 1.0, "100%"])
def test_amounts(budget):
    f = jax.checkpoint(lambda x: jnp.sin(x).sum(), budget=budget)
    np.testing.assert_array_equal(jax.grad(f)(X), jnp.cos(X))


@pytest.mark.parametrize(
    "budget, error, text",
    [
        ("2 GiX", ValueError, "is no amount of memory"),
        ("much", ValueError, "is no amount of memory"),
        (1.5, ValueError, "is a share of what would be kept"),
        (-1, ValueError, "not more than 0"),
        (0, ValueError, "not more than 0"),
        (True, TypeError, "of type bool"),
        ([1], TypeError, "of type list"),
    ],
)
def test_what_is_no_amount(budget, error, text):
    with pytest.raises(error, match=text):
        jax.checkpoint(unrolled, budget=budget)


def test_a_budget_and_a_policy():
    with pytest.raises(TypeError, match="a policy and a budget"):
        jax.checkpoint(unrolled, budget=1.0, policy=jax.checkpoint_policies.dots_saveable)
    with pytest.raises(TypeError, match="prevent_cse and a budget"):
        jax.checkpoint(unrolled, budget=1.0, prevent_cse=False)
    assert jax.checkpoint(budget=1.0)(lambda x: x + 1)(1.0) == 2.0


def test_the_smallest_share():
    with pytest.raises(ValueError, match="The smallest share that can be kept is 0.") as err:
        jax.checkpoint(unrolled, budget=0.0)(PS, X)
    share = float(str(err.value).rpartition(" ")[2].rstrip("."))
    plan = jax.checkpoint(unrolled, budget=share).plan(PS, X)
    assert plan.kept <= share * plan.without[1]


SMALL = jnp.asarray(np.random.default_rng(2).normal(size=(3, 8, D)), jnp.float32)


@pytest.mark.parametrize("loss", [unrolled, scanned])
def test_transformations(loss):
    """Against the function itself; op by op or compiled alike, as the operations are the same."""
    f = jax.checkpoint(loss, budget=0.3)
    x = SMALL[0]
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-4)
    pairs = [
        (jax.grad(f, 1)(PS, x), jax.grad(loss, 1)(PS, x)),
        (jax.jvp(f, (PS, x), (PS, x))[1], jax.jvp(loss, (PS, x), (PS, x))[1]),
        (
            jax.vmap(jax.grad(f, 1), (None, 0))(PS, SMALL),
            jax.vmap(jax.grad(loss, 1), (None, 0))(PS, SMALL),
        ),
        (
            jax.grad(lambda x: jax.vmap(f, (None, 0))(PS, x).sum())(SMALL),
            jax.grad(lambda x: jax.vmap(loss, (None, 0))(PS, x).sum())(SMALL),
        ),
        (
            jax.jvp(jax.grad(f, 1), (PS, x), (PS, x))[1],
            jax.jvp(jax.grad(loss, 1), (PS, x), (PS, x))[1],
        ),
        (
            jax.grad(lambda x: (jax.grad(f, 1)(PS, x) ** 2).sum())(x),
            jax.grad(lambda x: (jax.grad(loss, 1)(PS, x) ** 2).sum())(x),
        ),
    ]
    for got, want in pairs:
        jax.tree.map(close, got, want)


def test_auxiliary_results_keys_and_integers():
    def loss(x, key, n):
        mask = jax.random.bernoulli(key, 0.5, x.shape)
        y = jnp.where(mask, jnp.sin(jnp.tanh(x)), 0) * n
        return (jnp.sin(y) ** 2).sum(), {"mask": mask, "key": key, "n": n + 1}

    f = jax.checkpoint(loss, budget=0.5)
    args = SMALL[0], jax.random.key(3), jnp.int32(2)
    got, want = (jax.jit(jax.grad(g, has_aux=True))(*args) for g in (f, loss))
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1]["mask"], want[1]["mask"])
    assert got[1]["n"] == 3 and got[1]["key"] == args[1]


def test_checkpoints_and_rules_of_users_within():
    @jax.custom_vjp
    def twice(x):
        return jnp.sin(x) * 2

    twice.defvjp(lambda x: (twice(x), jnp.cos(x)), lambda c, ct: (3 * c * ct,))

    def loss(x):
        for _ in range(3):
            x = jax.checkpoint(lambda x: jnp.tanh(jnp.sin(x)))(twice(x))
            x = jax.checkpoint(lambda x: jnp.cos(jnp.sin(x)) * x, budget=1.0)(x)
        return x.sum()

    f = jax.checkpoint(loss, budget=0.6)
    assert_same(jax.grad(f), jax.grad(loss), SMALL[0])


def test_a_loop_around():
    def whole(x, step):
        return (lax.scan(lambda c, _: (step(c), None), x, None, length=4)[0] ** 2).sum()

    step = lambda x: jnp.sin(jnp.tanh(jnp.sin(x)) * x)
    f = jax.checkpoint(step, budget=0.4)
    assert_same(jax.grad(lambda x: whole(x, f)), jax.grad(lambda x: whole(x, step)), SMALL[0])


def test_static_arguments_and_keywords():
    f = jax.checkpoint(
        lambda x, n, *, power: (jnp.sin(x) ** n).sum() * power,
        budget=1.0,
        static_argnums=1,
        static_argnames="power",
    )
    np.testing.assert_allclose(jax.grad(f)(X, 1, power=3), 3 * jnp.cos(X), rtol=1e-6)


def test_callbacks_that_may_run_once():
    from teucer.experimental import io_callback

    def loss(x):
        x = jnp.sin(jnp.tanh(x)) * x
        io_callback(lambda: None, None)
        return jnp.sin(jnp.tanh(x) * x).sum()

    with pytest.raises(NotImplementedError, match="Effects not supported in partial-eval"):
        jax.grad(jax.checkpoint(loss, budget=0.0))(X)


def test_symbolic_sizes_are_refused():
    (n,) = jax.export.symbolic_shape("n")
    f = jax.checkpoint(lambda x: jnp.sin(x).sum(), budget=0.5)
    with pytest.raises(NotImplementedError, match="a budget needs known sizes"):
        jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((n,), jnp.float32))


@pytest.mark.parametrize("loss", [unrolled, scanned])
def test_debug_memory_shows_the_plan(loss):
    f = jax.checkpoint(loss, budget=0.4)
    found = jax.debug.memory(jax.grad(f), PS, X, compiled=False)
    (plan,) = found.plans
    assert plan.chosen == f.plan(PS, X).chosen and str(plan) in str(found)
    assert jax.debug.memory(jax.grad(loss), PS, X, compiled=False).plans == ()


def test_the_plan_of_static_arguments():
    def f(x, n, mean=False):
        for _ in range(n):
            x = jnp.sin(x)
        return x.mean() if mean else x.sum()

    frugal = jax.checkpoint(f, budget=0.5, static_argnums=(1, 2), static_argnames=("n", "mean"))
    few, many = frugal.plan(X, 2), frugal.plan(jax.ShapeDtypeStruct(X.shape, X.dtype), 6, True)
    assert few.kept < many.kept <= 0.5 * 6 * X.nbytes
    assert str(frugal.plan(X, n=6, mean=True)) == str(many)


def test_references_are_refused_by_name():
    cell = jax.new_ref(jnp.float32(2.0))
    with pytest.raises(NotImplementedError, match="(?s)reads or writes references.*policy"):
        jax.grad(jax.checkpoint(lambda x: x * cell[...], budget="1 MiB"))(3.0)

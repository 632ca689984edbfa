"""Ways to divide programs: classes of axes, formulas, and what the compiler makes of the best."""

import importlib.util
import runpy
from pathlib import Path

import pytest

import teucer as jax
from teucer import P, lax
from teucer import numpy as jnp
from teucer._core.jaxpr import ClosedJaxpr
from teucer._plan import advice, search
from teucer._plan.axes import Axes
from teucer._plan.chips import BY_NAME
from teucer.cli import _run, main

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason='needs pip install "teucer[tpu]"'
)
EXAMPLES = Path(__file__).parents[2] / "examples" / "parallel"
LAYERS, WIDTH, HIDDEN, HEADS, WORDS, BATCH, LENGTH = 3, 64, 256, 4, 128, 32, 16


def spec(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def layer(h, p):
    q, k, v = jnp.moveaxis(jnp.einsum("bld,dthk->blthk", h, p["qkv"]), 2, 0)
    a = jax.nn.softmax(jnp.einsum("blhk,bmhk->bhlm", q, k))
    h = h + jnp.einsum("blhk,hkd->bld", jnp.einsum("bhlm,bmhk->blhk", a, v), p["out"])
    return h + jnp.einsum(
        "blf,fd->bld", jax.nn.gelu(jnp.einsum("bld,df->blf", h, p["up"])), p["down"]
    )


def loss(params, tokens):
    layers = {k: v for k, v in params.items() if k != "embed"}
    h, _ = lax.scan(
        lambda h, p: (jax.checkpoint(layer)(h, p), None), params["embed"][tokens], layers
    )
    logits = jnp.einsum("bld,vd->blv", h, params["embed"])
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1).mean()


def step(params, tokens):
    value, grads = jax.value_and_grad(loss)(params, tokens)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


PARAMS = {
    "embed": spec(WORDS, WIDTH),
    "qkv": spec(LAYERS, WIDTH, 3, HEADS, WIDTH // HEADS),
    "out": spec(LAYERS, HEADS, WIDTH // HEADS, WIDTH),
    "up": spec(LAYERS, WIDTH, HIDDEN),
    "down": spec(LAYERS, HIDDEN, WIDTH),
}
TOKENS = spec(BATCH, LENGTH, dtype=jnp.int32)


def read(f, *args, data=()):
    traced = jax.jit(f).trace(*args)
    closed = ClosedJaxpr(traced.jaxpr.jaxpr, traced.jaxpr.consts)
    axes = Axes(closed)
    given = advice.arguments(traced, traced.arg_names)
    return traced, closed, axes, given, search.roles_of(axes, closed, given, data)


def test_axes_of_a_transformer():
    """Width, heads, hidden units and words are found, through the loop, the checkpoint and the
    backward pass."""
    traced, closed, axes, _, roles = read(step, PARAMS, TOKENS)
    of = dict(zip(traced.arg_names, map(axes.of, closed.jaxpr.invars), strict=True))
    width, hidden = of["params['embed']"][1], of["params['up']"][2]
    assert of["params['up']"][1] == of["params['down']"][2] == of["params['qkv']"][1] == width
    assert of["params['down']"][1] == hidden
    assert of["params['out']"][1] == of["params['qkv']"][3]  # heads
    assert (roles.width, axes.size(roles.batch), axes.size(roles.length)) == (width, BATCH, LENGTH)
    assert {hidden, of["params['out']"][1], of["params['embed']"][0]} <= set(roles.model)
    assert of["params['out']"][2] not in roles.model  # units of a head: scores would be sums
    assert all(axes.is_stacked(of[f"params['{name}']"][0]) for name in ("qkv", "out", "up", "down"))
    assert roles.data == (False,) * 5 + (True,)


def test_specs_are_those_that_people_write():
    _, closed, axes, _, roles = read(step, PARAMS, TOKENS)
    mesh = {(2, 4): None}
    found = {way.name: way for way in search.ways(axes, roles, mesh)}
    way = found["fully sharded 2 x tensor 4"]
    specs = [search.weight_spec(axes.of(v), axes, way) for v in closed.jaxpr.invars[:5]]
    assert specs == [
        [None, "model", "data"],  # down
        ["model", "data"],  # embed
        [None, "model", None, "data"],  # out
        [None, "data", None, "model", None],  # qkv
        [None, "data", "model"],  # up
    ]
    assert set(found) == {
        "data 2 x tensor 4", "fully sharded 2 x tensor 4", "data 2 x tensor 4 x sequence",
        "fully sharded 2 x tensor 4 x sequence",
    }  # fmt: skip


def mlp(x, w, v):
    return jax.nn.gelu(x @ w) @ v


SIZES = spec(16384, 8192), spec(8192, 32768), spec(32768, 8192)


def test_formulas_of_a_mlp():
    """Operations over the peak, and one sum of the result over 'model' (docs/scaling.md)."""
    _, closed, axes, given, roles = read(mlp, *SIZES)
    assert roles.data == (True, False, False)
    chip = BY_NAME["h100"]
    grids = {(d, 8 // d): jax.make_mesh((d, 8 // d), ("data", "model")) for d in (8, 4, 2, 1)}
    found = {
        way.name: search.estimate(way, axes, closed, given, roles, grids[way.sizes], chip)
        for way in search.ways(axes, roles, grids)
    }
    work = 4 * 16384 * 8192 * 32768 / 8 / chip.peak
    assert found["data 8"].seconds == pytest.approx(work)
    for m in (2, 4, 8):
        name = f"data {8 // m} x tensor {m}" if m < 8 else "tensor 8"
        sent = 2 * (m - 1) / m * 4 * 16384 * 8192 * m / 8
        assert found[name].seconds == pytest.approx(work + sent / chip.link, rel=1e-3)
    gathered = 7 / 8 * 2 * 4 * 8192 * 32768 / chip.link
    assert found["fully sharded 8"].seconds == pytest.approx(max(work, gathered), rel=1e-3)
    whole = 4 * (16384 * 8192 / 8 + 2 * 8192 * 32768)
    assert found["data 8"].memory > whole > found["fully sharded 8"].memory


def test_experts_are_told_from_hidden_units():
    def experts(w, x):
        return x + jnp.einsum("ebh,ehd->ebd", jnp.einsum("ebd,edh->ebh", x, w["in"]), w["out"])

    def train(w, x):
        grads = jax.grad(lambda w: (experts(w, jnp.stack([x] * 8)) ** 2).sum())(w)
        return jax.tree.map(lambda a, g: a - g, w, grads)

    weights = {"in": spec(8, 64, 128), "out": spec(8, 128, 64)}
    _, _, axes, _, roles = read(train, weights, spec(32, 64))
    assert sorted((axes.size(c), kind) for c, kind in roles.model.items()) == [
        (8, "expert"),
        (128, "tensor"),
    ]


def test_constraints_are_set_in_loops_and_calls():
    _, closed, axes, _, roles = read(step, PARAMS, TOKENS)
    mesh = jax.make_mesh((2, 4), ("data", "model"))
    way = next(iter(search.ways(axes, roles, {(2, 4): mesh})))
    made = str(search._constrained(closed.jaxpr, axes, roles, way, mesh))
    products = sum(1 for _ in axes.products)
    assert made.count("sharding_constraint[") == products


def test_data_by_name():
    _, _, _, given, roles = read(mlp, *SIZES, data=["w"])
    assert roles.data == (False, True, False)
    with pytest.raises(ValueError, match="no argument is called 'y'. There are x, w, v"):
        search.roles_of(*read(mlp, *SIZES)[2:0:-1], given, ["y"])


def test_programs_that_say_what_devices_do():
    mesh = jax.make_mesh((8,), ("x",))
    f = jax.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    with pytest.raises(ValueError, match="shard_map"):
        search._refuse_manual(jax.make_jaxpr(f)(jnp.ones(8)).jaxpr)


@needs_libtpu
@pytest.mark.slow
def test_the_transformer_example_is_divided_no_worse_than_by_hand():
    """examples/parallel/transformer.py lies over 2 x 4 as its authors wrote."""
    example = runpy.run_path(str(EXAMPLES / "transformer.py"))
    params = jax.eval_shape(example["init"], jax.random.key(0))
    x = spec(example["BATCH"], example["LENGTH"], example["WIDTH"])

    def train(params, x, target):
        value, grads = jax.value_and_grad(example["loss"])(params, x, target)
        return example["updated"](params, grads), value

    found = jax.debug.plan_search(train, params, x, x, topology="v5e-8", data=["x", "target"])
    by_hand = jax.debug.plan(
        train,
        {
            name: jax.ShapeDtypeStruct(p.shape, p.dtype, sharding=P(None, *example["SPECS"][name]))
            for name, p in params.items()
        },
        *[jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=P("data"))] * 2,
        topology="v5e-8",
        mesh={"data": 2, "model": 4},
    )
    assert found.best.seconds <= 1.02 * by_hand.seconds


BOTH = ("data", "model")
# gelu(x w) v over 4 x 4 chips of v5e: how x, w and v lie, and milliseconds by docs/scaling.md.
EIGHT = {
    "batch over 16": (P(BOTH), P(), P(), 5.58),
    "data 4 x tensor 4": (P("data"), P(None, "model"), P("model"), 7.82),
    "fully sharded 4 x tensor 4": (P("data"), P("data", "model"), P("model", "data"), 7.82),
    "tensor 16": (P(), P(None, BOTH), P(BOTH), 11.2),
    "fully sharded 16": (P(BOTH), P(BOTH), P(BOTH), 22.4),
    "batch over 4": (P("data"), P(), P(), 22.3),
    "tensor 4": (P(), P(None, "model"), P("model"), 31.3),
    "whole": (P(), P(), P(), 89.3),
}


@needs_libtpu
@pytest.mark.slow
def test_compiled_programs_are_ordered_as_by_formulas():
    """Ways that formulas tell apart by a third keep their order."""
    took = {}
    for name, (x, w, v, _) in EIGHT.items():
        args = [
            jax.ShapeDtypeStruct(a.shape, jnp.bfloat16, sharding=lies)
            for a, lies in zip(SIZES, (x, w, v), strict=True)
        ]
        found = jax.debug.plan(mlp, *args, topology="v5e-16", mesh={"data": 4, "model": 4})
        took[name] = 1e3 * found.seconds
    for a in EIGHT:
        for b in EIGHT:
            if EIGHT[a][3] < 0.75 * EIGHT[b][3]:
                assert took[a] < took[b], (a, b, took)


@needs_libtpu
@pytest.mark.slow
def test_the_command_searches(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_run, "as_jax", lambda: None)  # tests/compat has processes for it
    (tmp_path / "step.py").write_text(
        "import teucer as jax\ndef mlp(x, w, v): return jax.nn.gelu(x @ w) @ v\n"
    )
    types = "bf16[4096,2048], bf16[2048,8192], bf16[8192,2048]"
    assert main(["plan", "step.py:mlp", "--args", types, "--on", "v5e-4", "--search", "1"]) == 0
    said = capsys.readouterr().out
    assert "mesh = jax.make_mesh((4, 1)" in said
    assert "x: P('data')" in said

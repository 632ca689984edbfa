"""docs/scaling.md.

Its formulas against the compiled programs of examples/parallel/ on 8 devices, and its tables
against them.
"""

import importlib.util
import re
from pathlib import Path

import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scaling.md").read_text()
FORMULAS = {}
exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), FORMULAS)
UNITS = {"MiB": 2**20, "GiB": 2**30}


def example(name):
    path = ROOT / "examples" / "parallel" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mesh_of(sizes, kind=jax.sharding.AxisType.Auto):
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(kind,) * len(sizes))


def struct(mesh, shape, spec):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=jax.NamedSharding(mesh, spec))


def measured(f, *args):
    """Bytes that a device sends; those of arguments; those of temporaries."""
    memory = jax.jit(f).lower(*args).compile().memory_analysis()
    return (
        jax.debug.communication(f, *args).sent,
        memory.argument_size_in_bytes,
        memory.temp_size_in_bytes,
    )


SIZES = [
    (2, 4, 2, 32, 64, 4, 8, 8),
    (2, 4, 3, 64, 96, 8, 4, 16),
    (4, 2, 2, 32, 64, 4, 8, 8),
    (8, 1, 2, 32, 64, 2, 8, 4),
]


def transformer(mode, d, m, L, W, H, h, B, S):
    program = example("transformer")
    vars(program).update(LAYERS=L, WIDTH=W, HIDDEN=H, HEADS=h, BATCH=B, LENGTH=S)
    kind, make = program.MODES[mode]
    mesh = mesh_of({"data": d, "model": m}, kind)
    with jax.set_mesh(mesh):
        shapes = jax.eval_shape(program.init, jax.random.key(0))
        params = {
            name: struct(mesh, w.shape, program.stacked(program.SPECS[name]))
            for name, w in shapes.items()
        }
        x = struct(mesh, (B, S, W), P("data"))
        return measured(make(mesh), params, x, x)


@pytest.mark.parametrize("sizes", SIZES[:1])
def test_transformer(sizes):
    check_transformer(sizes)


@pytest.mark.slow  # some seconds each
@pytest.mark.parametrize("sizes", SIZES[1:])
def test_transformer_of_other_sizes(sizes):
    check_transformer(sizes)


def check_transformer(sizes):
    held, kept, sent = FORMULAS["transformer"](*sizes)
    found = transformer("manual", *sizes)
    assert found[:2] == (pytest.approx(sent), held)
    assert kept <= found[2] <= kept * (1 + 2 / sizes[2])


@pytest.mark.slow  # the compiler's choices, which the page reports
@pytest.mark.parametrize(("mode", "factor"), [("auto", 2.4), ("explicit", 1.8)])
def test_transformer_by_the_compiler(mode, factor):
    _, _, sent = FORMULAS["transformer"](*SIZES[0])
    assert f"{factor} times" in PAGE
    assert transformer(mode, *SIZES[0])[0] == pytest.approx(factor * sent, rel=0.05)


def test_data_parallel():
    program = example("data_parallel")
    demo = program.demo
    state = demo.init_optimizer(demo.init_model(jax.random.key(0), (2, 2))[1])
    matrices = jnp.ones((program.DEVICES, demo.BATCH // program.DEVICES, 2, 2), jnp.complex64)
    count = sum(x.size for x in jax.tree.leaves(demo.get_params(state)))
    held, sent = FORMULAS["data_parallel"](program.DEVICES, count)
    assert jax.debug.communication(program.train_step, 0, state, matrices).sent == sent
    assert sum(x.nbytes for x in jax.tree.leaves(state)) == held


def test_pipeline():
    program = example("pipeline")
    n, k, b, W = program.STAGES, program.PARTS, program.SIZE, program.WIDTH
    mesh = mesh_of({"stage": n})
    run = jax.shard_map(program.pipelined, mesh=mesh, in_specs=(P("stage"), P()), out_specs=P())
    step = jax.value_and_grad(lambda w, x: jnp.mean((run(w, x) - jnp.sin(2 * x)) ** 2))
    found = measured(step, struct(mesh, (n, W, W), P("stage")), struct(mesh, (k, b, W), P()))
    assert found[:2] == FORMULAS["pipeline"](n, k, b, W)[::-1]


def test_mixture_of_experts():
    program = example("mixture_of_experts")
    n, t, C, W = program.EXPERTS, program.TOKENS, program.CAPACITY, program.WIDTH
    mesh = mesh_of({"expert": n})
    run = jax.shard_map(
        program.mixture, mesh=mesh, in_specs=(P(), P("expert"), P("expert")), out_specs=P("expert")
    )
    step = jax.value_and_grad(lambda *args: jnp.sum(jnp.sin(run(*args))), (0, 1, 2))
    args = (
        struct(mesh, (W, n), P()),
        struct(mesh, (n, W, W), P("expert")),
        struct(mesh, (n * t, W), P("expert")),
    )
    assert measured(step, *args)[:2] == FORMULAS["mixture"](n, t, C, W)[::-1]


def test_ring_attention():
    program = example("ring_attention")
    n, S, h, D = program.DEVICES, program.LENGTH, program.HEADS, program.DEPTH
    mesh = mesh_of({"ring": n})
    run = jax.shard_map(program.ring_attention, mesh=mesh, in_specs=P("ring"), out_specs=P("ring"))
    step = jax.value_and_grad(lambda *args: jnp.sum(jnp.sin(run(*args))), (0, 1, 2))
    found = measured(step, *[struct(mesh, (S, h, D), P("ring"))] * 3)
    assert found[:2] == FORMULAS["ring"](n, S, h, D)[::-1]


def bytes_in(cell):
    return [
        float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.e+-]+) (MiB|GiB)", cell)
    ]


ROWS = {
    "data parallel": lambda n: FORMULAS["data_parallel"](n, 10**9),
    "pipeline": lambda n: FORMULAS["pipeline"](n, 4 * n, 4, 8192),
    "mixture of experts": lambda n: FORMULAS["mixture"](n, 16, 16, 4096),
    "ring attention": lambda n: FORMULAS["ring"](n, 2**20, 32, 128),
}


def test_tables():
    for name, formula in ROWS.items():
        row = re.search(rf"^\| {name} \|.*$", PAGE, re.MULTILINE)[0].split("|")
        for cell, n in zip(row[3:6], (8, 512, 16384), strict=True):
            assert bytes_in(cell) == pytest.approx(formula(n), rel=1e-3), (name, n)
    rows = re.findall(r"^\| [\d ]+ \| (\d+) x (\d+) \|(.*)$", PAGE, re.MULTILINE)
    assert len(rows) == 3
    for d, m, cells in rows:
        expected = FORMULAS["transformer"](int(d), int(m), 48, 8192, 32768, 64, int(d), 4096)
        assert bytes_in(cells) == pytest.approx(expected, rel=1e-3)

"""`teucer plan` and `debug.plan`, where the compiler of TPUs is installed."""

import importlib.util
import json

import numpy as np
import pytest

import teucer as jax
from teucer import P
from teucer import numpy as jnp
from teucer.cli import _run, main

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason='needs pip install "teucer[tpu]"'
)

PROGRAM = """
import teucer as jax, teucer.numpy as jnp

def mlp(x, w, v):
    return jax.nn.gelu(x @ w) @ v

def made(mesh):
    return lambda x: jax.lax.with_sharding_constraint(x @ x.T, jax.NamedSharding(mesh, jax.P()))

def arguments():
    return (jax.ShapeDtypeStruct((512, 512), jnp.bfloat16, sharding=jax.P("data")),)
"""
TYPES = "bf16[4096@data,2048], bf16[2048,4096@model], bf16[4096@model,2048]"


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_run, "as_jax", lambda: None)  # tests/compat has processes for it
    (tmp_path / "step.py").write_text(PROGRAM)
    return "step.py"


def spec(*shape, lies, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=lies)


@needs_libtpu
def test_a_product_over_four_chips(tmp_path):
    """By formulas: a quarter of the operations a chip; the sum of the result over 'model'."""

    def f(x, w):
        return x @ w

    found = jax.debug.plan(
        f,
        spec(8192, 8192, lies=P("data", "model")),
        spec(8192, 8192, lies=P("model")),
        topology="v5e-4",
        mesh={"data": 2, "model": 2},
        tokens=8192,
        price=1.0,
    )
    assert found.fits
    assert found.asked == 2 * 8192**3
    assert found.products == found.asked / 4
    assert found.memory.arguments == 2 * (8192**2 / 4 + 8192**2 / 2)
    ideal = found.products / found.chip.peak
    assert ideal < found.waited["products"] < 1.25 * ideal
    sums = [p for p in found.parts if p.kind == "collective"]
    assert sum(p.sent for p in sums) == 2 * 8192 * 8192 / 2
    assert {p.axes for p in sums} == {("model",)}
    assert found.seconds == pytest.approx(sum(found.waited.values()))
    assert found.cost_per_million == pytest.approx(4 * found.seconds / 3600 / 8192 * 1e6)
    assert f"test_plan.py:{f.__code__.co_firstlineno + 1}" in str(found)
    assert json.loads(json.dumps(found.as_dict()))["devices"] == 4
    assert "<h2>Collectives</h2>" in found.save(tmp_path / "plan.html").read_text()


@needs_libtpu
def test_what_does_not_fit_says_what_is_large():
    def f(x, w):
        return jnp.tanh(x @ w) @ w

    found = jax.debug.plan(
        f,
        jax.ShapeDtypeStruct((1 << 17, 1 << 15), jnp.bfloat16),
        jax.ShapeDtypeStruct((1 << 15, 1 << 15), jnp.bfloat16),
        topology="v5e-1",
    )
    assert not found.fits
    assert found.seconds is None
    assert found.limit == "memory of the device"
    assert "fits" in str(found)


@needs_libtpu
def test_the_command(program, capsys):
    said = ["plan", f"{program}:mlp", "--args", TYPES, "--on", "v5e-4"]
    assert main([*said, "--mesh", "data=2,model=2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mesh"] == {"data": 2, "model": 2}
    assert found["parts"][0]["line"] == "step.py:5"


@needs_libtpu
def test_functions_that_are_made_of_a_mesh(program, capsys):
    said = ["plan", f"{program}:made(mesh)", "--args", "arguments()", "--on", "v5e-4"]
    assert main([*said, "--mesh", "data=4"]) == 0
    assert "all-gather" in capsys.readouterr().out


@needs_libtpu
@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--on", "v5e-4", "--mesh", "data=3"], "data=3 has 3 places, and v5e-4 has 4 devices"),
        (["--on", "v5e-4"], "nothing says how they are arranged"),
        (["--on", "v5e-4", "--mesh", "rows=4"], "data of P('data', None) is not found in mesh"),
    ],
)
def test_what_cannot_be_planned(program, capsys, options, match):
    assert main(["plan", f"{program}:mlp", "--args", TYPES, *options]) == 2
    assert match in capsys.readouterr().err


def test_names_are_checked_first(program, capsys):
    assert main(["plan", f"{program}:mlp", "--args", TYPES, "--on", "v55"]) == 2
    assert "'v55' names no accelerator" in capsys.readouterr().err


def test_types_along_axes_need_a_mesh(program, capsys):
    assert main(["jaxpr", f"{program}:mlp", "--args", "bf16[4@data,2]"]) == 2
    assert "says axes of a mesh" in capsys.readouterr().err


def test_nothing_says_the_devices():
    with pytest.raises(ValueError, match="nothing says which devices"):
        jax.debug.plan(lambda x: x, np.ones(3))

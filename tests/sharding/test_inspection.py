"""inspect_array_sharding within programs, and pictures of shardings."""

import sys
import types

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.sharding import AxisType, NamedSharding, SingleDeviceSharding

P = jax.P


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


@pytest.fixture
def x(mesh):
    return jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("x", "y")))


def inspected(seen):
    def f(x):
        y = jnp.sin(x)
        jax.debug.inspect_array_sharding(y, callback=seen.append)
        return y.T

    return f


def test_what_the_compiler_chose_is_told_once(mesh, x):
    seen = []
    f = jax.jit(inspected(seen))
    f(x), f(x)
    assert seen == [NamedSharding(mesh, P("x", "y"))]
    f(np.ones((2, 2), np.float32))
    assert seen[1:] == [SingleDeviceSharding(jax.devices()[0])]
    assert "inspect_sharding" in str(jax.make_jaxpr(inspected(seen))(x))


def test_each_inspection_is_told(mesh, x):
    seen = []

    def f(x):
        for _ in range(2):
            jax.debug.inspect_array_sharding(x, callback=seen.append)
        return x + 1

    jax.jit(f)(x)
    assert seen == [NamedSharding(mesh, P("x", "y"))] * 2
    jax.jit(lambda x: (jax.jit(f)(x), jax.jit(f)(x)))(x)
    assert len(seen) == 6


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.grad(lambda x: f(x).sum()),
        jax.vmap,
        jax.checkpoint,
        lambda f: lambda x: lax.scan(lambda c, _: (f(c).T, None), x, None, length=2)[0],
        lambda f: lambda x: lax.cond(x[0, 0] > 0, f, lambda x: x.T, x),
    ],
    ids=["grad", "vmap", "checkpoint", "scan", "cond"],
)
def test_transformed(transform, mesh, x):
    seen = []
    jax.jit(transform(inspected(seen)))(x)
    assert seen and all(s == NamedSharding(mesh, P("x", "y")) for s in seen)


@pytest.mark.parametrize(("axes", "spec"), [(("x",), P(None, "y")), (("x", "y"), P())])
def test_in_shard_map(axes, spec, mesh, x):
    """Told of the axes that are not manual."""
    seen = []
    f = jax.shard_map(
        inspected(seen),
        mesh=mesh,
        in_specs=P(*axes),
        out_specs=P(*[None] * (2 - len(axes)), *axes[::-1]),
        axis_names=set(axes),
    )
    jax.jit(f)(x)
    assert seen == [NamedSharding(mesh, spec)]


def test_what_is_raised_is_the_cause(x):
    def fail(sharding):
        raise LookupError("as wished")

    with pytest.raises(jax.errors.JaxRuntimeError, match="as wished") as caught:
        jax.jit(lambda x: jax.debug.inspect_array_sharding(x + 1, callback=fail))(x)
    assert isinstance(caught.value.__cause__, LookupError)


class Terminal:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def isatty(self):
        return True

    def flush(self):
        pass


def test_colours(x, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    jax.debug.visualize_array_sharding(x)
    colours = [part.split("m")[0] for part in screen.text.split("\033[48;2;")[1:]]
    assert len(set(colours)) == 8
    screen.text = ""
    jax.debug.visualize_array_sharding(x, use_color=False)
    assert "\033" not in screen.text
    jax.debug.visualize_array_sharding(x, color_map=lambda part: (part, 0.0, 1.0, 1.0))
    assert "\033[48;2;0;0;255m" in screen.text and "\033[48;2;255;0;255m" in screen.text
    few = type("Few", (), {"N": 3, "__call__": lambda self, i: (i / 2, i / 2, 0.0)})
    jax.debug.visualize_array_sharding(x, color_map=few())
    assert "\033[48;2;128;128;0m" in screen.text


@pytest.mark.parametrize(
    ("shape", "mesh", "spec", "asked", "width", "lines"),
    [
        ((5,), (1,), ("x",), {}, [7], 1),
        ((5,), (1,), ("x",), {"scale": 8.0}, [38], 1),
        ((64,), (4,), ("x",), {}, [7] * 4, 1),
        ((8, 8), (1, 1), ("x", "y"), {}, [23], 9),
        ((8, 8), (2, 2), ("x", "y"), {}, [10, 10], 4),
        ((8, 8), (4, 2), (None, "y"), {}, [11, 11], 9),
        ((16, 8), (2, 1), ("x", "y"), {}, [10], 4),
        ((128, 10000), (4, 2), ("x", None), {}, [78], 1),
        ((8, 8), (2, 2), ("x", "y"), {"scale": 2.0}, [23, 23], 9),
        ((8, 8), (2, 2), ("x", "y"), {"min_width": 20}, [18, 18], 4),
        ((16,), (4,), ("x",), {"max_width": 20}, [5] * 4, 1),
    ],
)
def test_the_size_of_pictures(shape, mesh, spec, asked, width, lines, capsys):
    """As JAX 0.10.2 draws them, but for those wider than max_width, where it leaves labels out."""
    sharding = jax.NamedSharding(jax.make_mesh(mesh, ("x", "y")[: len(mesh)]), jax.P(*spec))
    jax.debug.visualize_sharding(shape, sharding, use_color=False, **asked)
    top, *rest = capsys.readouterr().out.splitlines()
    assert [len(cell) for cell in top.strip("┌┐").split("┬")] == width
    rest[-1] = "├"
    assert [line.startswith("├") for line in rest].index(True) == lines


def test_in_a_notebook(x, monkeypatch):
    """Where IPython says so, a table is shown."""
    shown = []
    package, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    package.get_ipython = type("ZMQInteractiveShell", (), {})
    package.display, display.display = display, shown.append
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    jax.debug.visualize_array_sharding(x)
    text = shown[0]._repr_html_()
    assert (
        text.count("<tr>") == 4
        and text.count("<td ") == 8
        and "CPU 7" in text
        and "background:rgb(" in text
    )

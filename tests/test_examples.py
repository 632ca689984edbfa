"""The programs in examples/.

Each runs, a short version here, and the long ones of the demo reach what they promise.
"""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))

# For each program the steps of a short run and a test of what main returns.
SHORT = {
    "convnet": (40, lambda accuracy: accuracy > 0.6),
    "digits": (300, lambda accuracy: accuracy > 0.9),
    "newton": (100, lambda value: value < 1e-6),
    "ode_scan": (200, lambda error: error < 0.02),
    "per_example_gradients": (100, lambda found: found >= 0.9),
    "rnn": (300, lambda error: error < 0.05),
    "spectral_radius": (600, lambda loss: loss < 0.5),
}


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_run():
    assert sorted(SHORT) == PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_example_short(name, capsys):
    steps, reached = SHORT[name]
    result = load(name).main(steps=steps)
    assert reached(result), f"main(steps={steps}) returned {result}"
    assert capsys.readouterr().out, "an example prints what it finds"


@pytest.mark.parametrize("name", PROGRAMS)
def test_example_is_a_plain_program(name):
    source = (EXAMPLES / f"{name}.py").read_text()
    assert "\nimport teucer as jax\nimport teucer.numpy as jnp\n" in source
    assert source.endswith('\nif __name__ == "__main__":\n    main()\n')


@pytest.mark.slow
def test_spectral_radius_learns_as_it_should():
    _, losses = load("spectral_radius").train()
    assert losses[:5].mean() == pytest.approx(1.6, abs=0.15)
    assert 0.3 < losses[-500:].mean() < 0.4


@pytest.mark.slow
def test_digits_reaches_its_accuracy():
    assert load("digits").main() >= 0.97

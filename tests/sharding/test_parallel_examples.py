"""The programs in examples/parallel/ over 8 simulated devices.

What they compute over several is what one device computes.
"""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "parallel"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))

# For each program the steps of a short run, and the greatest difference allowed: rounding, and for
# data_parallel a percent.
SHORT = {
    "data_parallel": (5, 0.01),
    "mixture_of_experts": (1, 2e-4),
    "pipeline": (5, 1e-5),
    "ring_attention": (1, 1e-4),
    "transformer": (4, 1e-5),
}


def test_every_example_is_run():
    assert sorted(SHORT) == PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name, capsys):
    spec = importlib.util.spec_from_file_location(f"parallel_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    steps, allowed = SHORT[name]
    assert module.main(steps=steps) <= allowed
    assert capsys.readouterr().out

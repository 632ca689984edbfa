"""Programs as users run them.

With all optimisations, one device, no checks, and a disk cache at its own place.

The rest of the suite compiles quickly, on eight devices, with jaxprs checked (conftest.py).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FEW = ("adam", "custom_rules", "lstm", "vmap_forms")
ALL = tuple(sorted(path.stem for path in (HERE / "programs" / "expected").glob("*.txt")))


def run(home, *words):
    """A process with nothing set but where it finds its files."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TEUCER_TESTS": "as users"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=HERE.parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    "programs", [FEW, pytest.param(ALL, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_programs_print_what_jax_prints(programs, tmp_path):
    """Compiled, and then loaded from the disk cache, to which the second process adds nothing."""
    names = [
        f"tests/programs/test_programs.py::test_prints_what_jax_prints[{name}]" for name in programs
    ]
    kept = []
    for _ in range(2):
        found = re.search(
            r"(\d+) passed", run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *names)
        )
        assert int(found[1]) == len(programs)
        kept.append({path for path in tmp_path.rglob("*") if path.is_file()})
    assert len(kept[0]) > len(programs)
    assert kept[0] == kept[1]


def test_options_are_those_of_users(tmp_path):
    text = """
import runpy
runpy.run_path("tests/conftest.py")
import teucer as jax
from teucer._base import config
print(jax.device_count(), config.enable_checks.value, config.disable_most_optimizations.value)
"""
    assert run(tmp_path, "-c", text) == "1 False False\n"

"""Whole programs of libraries on Teucer and on JAX.

Seconds of the processor to the first result, of a step, and of a second start.

    benchmarks/whole_programs/compare.py --jax JAX_PYTHON --teucer TEUCER_PYTHON [--rounds 3] [NAME
    ...]

Both are Pythons of environments with the libraries of LIBRARIES; `tools/ecosystem.py` says how the
wheel of Teucer gets into one:

    python3.12 -m venv with-jax && with-jax/bin/pip install jax==0.12.0.1 LIBRARIES
    python3.12 -m venv with-teucer && with-teucer/bin/pip install teucer jaxlib==0.12.0.1
    with-teucer/bin/teucer compat wheel --output wheels && with-teucer/bin/pip install
    wheels/jax-*.whl LIBRARIES
    with-teucer/bin/pip install --force-reinstall --no-deps wheels/jax-*.whl  # flax 0.12.12 asks
    for a newer JAX

Each start is a process of its own. The two take turns, and the minima over the rounds are printed.
JAX keeps no programs on disk unless it is told to; its second start is measured both ways. Teucer's
folder for programs is new in each round.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
LIBRARIES = (
    "flax==0.12.12",
    "optax==0.2.8",
    "equinox==0.13.8",
    "diffrax==0.7.2",
    "numpyro==0.22.0",
)
PROGRAMS = ("flax_transformer", "diffrax_neural_ode", "numpyro_model")
CACHE_OF_JAX = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
# a chain of draws in single precision goes its own way after some steps; means of it agree so far
TOLERANCE = 0.02


class Start(NamedTuple):
    """Seconds of a process up to its first result, those of its quickest step, and the first and
    the last result."""

    seconds: float
    step: float
    results: tuple[float, float]


def start(python: str, program: str, settings: dict[str, str]) -> Start:
    """Run a program in a new process."""
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "TEUCER_"))
    }
    done = subprocess.run(
        [python, "-W", "ignore", HERE / f"{program}.py"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**environ, "JAX_PLATFORMS": "cpu", **settings},
    )
    first, later = map(json.loads, done.stdout.splitlines())
    return Start(first["seconds"], later["seconds"], (first["value"], later["value"]))


def main() -> None:
    """Print a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--jax", required=True, help="the Python of an environment with JAX")
    parser.add_argument(
        "--teucer", required=True, help="the Python of an environment with Teucer and its wheel"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for python, wanted in ((options.jax, False), (options.teucer, True)):
        source = "import sys, jax; sys.exit(('teucer' in sys.modules) != bool(int(sys.argv[1])))"
        if subprocess.run(
            [python, "-W", "ignore", "-c", source, str(int(wanted))], check=False
        ).returncode:
            parser.error(
                f"`import jax` in {python} gives "
                f"{'another package than Teucer' if wanted else 'Teucer'}."
            )
    print(
        "| program | | JAX | JAX, told to keep programs | Teucer |",
        "| --- | --- | --- | --- | --- |",
        sep="\n",
    )
    for program in options.names or PROGRAMS:
        firsts, seconds, steps = defaultdict(list), defaultdict(list), defaultdict(list)
        with tempfile.TemporaryDirectory() as folder:
            for i in range(options.rounds):
                results = {}
                for name, python, settings in (
                    ("JAX", options.jax, {}),
                    (
                        "kept",
                        options.jax,
                        {"JAX_COMPILATION_CACHE_DIR": f"{folder}/jax{i}", **CACHE_OF_JAX},
                    ),
                    ("Teucer", options.teucer, {"TEUCER_CACHE_DIR": f"{folder}/teucer{i}"}),
                ):
                    one, two = (start(python, program, settings) for _ in range(2))
                    firsts[name].append(one.seconds)
                    seconds[name].append(two.seconds)
                    steps[name] += [one.step, two.step]
                    results[name] = one.results
                agree = [
                    math.isclose(a, b, rel_tol=TOLERANCE)
                    for a, b in zip(results["JAX"], results["Teucer"], strict=True)
                ]
                if not all(agree):
                    sys.exit(f"{program}: results differ: {results}")
        for title, times, unit in (
            ("first result, s", firsts, 1),
            ("step, ms", steps, 1000),
            ("second start, s", seconds, 1),
        ):
            figures = " | ".join(
                f"{min(times[name]) * unit:.3g}" for name in ("JAX", "kept", "Teucer")
            )
            print(f"| {program} | {title} | {figures} |", flush=True)


if __name__ == "__main__":
    main()

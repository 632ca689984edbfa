"""`make bench`.

The measures of docs/design.md, Teucer beside JAX, as medians and ratios against the budgets.

The two libraries take turns, each run in a new process, so that what else the machine does falls on
both alike.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Row(NamedTuple):
    """A measure: its name in the results of each library, its unit, and the largest allowed ratio
    to JAX's time."""

    text: str
    name: str
    unit: str
    budget: float
    jax_name: str | None = None


# The budgets are the quotients of the table in docs/design.md, section 7: a ratio depends little on
# the machine.
ROWS = [
    Row("import, beyond jaxlib and NumPy", "import", "s", 0.10 / 0.40),
    Row("cached jit call, one argument", "jit_call_1", "us", 1.0),
    Row("cached jit call, 40 in 40 out", "jit_call_40", "us", 1.0),
    Row("eager x + y", "eager_add", "us", 5 / 6.9),
    Row("eager x[0]", "eager_index", "us", 15 / 60),
    Row("eager x.at[0].set(v)", "eager_at_set", "us", 30 / 269),
    Row("eager grad(lambda x: sum(sin(x) * x))(x)", "eager_grad", "us", 150 / 977),
    Row("eager vmap(lambda x: sin(x) * x)(x)", "eager_vmap", "us", 50 / 277),
    Row("trace, an operation", "trace", "us", 7 / 30),
    Row("trace through grad, an operation", "trace_grad", "us", 40 / 210),
    Row("lower, an equation", "lower", "us", 3 / 18),
    Row("transformer, 12 layers: trace + lower + compile", "transformer_12.ready", "s", 2 / 10),
    Row("transformer, 12 layers: the step, run", "transformer_12.run", "s", 0.12 / 0.31),
    Row(
        "transformer, 12 layers: second process, disk cache warm",
        "transformer_12.second",
        "s",
        0.9 / 10,
        jax_name="transformer_12.ready",
    ),
    Row("transformer, 48 layers: trace + lower + compile", "transformer_48.ready", "s", 6 / 309),
    Row("transformer, 48 layers: the step, run", "transformer_48.run", "s", 0.5 / 15.8),
]
PROGRAMS = [
    "transformer_12",
    "transformer_48",
    "transformer_adam",
    "residual_convolutions",
    "unrolled_lstm",
    "varied_residual",
    "mixer",
    "unet",
    "unrolled_ode",
    "gaussian_process",
    "many_functions",
]
SCALE = {"s": 1.0, "us": 1e6}
NOISE = 1.05  # two measurements of one program differ by as much


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", required=True, help="a Python that has JAX")
    parser.add_argument("--teucer", required=True, help="a Python that has Teucer")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="how often each library has its turn (default: %(default)s)",
    )
    parser.add_argument(
        "--programs",
        default="transformer_12",
        help=(
            "of benchmarks/programs.py, with commas; 'all' takes JAX many minutes, 'none' "
            "measures only what takes microseconds, and the import (default: %(default)s)"
        ),
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    pythons = {"jax": options.jax, "teucer": options.teucer}
    programs = {"all": PROGRAMS, "none": []}.get(options.programs, options.programs.split(","))

    figures = {library: defaultdict(list) for library in pythons}
    for number in range(options.rounds):
        for library, python in pythons.items():
            print(f"round {number + 1} of {options.rounds}: {library}", file=sys.stderr)
            # 48 layers take JAX minutes, so they are measured once.
            some = [name for name in programs if number == 0 or name != "transformer_48"]
            for name, value in one_round(library, python, some).items():
                figures[library][name].append(value)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=1))
    print_table(figures, ROWS)
    print_programs(figures, programs)
    check_values(figures, programs)


def one_round(library, python, programs):
    """Every measure once. Teucer's disk cache is a new, empty folder a program: cold at first, warm
    for the second process."""
    with tempfile.TemporaryDirectory() as cache:
        results = run(python, cache, library, "import")
        results |= run(python, cache, library, "small")
    for name in programs:
        with tempfile.TemporaryDirectory() as cache:
            results |= run(python, cache, library, "program", f"--name={name}")
            if library == "teucer":
                again = run(python, cache, library, "program", f"--name={name}")
                results |= {
                    f"{name}.second": again[f"{name}.ready"],
                    f"{name}.second_first": again[f"{name}.first"],
                }
    return results


def run(python, cache, *args):
    environment = os.environ | {"TEUCER_CACHE_DIR": cache}
    # Bytecode is kept for both, as it is for an installed package; the variable would have ours
    # compiled at each start.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [python, HERE / "measures.py", *args],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"measures.py {' '.join(args)} failed under {python}; its error is above.")
    return json.loads(done.stdout)


def print_table(figures, rows):
    print(f"{'measure':58} {'JAX':>10} {'Teucer':>10} {'ratio':>7} {'budget':>7}")
    for row in rows:
        theirs, ours = figures["jax"].get(row.jax_name or row.name), figures["teucer"].get(row.name)
        if not theirs or not ours:
            continue
        theirs, ours = (
            statistics.median(theirs) * SCALE[row.unit],
            statistics.median(ours) * SCALE[row.unit],
        )
        ratio = ours / theirs
        verdict = "" if ratio <= row.budget * NOISE else "  over budget"
        print(
            f"{row.text:58} {theirs:7.3g} {row.unit:2} {ours:7.3g} {row.unit:2} {ratio:7.3f} "
            f"{row.budget:7.3f}{verdict}"
        )


def print_programs(figures, programs):
    """The programs as a table for docs/performance.md: JAX / Teucer, and how many times sooner or
    faster Teucer is."""
    if not programs:
        return
    head = [
        "program",
        "trace, s",
        "lower, s",
        "compile, s",
        "all three",
        "step, ms",
        "",
        "second process, s",
        "",
        "to its first result, s",
        "",
        "memory, MB",
    ]
    print(f"\n| {' | '.join(head)} |\n{'| --- ' * len(head)}|")
    for name in programs:
        theirs, ours = (
            {
                key.partition(".")[2]: statistics.median(values)
                for key, values in figures[library].items()
                if key.startswith(f"{name}.")
            }
            for library in ("jax", "teucer")
        )
        cells = [f"{theirs[m]:.2f} / {ours[m]:.2f}" for m in ("trace", "lower", "compile")]
        cells += [
            f"{theirs['ready'] / ours['ready']:.1f}x",
            f"{1e3 * theirs['run']:.1f} / {1e3 * ours['run']:.1f}",
        ]
        cells += [
            f"{theirs['run'] / ours['run']:.2f}x",
            f"{ours['second']:.2f}",
            f"{theirs['ready'] / ours['second']:.0f}x",
        ]
        cells += [
            f"{theirs['first']:.2f} / {ours['second_first']:.2f}",
            f"{theirs['first'] / ours['second_first']:.0f}x",
        ]
        print(f"| {name} | {' | '.join(cells)} | {theirs['memory']:.0f} / {ours['memory']:.0f} |")


def check_values(figures, programs):
    """Speed counts only for the same program: both libraries must reach the same value."""
    for name in programs:
        theirs, ours = (figures[library][f"{name}.value"][0] for library in ("jax", "teucer"))
        if not math.isclose(theirs, ours, rel_tol=1e-4, abs_tol=1e-6):
            sys.exit(f"{name}: the results differ.\n  JAX: {theirs}\n  Teucer: {ours}")


if __name__ == "__main__":
    main()

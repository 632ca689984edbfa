"""`make bench-corpus`: the programs of the corpus in Teucer beside JAX, as medians and ratios.

The two libraries take turns. Each case has processes of its own, and steps of both alternate, so
that what else the machine does falls on both alike. All figures and the machine's description go to
benchmarks/results/, with a picture where matplotlib is installed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
LIBRARIES = ("jax", "teucer")
CLOCKS = ("wall", "cpu")
SLOWER = (
    1.1  # a case is slower from here on; two measurements of one program differ by nearly as much
)
MEASURES = ("start", "trace", "lower", "compile", "ready", "first", "step", "memory", "second")

# Figures of one library in one round: pairs of seconds (on the clock, of processors), or a number.
Figures = dict[str, Any]


class Process:
    """measure.py with one case in one library."""

    def __init__(
        self, python: str, library: str, case: str, cache: str, variables: dict[str, str]
    ) -> None:
        environment = os.environ | {"TEUCER_CACHE_DIR": cache} | variables
        # Bytecode is kept for both, as it is for an installed package.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.case = f"{case} in {library}"
        command = [python, str(HERE / "measure.py"), library, case]
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def read(self) -> Figures:
        line = self.process.stdout.readline()
        if not line:
            raise ChildProcessError(
                f"{self.case}: the process ended with {self.process.wait()}; its error is above."
            )
        return json.loads(line)

    def turn(self) -> list[float]:
        self.process.stdin.write("turn\n")
        self.process.stdin.flush()
        return self.read()["step"]

    def end(self) -> Figures:
        self.process.stdin.close()
        figures = self.read()
        self.process.wait()
        return figures


def one_round(
    pythons: dict[str, str], case: str, turns: int, variables: dict[str, str]
) -> dict[str, Figures]:
    with ExitStack() as stack:
        cache = stack.enter_context(tempfile.TemporaryDirectory())
        processes, figures = {}, {}
        for library in LIBRARIES:
            processes[library] = Process(pythons[library], library, case, cache, variables)
            stack.callback(processes[library].process.kill)
            figures[library] = processes[library].read()
        steps = {library: [] for library in LIBRARIES}
        for _ in range(turns):
            for library in LIBRARIES:
                steps[library].append(processes[library].turn())
        for library in LIBRARIES:
            # On the clock the least: what a step takes when nothing else runs. Of processors the
            # mean: the kernel counts what other threads have spent only at its ticks.
            wall, cpu = zip(*steps[library], strict=True)
            figures[library]["step"] = [min(wall), statistics.fmean(cpu)]
            figures[library] |= processes[library].end()
        again = Process(pythons["teucer"], "teucer", case, cache, variables)
        stack.callback(again.process.kill)
        figures["teucer"]["second"] = again.read()["ready"]
        again.end()
    check_values(case, figures)
    return figures


def check_values(case: str, figures: dict[str, Figures]) -> None:
    """Speed counts only for the same program: both libraries must reach the same value."""
    theirs, ours = (figures[library]["value"] for library in LIBRARIES)
    if not math.isclose(theirs, ours, rel_tol=5e-3, abs_tol=1e-5):
        print(f"{case}: the results differ: {theirs} in JAX, {ours} in Teucer", file=sys.stderr)


def median(rounds: list[Figures], measure: str, clock: int) -> float:
    values = [figures[measure] for figures in rounds]
    return statistics.median(v[clock] if isinstance(v, list) else v for v in values)


def seconds(value: float) -> str:
    return f"{1e3 * value:.3g}"


def table(
    results: dict[str, list[dict[str, Figures]]], clock: int
) -> tuple[list[str], dict[str, list[float]]]:
    """Rows of Markdown, and by measure how many times JAX takes what Teucer takes."""
    head = [
        "case",
        "start",
        "trace",
        "lower",
        "compile",
        "ready",
        "",
        "first",
        "step",
        "",
        "memory, MB",
        "second process",
    ]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    quotients: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    for case, rounds in results.items():
        cells = [case]
        theirs, ours = (
            {
                m: median([r[library] for r in rounds], m, clock)
                for m in MEASURES
                if m in rounds[0][library]
            }
            for library in LIBRARIES
        )
        for measure in MEASURES[:-1]:
            quotients[measure].append(theirs[measure] / ours[measure])
            show = "{:.0f}".format if measure == "memory" else seconds
            cells.append(f"{show(theirs[measure])} / {show(ours[measure])}")
            if measure in ("ready", "step"):
                worse = " (slower)" if ours[measure] > SLOWER * theirs[measure] else ""
                cells.append(f"{quotients[measure][-1]:.2f}x{worse}")
        quotients["second"].append(theirs["ready"] / ours["second"])
        lines.append(f"| {' | '.join([*cells, seconds(ours['second'])])} |")
    return lines, quotients


def summary(results: dict[str, Any], quotients: dict[str, list[float]]) -> list[str]:
    lines = []
    cases = list(results)
    for measure, values in quotients.items():
        mean = math.exp(statistics.fmean(math.log(v) for v in values))
        worse = [
            f"{case} {1 / v:.2f}" for case, v in zip(cases, values, strict=True) if v < 1 / SLOWER
        ]
        lines.append(
            f"{measure}: {mean:.2f} times less than JAX; "
            f"worse by more than a tenth: {', '.join(worse) or 'none'}"
        )
    return lines


def machine(pythons: dict[str, str]) -> dict[str, Any]:
    """What the figures depend on."""
    cpuinfo = Path("/proc/cpuinfo")
    models = (
        [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        if cpuinfo.exists()
        else []
    )
    script = (
        "import importlib.metadata as m, sys;"
        "print(sys.version.split()[0], m.version('jaxlib'), m.version(sys.argv[1]))"
    )
    versions = {
        library: subprocess.run(
            [python, "-c", script, library], capture_output=True, text=True, check=True
        ).stdout.strip()
        for library, python in pythons.items()
    }
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "processor": models[0].partition(":")[2].strip() if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "load at the start": os.getloadavg()[0],
        "Python, jaxlib, library": versions,
    }


def picture(results: dict[str, Any], quotients: dict[str, list[float]], path: Path) -> None:
    """How many times sooner ready and faster a step each case is."""
    try:
        import matplotlib as mpl
    except ImportError:
        return
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 2 + 0.16 * len(results)), sharey=True)
    for axis, measure, title in zip(axes, ("ready", "step"), ("ready", "a step"), strict=True):
        values = quotients[measure]
        axis.barh(
            list(results),
            values,
            color=["tab:red" if v < 1 / SLOWER else "tab:blue" for v in values],
        )
        axis.set_xscale("log")
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(f"{title}: JAX's time / Teucer's")
        axis.tick_params(axis="y", labelsize=6)
    axes[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"picture: {path}", file=sys.stderr)


def all_cases(python: str) -> list[str]:
    listing = subprocess.run(
        [python, str(HERE / "measure.py"), "teucer"], capture_output=True, text=True, check=True
    )
    return listing.stdout.split()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", required=True, help="a Python that has JAX")
    parser.add_argument("--teucer", required=True, help="a Python that has Teucer")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="processes of each library a case (default: %(default)s)",
    )
    parser.add_argument(
        "--turns", type=int, default=7, help="turns of steps a process (default: %(default)s)"
    )
    parser.add_argument(
        "--only", help="cases or programs, with commas (default: all but transformer_48)"
    )
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="'cpu' where the machine is busy"
    )
    parser.add_argument(
        "--single",
        action="store_true",
        help="one thread of XLA, for steadier processors' time of steps",
    )
    parser.add_argument(
        "--name", default="corpus", help="of the files of results (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> None:
    options = arguments()
    pythons = {"jax": options.jax, "teucer": options.teucer}
    cases = all_cases(options.teucer)
    if options.only:
        wanted = options.only.split(",")
        cases = [case for case in cases if case in wanted or case.partition(".")[0] in wanted]
    else:
        cases.remove("transformer_48.run")  # it takes JAX minutes
    variables = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"} if options.single else {}
    about = machine(pythons)
    results: dict[str, list[dict[str, Figures]]] = {case: [] for case in cases}
    failed: list[str] = []
    RESULTS.mkdir(exist_ok=True)
    for number in range(options.rounds):
        for case in cases:
            try:
                results[case].append(one_round(pythons, case, options.turns, variables))
            except ChildProcessError as error:
                failed.append(str(error))
                continue
            print(f"round {number + 1} of {options.rounds}: {case}", file=sys.stderr)
            done = {case: rounds for case, rounds in results.items() if rounds}
            path = RESULTS / f"{options.name}.json"
            path.write_text(json.dumps({"machine": about, "results": done}, indent=1))
    lines, quotients = table(done, CLOCKS.index(options.clock))
    text = [
        ", ".join(f"{key}: {value}" for key, value in about.items()),
        f"milliseconds ({options.clock}), JAX / Teucer",
        "",
        *lines,
        "",
        *summary(done, quotients),
        *failed,
    ]
    (RESULTS / f"{options.name}.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))
    picture(done, quotients, RESULTS / f"{options.name}.png")


if __name__ == "__main__":
    main()

"""Libraries on JAX, on Teucer: whether they install and import, and give JAX's values.

`tools/newest_libraries.py [NAME ...]`, for all by default; `make libraries`.

Two environments in --folder get the newest releases: one with JAX, one with Teucer and the wheel of
`teucer compat wheel`. In both every module of a library is imported (`libraries/walk.py`), and its
example runs (`libraries/examples/NAME.py`). What the examples print is compared: text alike,
numbers to 3e-4 relative. With --write the table of docs/libraries.md is written. --small takes
three small libraries, for continuous integration; it is skipped where packages cannot be fetched.
--teucer and --jax name Pythons of environments that are there, and nothing is installed.
The libraries' own tests are `tools/ecosystem.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tools" / "libraries"
PAGE = ROOT / "docs" / "libraries.md"
BEGIN, END = "<!-- made by tools/newest_libraries.py -->", "<!-- end of imports -->"
# The library: what pip is asked for, and the packages that are imported, where they differ.
LIBRARIES = {
    "optax": "",
    "chex": "",
    "einops": "",
    "jaxtyping": "",
    "equinox": "",
    "lineax": "",
    "optimistix": "",
    "diffrax": "",
    "quax": "",
    "haliax": "haliax==1.4.dev450: haliax",
    "flax": "",
    "orbax": "orbax-checkpoint: orbax",
    "haiku": "dm-haiku: haiku",
    "distrax": "",
    "rlax": "",
    "mctx": "",
    "jmp": "",
    "clu": "",
    "treescope": "",
    "penzai": "",
    "jraph": "",
    "numpyro": "",
    "blackjax": "",
    "tinygp": "",
    "flowjax": "",
    "gpjax": "",
    "jaxopt": "",
    "ott": "ott-jax: ott",
    "kfac_jax": "kfac-jax: kfac_jax",
    "aqt": "aqtp: aqt",
    "tokamax": "",
    "maxtext": "",
    "autoray": "",
    "cotengra": "",
    "quimb": "",
    "pennylane": "",
    "netket": "",
    "keras": "",
    "mujoco": "mujoco-mjx: mujoco",
    "brax": "",
    "jax_md": "jax-md: jax_md",
    "pgx": "",
    "jumanji": "",
    "gymnax": "",
    "evosax": "",
    "dynamiqs": "",
    "grain": "",
    "pymc": "",
    "e3nn_jax": "e3nn-jax: e3nn_jax",
}
# Libraries that pip does not install: run by name from their repositories, with --teucer and --jax.
FROM_SOURCE = ("axlearn", "levanter")
SMALL = ("einops", "jaxtyping", "optax")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Side:
    """A Python with the libraries: on JAX, or on Teucer."""

    python: Path
    environ: Mapping[str, str]

    def run(self, *what: str | Path, seconds: int = 900) -> tuple[int, str, float]:
        """The status, what it printed, and the time of the processor."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        try:
            done = subprocess.run(
                [self.python, "-P", "-W", "ignore", *what],
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
                cwd="/",
                env={**os.environ, "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax", **self.environ},
            )
        except subprocess.TimeoutExpired:
            return 124, "", float(seconds)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        return done.returncode, done.stdout, spent

    def version(self, requirement: str) -> str:
        """The installed version of a distribution, empty if there is none."""
        name = re.split(r"[=<>\[]", requirement)[0]
        code = f"import importlib.metadata as m; print(m.version({name!r}))"
        return self.run("-c", code)[1].strip()


def main() -> int:
    """Compare the libraries of the command line; 1 where one does worse on Teucer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/teucer-libraries"))
    parser.add_argument(
        "--teucer", type=Path, help="a Python with the libraries and Teucer's wheel"
    )
    parser.add_argument("--jax", type=Path, help="a Python with the libraries and JAX")
    parser.add_argument("--jax-path", default="", help="PYTHONPATH for it")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the table of docs/libraries.md")
    options = parser.parse_args()
    names = options.names or (SMALL if options.small else tuple(LIBRARIES))
    given = options.teucer and options.jax
    known = {*LIBRARIES, *(FROM_SOURCE if given else ())}
    if unknown := sorted({*names} - known):
        parser.error(f"no such library: {', '.join(unknown)}")
    try:
        here, there = (
            (Side(options.teucer, {}), Side(options.jax, {"PYTHONPATH": options.jax_path}))
            if given
            else environments(options.folder.resolve())
        )
    except subprocess.CalledProcessError as error:
        if not options.small:
            raise
        print(f"skipped: packages cannot be fetched here ({error}).")
        return 0
    rows, worse = {}, []
    for name in names:
        requirement, _, package = (LIBRARIES.get(name) or f"{name}: {name}").partition(": ")
        installs = given or all(install(side, requirement) for side in (there, here))
        row, fine = compare(name, requirement, package, here, there) if installs else ("", False)
        rows[name] = row or f"| {name} | `{requirement}` | does not install | - | - |"
        worse += [] if fine else [name]
        print(rows[name], flush=True)
        if options.write:
            write(rows)
    print(f"{len(names)} libraries, {len(worse)} worse than on JAX: {', '.join(worse)}")
    return int(bool(worse))


def environments(folder: Path) -> tuple[Side, Side]:
    """The environments with Teucer's wheel and with JAX, made if they are not there."""
    sides = []
    for kind in ("teucer", "jax"):
        python = folder / f"with-{kind}" / "bin" / "python"
        side = Side(python, {})
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
            pip = [python, "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, "-e", str(ROOT)], check=True)
            wheels = folder / "wheels"
            command = [python, "-m", "teucer", "compat", "wheel", "--output", wheels]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            wheel = max(wheels.glob("jax-*.whl"), key=lambda path: path.stat().st_mtime)
            jax = wheel if kind == "teucer" else "jax==" + wheel.name.split("-")[1]
            subprocess.run([*pip, jax], check=True)
            if kind == "jax":
                command = [python, "-m", "pip", "uninstall", "--quiet", "--yes", "teucer"]
                subprocess.run(command, check=True)
        sides.append(side)
    return sides[0], sides[1]


def install(side: Side, requirement: str) -> bool:
    """Whether pip installs a library beside the jax that is there."""
    jax = side.version("jax")
    kept = f"jax=={jax}"
    status, _, _ = side.run("-m", "pip", "install", "--quiet", requirement, kept, seconds=1200)
    return status == 0


def compare(name: str, requirement: str, package: str, here: Side, there: Side) -> tuple[str, bool]:
    """The row of a library, and whether it does on Teucer what it does on JAX."""
    walks = []
    for side in (there, here):
        _, out, _ = side.run(HERE / "walk.py", package)
        walks.append(dict(map(json.loads, out.splitlines())))
    jax = {m for m, error in walks[0].items() if error is None}
    both = {m for m in jax if walks[1].get(m, "") is None}
    for module in sorted(jax - both)[:3]:
        print(f"    {module}: {walks[1].get(module)}")
    example = HERE / "examples" / f"{name}.py"
    result, ratio, fine = "-", "-", jax == both
    if example.exists():
        (status, want, theirs), (ours_status, got, ours) = (s.run(example) for s in (there, here))
        if status:
            result = "JAX fails" if ours_status else "JAX fails, Teucer runs"
        else:
            same = ours_status == 0 and alike(want, got)
            result, ratio = ("equal" if same else "differs"), f"{ours / theirs:.2f}"
            fine &= same
    row = (
        f"| {name} | {here.version(requirement)} | {len(both)} of {len(jax)} | {result} | {ratio} |"
    )
    return row, fine and bool(jax)


def alike(want: str, got: str) -> bool:
    """Whether texts are alike but for rounding in their numbers."""
    if NUMBER.sub("#", want).split() != NUMBER.sub("#", got).split():
        return False
    numbers = zip(NUMBER.findall(want), NUMBER.findall(got), strict=True)
    return all(abs(float(a) - float(b)) <= 3e-5 + 3e-4 * abs(float(a)) for a, b in numbers)


def write(rows: Mapping[str, str]) -> None:
    """Put rows into the table of the page; those of other libraries stay."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    kept = {row.split("|")[1].strip(): row for row in table.splitlines() if row.startswith("| ")}
    found = {**kept, **rows}
    lines: Sequence[str] = [
        "| library | version | modules that import, of JAX's | example | its time / JAX's |",
        "| --- | --- | --- | --- | --- |",
        *(found[name] for name in LIBRARIES if name in found),
    ]
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + after)


if __name__ == "__main__":
    sys.exit(main())

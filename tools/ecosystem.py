"""The tests of libraries on JAX, run on Teucer and on JAX.

`tools/ecosystem.py [NAME ...]`, for all by default.

Each library gets two environments in --folder: one with JAX, one with Teucer and the wheel of
`teucer compat wheel`. It is installed at the version of the table below, by uv where that is found,
which is quicker than pip. Its tests run on Teucer, and those that do not pass there run on JAX;
with --timed all run on both, and the times are compared. With --write the table of
docs/libraries.md is written. Nothing of the libraries is kept in the repository; --remove removes
their environments after use. Where a repository cannot be cloned, put its files into --folder, as
sources/NAME-TAG.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "libraries.md"
BEGIN, END = "<!-- made by tools/ecosystem.py -->", "<!-- end -->"
JAX = "0.10.2"
FAILURES = ("error", "failure")
PLUGIN = """
import time
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    item.began = time.process_time()
    return (yield)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    done = yield
    item.user_properties.append(("cpu", time.process_time() - item.began))
    return done
"""


class Outcome(NamedTuple):
    """What became of a test, and the processor time that it took, which other programs on the
    machine change little."""

    kind: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Library:
    """A library, where its tests are, and which of them are run.

    tests: files or folders; within site-packages where the wheel ships them, else within the source
    distribution (`sdist`), or the repository at a tag (`git`, as "URL@TAG").
    """

    requirement: str
    tests: tuple[str, ...]
    sdist: bool = False
    git: str = ""
    needs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    differences: Mapping[str, str] = field(
        default_factory=dict
    )  # test -> why its outcome is another


LIBRARIES = {
    "chex": Library("chex==0.1.92", ("chex/_src",)),
    "optax": Library(
        "optax==0.2.8",
        ("optax/_src", "optax/losses", "optax/transforms", "optax/tree_utils"),
        needs=("parameterized",),
    ),
    "rlax": Library("rlax==0.1.9", ("rlax/_src",)),
    "mctx": Library("mctx==0.0.71", ("mctx/_src/tests",)),
    "distrax": Library(
        "distrax==0.1.9", ("distrax/_src/bijectors", "distrax/_src/utils"), needs=("tfp-nightly",)
    ),
    "haiku": Library(
        "dm-haiku==0.0.17",
        tuple(
            f"haiku/_src/{name}_test.py"
            for name in (
                "base",
                "basic",
                "batch_norm",
                "config",
                "dot",
                "initializers",
                "jaxpr_info",
                "layer_stack",
                "lift",
                "module",
                "random",
                "recurrent",
                "stateful",
                "summarise",
            )
        ),
        needs=("dm-tree",),
    ),
    "flax.linen": Library("flax==0.12.8", ("tests/core", "tests/linen"), sdist=True),
    "flax.nnx": Library("flax==0.12.8", ("tests/nnx",), sdist=True, needs=("cloudpickle",)),
    "numpyro": Library(
        "numpyro==0.22.0",
        (
            "test/test_handlers.py",
            "test/test_constraints.py",
            "test/test_diagnostics.py",
            "test/test_util.py",
        ),
        sdist=True,
    ),
    "equinox": Library(
        "equinox==0.13.8",
        ("tests",),
        git="https://github.com/patrick-kidger/equinox@v0.13.8",
        needs=("beartype",),
        options=("--deselect=tests/test_while_loop.py",),
        differences={"test_make_jaxpr": "counts equations; sizes of 1 are broadcast by others"},
    ),
    "lineax": Library(
        "lineax==0.1.1",
        ("tests",),
        git="https://github.com/patrick-kidger/lineax@v0.1.1",
        needs=("beartype",),
    ),
    "optimistix": Library(
        "optimistix==0.1.0",
        ("tests",),
        git="https://github.com/patrick-kidger/optimistix@v0.1.0",
        needs=("beartype",),
    ),
    "diffrax": Library(
        "diffrax==0.7.2",
        ("test",),
        git="https://github.com/patrick-kidger/diffrax@v0.7.2",
        needs=("beartype",),
    ),
    "quax": Library(
        "quax==0.4.6",
        ("tests",),
        git="https://github.com/nstarman/quax@v0.4.6",
        differences={
            "structure_matrix": (
                "products convert an operand before, where JAX's dot_general takes two dtypes"
            ),
            "while_vmap": (
                "a loop of a batch keeps finished elements by select_n in the body, which the "
                "example has no rule for"
            ),
        },
    ),
    "jaxtyping": Library(
        "jaxtyping==0.3.11",
        ("test",),
        git="https://github.com/patrick-kidger/jaxtyping@v0.3.11",
        needs=("beartype", "cloudpickle", "typeguard<3"),
        options=("--ignore=test/test_ipython_extension.py",),
    ),
    "jaxopt": Library(
        "jaxopt==0.8.5",
        ("tests",),
        git="https://github.com/google/jaxopt@jaxopt-v0.8.5",
        needs=("scikit-learn", "optax"),
    ),
    "penzai": Library(
        "penzai==0.2.5",
        ("tests",),
        git="https://github.com/google-deepmind/penzai@v0.2.5",
        options=("--ignore=tests/models/transformer_consistency_test.py",),
    ),
    "blackjax": Library(
        "blackjax==1.7.1", ("tests",), sdist=True, options=("--ignore=tests/test_benchmarks.py",)
    ),
    "tinygp": Library("tinygp==0.3.1", ("tests",), sdist=True),
    "flowjax": Library(
        "flowjax==19.1.2", ("tests",), sdist=True, needs=("numpyro", "beartype", "scipy")
    ),
    "e3nn-jax": Library(
        "e3nn-jax==0.21.0", ("tests",), sdist=True, needs=("flax", "dm-haiku", "optax", "chex")
    ),
    "jraph": Library(
        "jraph==0.0.6.dev0",
        ("jraph",),
        sdist=True,
        needs=("dm-haiku", "flax", "optax", "frozendict", "dm-tree"),
    ),
    "gpjax": Library("gpjax==1.0.0", ("tests",), sdist=True, needs=("mktestdocs", "hypothesis")),
    "jaxley": Library("jaxley==0.14.0", ("tests",), sdist=True, needs=("jaxley-mech",)),
    "evosax": Library(
        "evosax==0.3.1",
        ("tests",),
        git="https://github.com/RobertTLange/evosax@v.0.3.1",
        needs=("gymnax", "brax"),
    ),
    "kfac-jax": Library(
        "kfac-jax==0.0.8",
        ("tests",),
        git="https://github.com/google-deepmind/kfac-jax@v0.0.8",
        needs=("dm-haiku", "optax"),
    ),
    "gymnax": Library("gymnax==1.0.1", ("tests",), sdist=True, needs=("chex",)),
    "brax": Library("brax==0.14.2", ("brax",), needs=("gym",)),
    "mujoco-mjx": Library("mujoco-mjx==3.17.0", ("mujoco/mjx",)),
    "keras": Library(
        "keras==3.15.1",
        ("keras/src/ops", "keras/src/random", "keras/src/backend/jax"),
        environ={"KERAS_BACKEND": "jax"},
    ),
    "grain": Library("grain==0.2.18", ("grain",)),
}


def main() -> int:
    """Run what the command line says; 1 if an outcome differs for which no reason is written
    down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(LIBRARIES))
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("/tmp/teucer-ecosystem"),
        help="where environments and tests go",
    )
    parser.add_argument(
        "--timeout",
        type=int,
        default=1800,
        help="seconds for the tests of one library in one environment",
    )
    parser.add_argument(
        "--timed", action="store_true", help="run all tests on JAX too, to compare the times"
    )
    parser.add_argument(
        "--remove", action="store_true", help="remove the environments of a library after use"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the rows into docs/libraries.md"
    )
    options = parser.parse_args()
    unknown = sorted({*options.names} - {*LIBRARIES})
    if unknown:
        parser.error(f"no such library: {', '.join(unknown)}")
    folder = options.folder.resolve()
    rows, unexplained = {}, 0
    for name in options.names or LIBRARIES:
        library = LIBRARIES[name]
        here = run(name, library, folder, "teucer", options.timeout)
        failed = any(outcome.kind in FAILURES for outcome in here.values())
        which = (
            ("--failed-first",)
            if options.timed
            else ("--last-failed", "--last-failed-no-failures=none")
        )
        on_jax = (
            run(name, library, folder, "jax", options.timeout, which)
            if failed or options.timed
            else {}
        )
        row, missing = compare(name, library, here, on_jax, timed=options.timed)
        print(row, flush=True)
        for test in missing:
            print(f"    {test}: {here[test].kind} on Teucer")
        rows[name], unexplained = row, unexplained + len(missing)
        if options.write:
            write(rows)
        if options.remove:
            shutil.rmtree(folder / "envs" / name)
    return int(unexplained > 0)


def environment(name: str, library: Library, folder: Path, kind: str) -> Path:
    """The Python of a library's environment, made if it is not there: with JAX, or with Teucer and
    its wheel."""
    # Not `jax` and `teucer`, which a test that runs in the folder would import as packages.
    place = folder / "envs" / name / f"with-{kind}"
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        pip = ["--without-pip"] if shutil.which("uv") else []
        subprocess.run([sys.executable, "-m", "venv", "--clear", *pip, place], check=True)
        if kind == "teucer":
            install(python, "-e", str(ROOT), f"jaxlib=={JAX}")
            wheels = folder / "wheels"
            subprocess.run(
                [python, "-m", "teucer", "compat", "wheel", "--output", wheels],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            jax = max(map(str, wheels.glob("jax-*.whl")))
        else:
            jax = f"jax=={JAX}"
        # Together, so that the library does not bring along another version of jaxlib.
        install(
            python, jax, f"jaxlib=={JAX}", "pytest", "absl-py", library.requirement, *library.needs
        )
        (place / "ready").touch()
    return python


def install(python: Path, *what: str) -> None:
    """Install into the environment of a Python."""
    uv = shutil.which("uv")
    command = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    subprocess.run([*command, "--quiet", *what], check=True)


def run(
    name: str, library: Library, folder: Path, kind: str, timeout: int, options: Sequence[str] = ()
) -> dict[str, Outcome]:
    """Outcomes by test. Tests that come after `timeout` have none."""
    python = environment(name, library, folder, kind)
    where = tests_of(library, python, folder)
    results = folder / f"{name}-{kind}.xml"
    results.unlink(missing_ok=True)
    programs = (
        folder / "programs"
    )  # a first run of Teucer is compared, without programs of an earlier one
    shutil.rmtree(programs, ignore_errors=True)
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "cpu_of_tests.py").write_text(PLUGIN)
    # Relative paths, so that both environments call a test alike; the cache says which failed in
    # the run before.
    command = [
        python,
        "-W",
        "ignore",
        "-m",
        "pytest",
        "-q",
        "-o",
        "addopts=",
        "-o",
        f"cache_dir={folder / 'cache' / name}",
        "-p",
        "no:xdist",
        "-p",
        "cpu_of_tests",
        "--rootdir",
        where,
        "--continue-on-collection-errors",
        f"--junitxml={results}",
        *options,
        *library.options,
        *library.tests,
    ]
    with (folder / f"{name}-{kind}.txt").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=where,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "JAX_PLATFORMS": "cpu",
                "PYTHONPATH": str(plugins),
                "TEUCER_CACHE_DIR": str(programs),
                **library.environ,
            },
        )
        for wait, stop in (
            (timeout, signal.SIGINT),
            (60, signal.SIGKILL),
        ):  # interrupted, pytest writes what it has
            try:
                process.wait(wait)
                break
            except subprocess.TimeoutExpired:
                print(f"{name}: the tests took longer than {timeout} s on {kind}.", file=sys.stderr)
                process.send_signal(stop)
        process.wait()
    return read(results)


def tests_of(library: Library, python: Path, folder: Path) -> Path:
    """The folder in which the paths of the tests are, fetched if need be."""
    if library.git:
        url, tag = library.git.rsplit("@", 1)
        place = folder / "sources" / f"{url.rsplit('/', 1)[1]}-{tag}"
        if not place.exists():
            subprocess.run(
                ["git", "clone", "--quiet", "--depth", "1", "--branch", tag, url, place], check=True
            )
        return place
    if library.sdist:
        base = library.requirement.replace("-", "_").replace("==", "-")
        place = folder / "sources" / base
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                [
                    python,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--no-deps",
                    "--no-binary",
                    ":all:",
                    "--dest",
                    place.parent,
                    library.requirement,
                ],
                check=True,
            )
            with tarfile.open(place.parent / f"{base}.tar.gz") as archive:
                archive.extractall(place.parent, filter="data")
        return place
    return next((python.parent.parent / "lib").glob("python*/site-packages"))


def read(results: Path) -> dict[str, Outcome]:
    """Outcomes by test, from pytest's XML; none if it was not written."""
    outcomes = {}
    for case in ET.parse(results).iter("testcase") if results.exists() else ():
        kinds = {child.tag for child in case}
        kind = next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")
        seconds = sum(
            float(each.get("value", 0))
            for each in case.iter("property")
            if each.get("name") == "cpu"
        )
        outcomes[
            f"{(case.get('classname') or '').split('site-packages.')[-1]}::{case.get('name')}"
        ] = Outcome(kind, seconds)
    return outcomes


def compare(
    name: str,
    library: Library,
    here: Mapping[str, Outcome],
    on_jax: Mapping[str, Outcome],
    *,
    timed: bool = False,
) -> tuple[str, list[str]]:
    """The row of the table, and the tests that pass on JAX only for which no reason is written
    down."""
    kinds = Counter(outcome.kind for outcome in here.values())
    passed = [test for test, outcome in on_jax.items() if outcome.kind == "passed"]
    # A file of tests that cannot be imported is an error under the file's name.
    lost = [
        test
        for test, outcome in here.items()
        if outcome.kind != "passed"
        and (
            test in passed
            or (test.startswith("::") and any(other.startswith(test[2:]) for other in passed))
        )
    ]
    missing = [test for test in lost if not any(part in test for part in library.differences)]
    both = [
        test
        for test, outcome in here.items()
        if outcome.kind == on_jax.get(test, Outcome("")).kind == "passed"
    ]
    ours, theirs = (sum(outcomes[test].seconds for test in both) for outcomes in (here, on_jax))
    ratio = f"{ours / theirs:.2f} ({len(both)})" if timed and theirs else "-"
    why = "; ".join(f"`{part}`: {reason}" for part, reason in library.differences.items()) or (
        "see the log" if missing else ""
    )
    ran = len(here) - kinds["skipped"]
    return (
        (
            f"| {name} | `{library.requirement}` | {ran} | {kinds['passed']} | {len(lost)} | "
            f"{ratio} | {why} |"
        ),
        missing,
    )


def write(rows: Mapping[str, str]) -> None:
    """Put the rows into the table of the page, in the order of the libraries; rows of others
    stay."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    kept = {
        row.split("|")[1].strip(): row
        for row in table.splitlines()
        if row.startswith("| ") and "---" not in row
    }
    head = [
        (
            "| library | version | tests | pass on Teucer | pass on JAX only | time, Teucer / JAX "
            "(of tests) | what differs |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    found = {**kept, **rows}
    lines: Sequence[str] = [*head, *(found[name] for name in LIBRARIES if name in found)]
    PAGE.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + after)


if __name__ == "__main__":
    sys.exit(main())

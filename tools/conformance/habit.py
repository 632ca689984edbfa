"""`make conformance`, `make conformance-2026`.

JAX's published tests against Teucer, counted in docs/conformance.md; fails where fewer pass than
before.

The tests are laid out by `get_tests.sh GIT_DIR JAX_TESTS` and are no part of this repository;
without them nothing runs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "conformance.md"
ROW = re.compile(r"^\| ([\w/]+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
# Tests that ask for JAX's internals: a line each, with the reason.
INTERNALS = HERE / "internals.txt"


class Release(NamedTuple):
    """JAX's tests of one release, and the head of their table in the page."""

    tag: str
    ceiling: str
    head: str


RELEASES = {
    "0.10.2": Release("jax-v0.10.2", "ceiling.json", "| file | passed | of |"),
    "2026-08": Release(
        "cec06d116c05", "ceiling_2026_08.json", "| file of August 2026 | passed | of |"
    ),
}


def main() -> int:
    """Run the tests of the files named, all by default; 1 where fewer pass than the page says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help="the folder of JAX's tests")
    parser.add_argument("files", nargs="*", help="such as core_test; all by default")
    parser.add_argument("--release", choices=RELEASES, default="0.10.2", help="of the tests")
    parser.add_argument("--python", default=sys.executable, help="that runs them")
    parser.add_argument("--counted", type=Path, help="outcomes of a run, to be counted alone")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("/tmp/teucer-conformance.json"),
        help="where all outcomes go",
    )
    options = parser.parse_args()
    release = RELEASES[options.release]
    ceiling = HERE / release.ceiling
    if options.counted is None:
        if not (options.tests / "tests").is_dir():
            print(
                (
                    f"{options.tests} has no tests of JAX: lay them out with "
                    f"TAG={release.tag} tools/conformance/get_tests.sh."
                ),
                file=sys.stderr,
            )
            return 2
        run(options, ceiling)
    possible = json.loads(ceiling.read_text())["files"]
    rows = read(release)
    worse = []
    for file, found in json.loads((options.counted or options.out).read_text())["files"].items():
        name = file.removeprefix("tests/").removesuffix(".py")
        expected = passing(possible.get(file, {}))
        if not expected:
            continue
        counted = len(expected & passing(found))
        if counted < rows.get(name, (0, 0))[0]:
            worse.append(f"{name}: {counted} pass, {rows[name][0]} did")
        rows[name] = counted, len(expected)
    if worse:
        print(*worse, sep="\n")
        return 1
    write(rows, release, internals(options.release))
    return 0


def run(options: argparse.Namespace, ceiling: Path) -> None:
    """Run the tests; their outcomes go to a file."""
    command = [
        sys.executable,
        HERE / "run_suite.py",
        "--impl",
        "teucer",
        "--python",
        options.python,
        "--jax-src",
        options.tests,
        "--ceiling",
        ceiling,
        "--only-ceiling",
        "--out",
        options.out,
        "--path",
        HERE.parent.parent,
        "--jobs",
        "2",
        "--timeout",
        "3600",
    ]
    subprocess.run(
        [*map(str, command), *(["--files", *options.files] if options.files else [])], check=True
    )


def passing(file: dict) -> set[str]:
    """The tests of a file that pass."""
    return {
        *file.get("passing", ()),
        *(name for name, outcome in file.get("tests", {}).items() if outcome == "passed"),
    }


def internals(release: str) -> int:
    """How many tests of a release ask for JAX's internals."""
    return sum(line.startswith(release + " ") for line in INTERNALS.read_text().splitlines())


def table(text: str, release: Release) -> tuple[int, int]:
    """Where the table of a release begins and ends in the page."""
    start = text.index(release.head)
    end = text.find("\n\n", start)
    return start, len(text) if end < 0 else end


def read(release: Release) -> dict[str, tuple[int, int]]:
    """Per file, how many of how many tests passed when the page was written."""
    text = PAGE.read_text()
    start, end = table(text, release)
    return {name: (int(passed), int(of)) for name, passed, of in ROW.findall(text[start:end])}


def write(rows: dict[str, tuple[int, int]], release: Release, n_internals: int) -> None:
    """Put the counts, and their sum, into the page."""
    text = PAGE.read_text()
    start, end = table(text, release)
    lines = [release.head, "| --- | --- | --- |"]
    lines += [f"| {name} | {passed} | {of} |" for name, (passed, of) in sorted(rows.items())]
    passed, of = (sum(counts) for counts in zip(*rows.values(), strict=True))
    possible = of - n_internals
    total = (
        f"**Total, {release.tag}.** {passed} of {of}, {passed / of:.1%}. {n_internals} ask for "
        f"internals; of the other\n{possible} tests {passed / possible:.1%} pass."
    )
    text = text[:start] + "\n".join(lines) + (text[end:] or "\n")
    old = re.compile(
        rf"\*\*Total, {re.escape(release.tag)}\.\*\* [^\n]*\n[^\n]*tests [\d.]+% pass\."
    )
    PAGE.write_text(old.sub(total, text))


if __name__ == "__main__":
    sys.exit(main())

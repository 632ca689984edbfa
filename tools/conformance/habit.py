"""`make conformance`.

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

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "conformance.md"
TOTAL = re.compile(r"\*\*Total\.\*\* \d+ of \d+, [\d.]+ ?%\.")
ROW = re.compile(r"^\| ([\w/]+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def main() -> int:
    """Run the tests of the files named, all by default; 1 where fewer pass than the page says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help="the folder of JAX's tests")
    parser.add_argument("files", nargs="*", help="such as core_test; all by default")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("/tmp/teucer-conformance.json"),
        help="where all outcomes go",
    )
    options = parser.parse_args()
    if not (options.tests / "tests").is_dir():
        print(
            (
                f"{options.tests} has no tests of JAX: lay them out with "
                "tools/conformance/get_tests.sh."
            ),
            file=sys.stderr,
        )
        return 2
    ceiling = HERE / "ceiling.json"
    command = [
        sys.executable,
        HERE / "run_suite.py",
        "--impl",
        "teucer",
        "--python",
        sys.executable,
        "--jax-src",
        options.tests,
        "--ceiling",
        ceiling,
        "--out",
        options.out,
        "--path",
        HERE.parent.parent,
        "--jobs",
        "2",
    ]
    subprocess.run(
        [*map(str, command), *(["--files", *options.files] if options.files else [])], check=True
    )
    possible = json.loads(ceiling.read_text())["files"]
    rows = read()
    worse = []
    for file, found in json.loads(options.out.read_text())["files"].items():
        name = file.removeprefix("tests/").removesuffix(".py")
        expected = passing(possible.get(file, {}))
        counted = len(expected & passing(found))
        if counted < rows.get(name, (0, 0))[0]:
            worse.append(f"{name}: {counted} pass, {rows[name][0]} did")
        rows[name] = counted, len(expected)
    if worse:
        print(*worse, sep="\n")
        return 1
    write(rows)
    return 0


def passing(file: dict) -> set[str]:
    """The tests of a file that pass."""
    return {
        *file.get("passing", ()),
        *(name for name, outcome in file.get("tests", {}).items() if outcome == "passed"),
    }


def read() -> dict[str, tuple[int, int]]:
    """Per file, how many of how many tests passed when the page was written."""
    return {name: (int(passed), int(of)) for name, passed, of in ROW.findall(PAGE.read_text())}


def write(rows: dict[str, tuple[int, int]]) -> None:
    """Put the counts, and their sum, into the page."""
    text = PAGE.read_text()
    start = text.index("| file |")
    end = text.find("\n\n", start)
    table = (f"| {name} | {passed} | {of} |" for name, (passed, of) in sorted(rows.items()))
    lines = ["| file | passed | of |", "| --- | --- | --- |", *table]
    passed, of = (sum(counts) for counts in zip(*rows.values(), strict=True))
    total = f"**Total.** {passed} of {of}, {passed / of:.1%}."
    rest = text[end:] if end >= 0 else "\n"
    PAGE.write_text(TOTAL.sub(total, text[:start]) + "\n".join(lines) + rest)


if __name__ == "__main__":
    sys.exit(main())

"""Break the library on purpose, in a copy, and see whether a test notices.

    tools/mutants.py                        every change listed in tools/mutants.toml, with the
    tests named there
    tools/mutants.py FILE                   those of one file below teucer/
    tools/mutants.py FILE -n 40 TEST ...    40 changes of that file by cosmic-ray, drawn by chance,
    with these tests

A change that no test notices is a mutant that lives: it is named. The exit status is 1 if a listed
one lives, or more than a tenth of those that are drawn.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 300
PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow")
CONFIG = """
[cosmic-ray]
module-path = "{path}"
timeout = {seconds}
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
"""


class Mutant(NamedTuple):
    """A change to a file of the library, why it matters, and the tests that notice it."""

    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def changed(self, text: str) -> str:
        """The text of the file with the change. Raises ValueError if `old` does not stand there
        exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"mutants.toml: in teucer/{self.file} this stands {text.count(self.old)} times, "
                f"not once:\n  {self.old}"
            )
        return text.replace(self.old, self.new)


def listed() -> list[Mutant]:
    """The mutants of tools/mutants.toml."""
    with (ROOT / "tools" / "mutants.toml").open("rb") as file:
        return [
            Mutant(m["why"], m["file"], m["old"], m["new"], tuple(m["tests"]))
            for m in tomllib.load(file)["mutant"]
        ]


def environment(folder: Path) -> dict[str, str]:
    """That of a process which imports the library from a copy."""
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def passes(folder: Path, tests: Sequence[str]) -> bool:
    """Whether the tests pass in a copy of the repository. One that takes too long is one that
    fails."""
    try:
        done = subprocess.run(
            [sys.executable, *PYTEST, *tests],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):
        # A change may break the import of the tests: 2 and 3 are pytest's words for that, 4 and 5
        # for names of no test. 4 is also that for an import that breaks in a conftest.
        if done.returncode in (2, 3) or "while loading conftest" in done.stderr:
            return False
        raise RuntimeError(
            f"pytest could not run {' '.join(tests)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.returncode == 0


def copied(folder: Path) -> None:
    """A copy of what tests need of the repository, with its bytecode: a file that is changed has
    another time than its bytecode says."""
    for name in ("teucer", "tests", "tools", "docs"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)


def run_listed(folder: Path, mutants: Sequence[Mutant]) -> int:
    """Make each change in the copy, and run its tests; how many live."""
    living = 0
    for mutant in mutants:
        path = folder / "teucer" / mutant.file
        text = path.read_text()
        path.write_text(mutant.changed(text))
        lives = passes(folder, mutant.tests)
        path.write_text(text)
        print(f"{'LIVES ' if lives else 'killed'}  {mutant.file}: {mutant.why}", flush=True)
        living += lives
    return living


def drawn(
    jobs: Iterable[tuple[str, str, int, int, int]], lines: Sequence[str], number: int, seed: int
) -> set[str]:
    """So many of the changes that cosmic-ray can make, each at a place of its own.

    jobs: of each change its name, operator, row, and first and last column. Left out are those of
    `|` and of stars that are no products: in this library these stand in annotations and
    signatures. So are those that change nothing that tests could see: decorators, which mark
    classes as final and have functions compiled, and `strict=` of zips of equal lengths.
    """
    places: dict[tuple[int, int], list[str]] = {}
    for job, operator, row, column, end in jobs:
        product = lines[row - 1][end : end + 1].isspace()
        seen = "Decorator" not in operator and not lines[row - 1][:column].endswith("strict=")
        if (
            seen
            and "Operator_BitOr" not in operator
            and ("Operator_Mul" not in operator or product)
        ):
            places.setdefault((row, column), []).append(job)
    dice = random.Random(seed)
    return {dice.choice(places[at]) for at in dice.sample(sorted(places), min(number, len(places)))}


def leave(session: Path, lines: Sequence[str], number: int, seed: int) -> None:
    """Leave so many changes in a session of cosmic-ray."""
    with sqlite3.connect(session) as db:
        jobs = db.execute(
            "select job_id, operator_name, start_pos_row, start_pos_col, end_pos_col from "
            "mutation_specs"
        ).fetchall()
        chosen = drawn(jobs, lines, number, seed)
        for job in (job for job, *_ in jobs if job not in chosen):
            db.execute("delete from mutation_specs where job_id = ?", (job,))
            db.execute("delete from work_items where job_id = ?", (job,))


def run_drawn(
    folder: Path, file: str, number: int, seed: int, tests: Sequence[str]
) -> tuple[int, int]:
    """Changes that cosmic-ray makes to a file of the copy: how many live, among how many."""
    cosmic_ray = shutil.which(
        "cosmic-ray",
        path=os.pathsep.join((str(ROOT / ".venv-mutants" / "bin"), os.environ["PATH"])),
    )
    if cosmic_ray is None:
        raise SystemExit("cosmic-ray is missing. `make mutants FILE=... TESTS=...` sets it up.")
    path, session = f"teucer/{file}", folder / "session.sqlite"
    command = " ".join(
        [sys.executable, *(f"'{word}'" if " " in word else word for word in (*PYTEST, *tests))]
    )
    (folder / "cosmic-ray.toml").write_text(
        CONFIG.format(path=path, seconds=SECONDS, command=command)
    )

    def call(*words: str) -> None:
        subprocess.run([cosmic_ray, *words], cwd=folder, env=environment(folder), check=True)

    call("init", "cosmic-ray.toml", str(session))
    leave(session, (folder / path).read_text().splitlines(), number, seed)
    call("exec", "cosmic-ray.toml", str(session))
    with sqlite3.connect(session) as db:
        results = db.execute("select test_outcome, diff from work_results").fetchall()
    living = [diff for outcome, diff in results if outcome == "SURVIVED"]
    for diff in living:
        print(
            "LIVES",
            *[
                line
                for line in diff.splitlines()
                if line[:1] in "+-" and line[:3] not in ("+++", "---")
            ],
            sep="\n  ",
        )
    return len(living), len(results)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", help="a file below teucer/")
    parser.add_argument("tests", nargs="*", help="tests near it, as pytest takes them")
    parser.add_argument("-n", "--number", type=int, default=40, help="how many changes are drawn")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chosen = [m for m in listed() if args.file in (None, m.file)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        if not passes(folder, args.tests or sorted({test for m in chosen for test in m.tests})):
            print("The tests fail without any change. Mend them first.")
            return 2
        if args.tests:
            living, number = run_drawn(folder, args.file, args.number, args.seed, args.tests)
        else:
            living, number = run_listed(folder, chosen), len(chosen)
    print(f"{number - living} of {number} killed")
    return int(living > (number / 10 if args.tests else 0))


if __name__ == "__main__":
    sys.exit(main())

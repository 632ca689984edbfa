"""Break the library on purpose, in a copy, and see whether a test notices.

    tools/mutants.py                   every change listed in tools/mutants.toml, with the tests
    tools/mutants.py FILE              named there; those of one file below teucer/
    tools/mutants.py -n 8 PART ...     8 changes of each file of folders or files below teucer/,
    drawn by chance, with the tests that come by the changed lines, the quickest first
    tools/mutants.py --map [TEST ...]  note which tests come by which lines: all, or those of files

A change that no test notices is a mutant that lives. The exit status is 1 if a listed one lives, or
more than a tenth of those that are drawn. The map is noted where it is missing, or its tests have
changed; `--as-is` takes what there is. Python 3.12 is needed, and a machine with `fork`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import difflib
import hashlib
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import mutations
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(os.environ.get("MUTANTS_ROOT", Path(__file__).resolve().parent.parent))
CACHE = ROOT / ".cache" / "teucer"  # of executables: what mutants compile is not kept there
# Mutants of these might write wrong executables into a cache that others share.
OWN_CACHE = ("_executables/", "_programs/", "_targets/", "_xla/")


# What forks need, and no mutant changes, is loaded once; of teucer nothing.
LOADED = (
    "jaxlib.xla_client",
    "mpmath",
    "scipy.linalg",
    "scipy.signal",
    "scipy.special",
    "scipy.stats",
)


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


def copied(folder: Path) -> None:
    """A copy of what tests need of the repository, with its bytecode: a file that is changed has
    another time than its bytecode says."""
    for name in ("teucer", "tests", "tools", "docs", "examples", "benchmarks"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(ROOT / name, folder)
    (folder / "cache").mkdir()
    for path in CACHE.glob("*.xla"):  # an entry is never written in its place
        with contextlib.suppress(OSError):  # gone, or on another disk
            os.link(path, folder / "cache" / path.name)


def arguments(files: Sequence[str]) -> list[str]:
    """Those of pytest, the first of which makes it stop at a failure. Doctests run under the
    settings of the tests."""
    settings = ["-p", "tests.conftest"] if files[0].startswith("teucer/") else []
    return ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *settings, *files]


def forked(folder: Path, work: Callable[[], Any], seconds: float, cache: Path) -> tuple[Any, str]:
    """What work gives in a fork of this process, which imports the library from a copy, and how the
    fork ended. It gives None if it breaks off, or takes more seconds than that of a processor."""
    receiving, sending = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.setsid()
        os.chdir(folder)
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 5))
        os.environ.update(
            PYTHONPATH=str(folder),
            PYTHONDONTWRITEBYTECODE="1",
            TEUCER_CACHE_DIR=str(cache),
        )
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(folder))
        try:
            found = json.dumps(work())
            with os.fdopen(sending, "w") as file:
                file.write(found)
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(0)
    os.close(sending)
    data, end = b"", time.monotonic() + 5 * seconds + 60
    with os.fdopen(receiving, "rb", 0) as file:
        while select.select([file], [], [], max(0, end - time.monotonic()))[0]:
            if not (more := file.read(1 << 20)):
                break
            data += more
    with contextlib.suppress(ProcessLookupError):  # and what tests have started
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    end = "" if data else (folder / "log").read_text(errors="replace")[-1000:]
    return (json.loads(data) if data else None), f"status {status} {end}"


# ---- which tests come by which lines ----

# Appended to the copy of teucer/__init__.py while the map is made: processes that tests start note
# their lines too.
IN_CHILDREN = """
if __import__("os").environ.get("MUTANTS_LINES"):
    def _watch():
        import atexit, json, os, sys
        m, seen, folder = sys.monitoring, {}, os.path.dirname(__file__) + os.sep
        def line(code, n):
            if code.co_filename.startswith(folder):
                name = code.co_filename[len(folder):]
                seen[name] = seen.get(name, 0) | 1 << n
            return m.DISABLE
        def write():
            with open(os.path.join(os.environ["MUTANTS_LINES"], str(os.getpid())), "w") as file:
                json.dump({name: hex(lines) for name, lines in seen.items()}, file)
        m.use_tool_id(m.COVERAGE_ID, "mutants")
        m.register_callback(m.COVERAGE_ID, m.events.LINE, line)
        m.set_events(m.COVERAGE_ID, m.events.LINE)
        atexit.register(write)
    _watch()
"""


def seconds() -> float:
    """Those that processors spent for this process, and for those that it started."""
    return sum(os.times()[:4])


class Watch:
    """A plugin of pytest that notes the lines of the library that each test comes by, as bits of an
    integer, and the seconds that it takes. The first row of a file is what its collection does."""

    def __init__(self, folder: Path) -> None:
        self.library = f"{folder}/teucer/"
        self.children = folder / "children"
        self.children.mkdir(exist_ok=True)
        self.rows: dict[str, tuple[float, dict[str, int]]] = {}
        self.failed: set[str] = set()
        self.monitoring = sys.monitoring
        self.begin()

    def pytest_sessionstart(self) -> None:
        importlib.import_module("teucer")  # no test is the cause of what runs at import
        m = self.monitoring
        m.use_tool_id(m.COVERAGE_ID, "mutants")
        m.register_callback(m.COVERAGE_ID, m.events.LINE, self.line)
        m.set_events(m.COVERAGE_ID, m.events.LINE)
        os.environ["MUTANTS_LINES"] = str(self.children)

    def line(self, code: Any, line: int) -> object:
        if code.co_filename.startswith(self.library):
            self.lines[code.co_filename[len(self.library) :]] |= 1 << line
        return self.monitoring.DISABLE

    def begin(self) -> None:
        self.lines: collections.defaultdict[str, int] = collections.defaultdict(int)
        self.monitoring.restart_events()
        self.start = seconds()

    def end(self, name: str) -> None:
        for path in self.children.iterdir():
            with contextlib.suppress(ValueError):  # of a process that was killed as it wrote
                for file, lines in json.loads(path.read_text()).items():
                    self.lines[file] |= int(lines, 16)
            path.unlink()
        self.rows[name] = (round(seconds() - self.start, 3), dict(self.lines))
        self.begin()

    def pytest_make_collect_report(self, collector: Any) -> None:
        if not isinstance(collector, pytest.Session | pytest.Dir):
            self.begin()

    def pytest_collectreport(self, report: Any) -> None:
        if report.nodeid.endswith(".py"):
            self.end(report.nodeid)

    def pytest_runtest_protocol(self, item: Any) -> None:
        self.begin()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        if report.when == "teardown":
            self.end(report.nodeid)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def move(noted: dict[str, Any], file: str, old: Sequence[str], new: Sequence[str]) -> None:
    """The lines of a file that has another text since."""
    same = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    for kept in noted.values():
        moved: dict[str, list[int]] = {}
        for lines, tests in kept["lines"].pop(file, {}).items():
            bits, there = int(lines, 16) >> 1, 0
            for a, b, size in same:
                there |= ((bits >> a) & ((1 << size) - 1)) << b
            moved.setdefault(hex(there << 1), []).extend(tests)
        if moved:
            kept["lines"][file] = moved


class Map:
    """Which tests come by which lines of the library, kept as JSON: the texts that the lines are
    of; for each file of tests its digest, names and seconds, and for each file of the library the
    tests by the lines that they come by."""

    def __init__(self, path: Path, *others: Path) -> None:
        self.path, self.tests = path, {}
        self.sure: set[str] = set()  # tests that were seen to pass alone, in a fork
        library = ROOT / "teucer"
        self.texts = {str(p.relative_to(library)): p.read_text() for p in library.rglob("*.py")}
        for kept in (json.loads(p.read_text()) for p in (*others, path) if p.exists()):
            for file, text in kept["texts"].items():
                if self.texts.get(file) != text:
                    new = self.texts.get(file, "").splitlines()
                    move(kept["tests"], file, text.splitlines(), new)
            self.tests |= kept["tests"]

    def missing(self) -> list[str]:
        """The files of tests that are not in it, or have changed since."""
        files = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("tests/programs/*.py")]
        files += [p for p in ROOT.glob("teucer/**/*.py") if ">>>" in p.read_text()]
        names = (str(p.relative_to(ROOT)) for p in sorted(files))
        return [n for n in names if self.tests.get(n, {}).get("digest") != digest(ROOT / n)]

    def make(self, folder: Path, files: Sequence[str]) -> None:
        """Run files of tests, and note what they come by; doctests of a module in one process."""
        init = folder / "teucer/__init__.py"
        init.write_text(self.texts["__init__.py"] + IN_CHILDREN)
        groups = collections.defaultdict(list)
        for name in files:
            groups[name if name.startswith("tests/") else name.split("/")[1]].append(name)
        for group in groups.values():

            def work(group: Sequence[str] = group) -> Any:
                watch = Watch(folder)
                pytest.main(arguments(group)[1:], plugins=[watch])
                return watch.rows, sorted(watch.failed)

            found, status = forked(folder, work, 3000, CACHE)
            rows, failed = found or ({}, [status])
            print(f"{group[0]} ...: {len(rows)} tests, {failed or 'all passed'}", flush=True)
            for name in group:
                self.add(name, {k: v for k, v in rows.items() if k.split("::")[0] == name}, failed)
            self.save()
        init.write_text(self.texts["__init__.py"])

    def add(self, file: str, rows: dict[str, Any], failed: Sequence[str]) -> None:
        names = [name for name in rows if name not in failed]
        lines: dict[str, dict[str, list[int]]] = {}
        for i, name in enumerate(names):
            for library, bits in rows[name][1].items():
                lines.setdefault(library, {}).setdefault(hex(bits), []).append(i)
        self.tests[file] = {
            "digest": digest(ROOT / file),
            "tests": [(name, rows[name][0]) for name in names],
            "lines": lines,
        }

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"texts": self.texts, "tests": self.tests}))
        new.replace(self.path)

    def by(self, file: str, lines: Iterable[int]) -> list[tuple[float, str]]:
        """The tests that come by one of the lines, the quickest first."""
        mask = sum(1 << line for line in lines)
        return sorted(
            (kept["tests"][i][1], kept["tests"][i][0])
            for kept in self.tests.values()
            for bits, tests in kept["lines"].get(file, {}).items()
            if int(bits, 16) & mask
            for i in tests
        )

    def near(self, file: str, change: mutations.Change) -> list[tuple[float, str]]:
        """The tests that come by a change. What runs at import, they do if they run a function of
        the file."""
        if not change.in_function:
            functions = mutations.function_lines(self.texts[file])
            return self.by(file, functions or range(self.texts[file].count("\n") + 2))
        return self.by(file, change.lines) or self.by(file, change.statement)

    def chosen(self, found: Sequence[tuple[float, str]], budget: float) -> dict[str, list[str]]:
        """Files of tests, and those of them that fit into so many seconds, quick files first."""
        groups: dict[str, list[str]] = {}
        times: dict[str, float] = {}
        for cost, name in found:
            file = name.split("::")[0]
            more = cost + (0 if file in groups else self.tests[file]["tests"][0][1])
            if sum(times.values()) + more > budget and groups:
                break
            groups.setdefault(file, []).append(name)
            times[file] = times.get(file, 0) + more
        return {file: groups[file] for file in sorted(groups, key=times.__getitem__)}


# ---- mutants ----


class Only:
    """A plugin of pytest that runs some tests, and says which failed. The name of a file stands for
    its first test: what its collection does is at stake."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.failed = {name: i for i, name in enumerate(names)}, ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        first = items[:1]
        items[:] = [i for i in items if i.nodeid in self.names] or first
        items.sort(key=lambda i: self.names.get(i.nodeid, 0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed = report.nodeid


def noticed(
    folder: Path, file: str, text: str, tests: dict[str, list[str]], budget: float
) -> str | None:
    """What fails while a file of the copy has another text."""
    path = folder / "teucer" / file
    before = path.read_text()

    def work() -> str | None:
        for name, names in tests.items():
            only = Only(names)
            if pytest.main(arguments([name]), plugins=[only] if names else []):
                return only.failed or f"{name}: the import"
        return None

    cache = folder / ("own" if file.startswith(OWN_CACHE) else "cache")
    shutil.rmtree(folder / "own", ignore_errors=True)
    path.write_text(text)
    try:
        found, status = forked(folder, lambda: [work()], budget, cache)
    finally:
        path.write_text(before)
    return found[0] if found else f"broke off, or without end: {status}"


def draw(folder: Path, module: str, cover: Map, args: argparse.Namespace) -> tuple[int, int]:
    """Changes by chance in a module: how many live, among how many."""
    files = [f for f in sorted(cover.texts) if f == module or f.startswith(f"{module}/")]
    living = number = 0
    for file in files:
        text = cover.texts[file]
        places = len(mutations.changes(text))
        for change in mutations.drawn(text, min(args.number, 1 + places // 8), args.seed):
            found = cover.near(file, change)
            tests = cover.chosen(found, args.budget)
            said, by = "NOT REACHED", None
            if tests:
                by = noticed(folder, file, change.made(text), tests, 2 * args.budget + 30)
                name = (by or "").split("::")[0]  # a test that fails anyway kills nothing
                if by and by not in cover.sure and name in tests:
                    if noticed(folder, file, text, {name: [by]}, 600):
                        by = f"FAILS ANYWAY {by}"
                    else:
                        cover.sure.add(by)
                said = f"killed by {by}" if by else f"LIVES {sum(map(len, tests.values()))} tests"
                said += f" of {len(found)}"
            print(f"{said}\n    {file} {change.named(text)}", flush=True)
            living += by is None
            number += 1
    print(f"## {module}: {number - living} of {number} killed", flush=True)
    return living, number


def run_listed(folder: Path, mutants: Sequence[Mutant]) -> int:
    """Make each change in the copy, and run its tests; how many live."""
    living = 0
    for mutant in mutants:
        text = (folder / "teucer" / mutant.file).read_text()
        tests: dict[str, list[str]] = {name: [] for name in mutant.tests}
        by = noticed(folder, mutant.file, mutant.changed(text), tests, 600)
        print(f"{'killed' if by else 'LIVES '}  {mutant.file}: {mutant.why}", flush=True)
        living += by is None
    return living


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="files or folders below teucer/")
    parser.add_argument("-n", "--number", type=int, help="how many changes of a file are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for a mutant")
    parser.add_argument("--map", action="store_true", help="make the map, of these tests or of all")
    parser.add_argument("--as-is", action="store_true", help="take the map as it is")
    parser.add_argument(
        "--kept",
        type=Path,
        nargs="+",
        default=[ROOT / ".cache" / "mutants.json"],
        help="where the map is; of several the first is added to",
    )
    args = parser.parse_args()
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a fork keeps one thread
    for name in LOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copied(folder)
        if args.number is None and not args.map:
            chosen = [m for m in listed() if not args.names or m.file in args.names]
            every: dict[str, list[str]] = {test: [] for m in chosen for test in m.tests}
            init = (folder / "teucer/__init__.py").read_text()
            if by := noticed(folder, "__init__.py", init, every, 3000):
                print(f"The tests fail without any change. Mend them first: {by}")
                return 2
            living, number = run_listed(folder, chosen), len(chosen)
            print(f"{number - living} of {number} killed")
            return int(living > 0)
        cover = Map(*args.kept)
        if not args.as_is:
            cover.make(folder, (args.map and args.names) or cover.missing())
        if args.map:
            return 0
        counts = [draw(folder, module, cover, args) for module in args.names]
    return int(sum(living for living, _ in counts) * 10 > sum(number for _, number in counts))


if __name__ == "__main__":
    sys.exit(main())

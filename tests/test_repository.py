"""Rules of the house that a machine can check: about files, not about what they compute."""

import ast
import functools
import graphlib
import importlib
import re
import subprocess
import tokenize
import tomllib
from pathlib import Path

import pytest

import teucer as jax
from teucer._core.provided import FIELDS, provided

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "teucer").rglob("*.py"))
# Beside golden data stands the program that made it, with other software: not a part of the suite.
OTHERS = sorted(
    path
    for folder in ("tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if not path.is_relative_to(ROOT / "tests" / "data")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

MAX_LINES = 500
MAX_FUNCTION_LINES = 60
CORE = ("_xla", "_base", "_core", "_lower", "_programs", "_transform")
MAX_READING_FILES, MAX_READING_LINES = 14, 3000
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
TABLE_SHARE = 0.5  # a module is a table if more than this share of its lines are module-level data; it may be longer


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(), filename=str(path))


def functions_of(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines_of(node):
    return node.end_lineno - node.lineno + 1


def docstring_lines(node):
    return lines_of(node.body[0]) if ast.get_docstring(node) is not None else 0


def offenders(paths, fault):
    """What fault(path) finds in each file where it finds something."""
    found = {str(path.relative_to(ROOT)): fault(path) for path in paths}
    return {name: what for name, what in found.items() if what}


def test_modules_say_their_subject_in_one_line():
    def fault(path):
        first, *rest = (ast.get_docstring(tree_of(path)) or "").splitlines() or [""]
        if not first:
            return "has no docstring"
        return "no empty line after the first line of the docstring" if rest and rest[0].strip() else None

    assert not offenders(MODULES, fault)


def test_modules_fit():
    def fault(path):
        code = sum(lines_of(node) for node in tree_of(path).body if isinstance(node, ast.FunctionDef | ast.ClassDef))
        total = len(path.read_text().splitlines())
        return total if total >= MAX_LINES and total - code <= TABLE_SHARE * total else None

    assert not offenders(MODULES, fault), (
        f"at {MAX_LINES} lines a module has more than one subject, unless it is a table"
    )


def test_functions_fit():
    def fault(path):
        lengths = {f.name: lines_of(f) - docstring_lines(f) for f in functions_of(tree_of(path))}
        return {name: length for name, length in lengths.items() if length >= MAX_FUNCTION_LINES}

    assert not offenders(MODULES, fault)


def lines_of_floor(floor):
    """Without what has a room of its own on the floor."""
    return sum(len(path.read_text().splitlines()) for path in (ROOT / "teucer" / floor).glob("*.py"))


def code_lines(path):
    """The number of lines that are neither empty, comments nor docstrings."""
    documented = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            documented.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    with tokenize.open(path) as file:
        lines = {line for token in tokenize.generate_tokens(file.readline) if token.type not in NO_CODE
                 for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - documented)


def test_the_core_is_read_in_an_afternoon():
    """docs/reading.md: what it numbers is short enough."""
    page = (ROOT / "docs" / "reading.md").read_text()
    path = [ROOT / "teucer" / name for name in re.findall(r"^\d+\. \[`([\w/.]+)`\]", page, re.M)]
    assert 10 <= len(path) <= MAX_READING_FILES
    assert sum(map(code_lines, path)) <= MAX_READING_LINES


def test_design_says_how_long_the_floors_are():
    said = re.findall(r"`(_\w+)` \((\d+)(?: lines)?\)", (ROOT / "docs" / "design.md").read_text())
    assert set(CORE) <= {floor for floor, _ in said}
    found = {floor: lines_of_floor(floor) for floor, _ in said}
    assert found == pytest.approx({floor: int(lines) for floor, lines in said}, rel=0.1)


def test_nothing_is_left_to_do():
    assert not offenders(MODULES, lambda path: re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b.*", path.read_text()))


def test_no_bare_except():
    def fault(path):
        handlers = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ExceptHandler)]
        return [handler.lineno for handler in handlers if handler.type is None]

    assert not offenders(MODULES, fault)


def test_jax_is_never_imported():
    def fault(path):
        names = []
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.append(node.module)
        return [name for name in names if name.split(".")[0] == "jax"]

    assert not offenders(MODULES + OTHERS, fault)


def test_imports_within_the_package_are_absolute():
    def fault(path):
        return [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom) and node.level]

    assert not offenders(MODULES, fault)


def name_of(path):
    """The name by which a file of the package is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def of_types(tree):
    """The nodes of imports that only type checkers see."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {node for block in blocks for node in ast.walk(block)}


def rooms_by_string(tree, names):
    """Modules that are named by strings: arguments of import_module, whole or by their beginning, and rooms wherever they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            written = ast.unparse(node.args[0]).strip("f'\"").split("{")
            found = [written[0]] if len(written) == 1 else [
                f"{written[0]}{text.value}" for text in ast.walk(tree) if isinstance(text, ast.Constant)]
            yield from names & set(found)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "._" in node.value:
            yield from names & {node.value}


def imports_of(path, names):
    """The modules of the package that a module imports, anywhere in it, by a statement or by a string."""
    tree = tree_of(path)
    found = set(rooms_by_string(tree, names))
    for node in set(ast.walk(tree)) - of_types(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            rooms = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= rooms & names if rooms <= names else rooms & names | {node.module}
    return found & names - {name_of(path)}


def circle_in(imports):
    """Modules each of which imports the next, and the last the first; None if there are none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as err:
        return err.args[1]
    return None


def test_no_circles_of_imports():
    names = {name_of(path) for path in MODULES}
    assert circle_in({name_of(path): imports_of(path, names) for path in MODULES}) is None


@pytest.mark.parametrize("text", [
    "import teucer.b", "from teucer import b", "from teucer.b import c", "def f():\n    from teucer import b",
    "importlib.import_module('teucer.b')", "importlib.import_module(f'teucer.{name}'); names = ['b']"])
def test_circles_are_found(tmp_path, text, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "teucer").mkdir()
    paths = [tmp_path / "teucer" / name for name in ("a.py", "b.py")]
    for path, content in zip(paths, (text, "from teucer.a import x"), strict=True):
        path.write_text(content)
    names = {name_of(path) for path in paths}
    assert set(circle_in({name_of(path): imports_of(path, names) for path in paths})) == names


def test_what_upper_floors_provide_is_there():
    importlib.import_module("teucer.random")  # which is loaded on first use
    missing = [name for name in FIELDS if not hasattr(provided, name)]
    assert FIELDS and not missing
    assert all(provided.buffers) and all(provided.loops()) and all(provided.references())
    with pytest.raises(AssertionError, match="zeros is filled already"):
        provided.fill(zeros=None)


def test_tests_do_not_sleep():
    def fault(path):
        called = [node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
        return [
            f.lineno for f in called if (f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", None)) == "sleep"
        ]

    assert not offenders([path for path in OTHERS if path.is_relative_to(ROOT / "tests")], fault)


def test_the_package_knows_its_version():
    assert jax.__version__ == PROJECT["version"]


def test_changelog_tells_of_the_version():
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_ci_runs_what_developers_run():
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "make" in line]
    assert commands == ["make test"]


@pytest.mark.parametrize("target", ["run", "test", "test-all", "test-matrix", "bench", "mutants", "lint", "format", "clean"])
def test_make_has_target(target):
    done = subprocess.run(
        ["make", "--dry-run", "--directory", ROOT, target], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_rules_call_primitives():
    """`bind` is what libraries call, which gives one result or a list; code of ours takes the tuple that `call` gives."""

    def fault(path):
        return [
            node.lineno
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Attribute)
            and node.attr == "bind"
            and not (isinstance(node.value, ast.Name) and node.value.id == "signature")
        ]

    assert not offenders(MODULES, fault), "use p.call(...), which gives a tuple"


PLATFORMS = {"cpu", "gpu", "cuda", "rocm", "tpu"}
# Where a platform is asked for by its name, and why; all else asks the target of the platform (`teucer/_targets/interface.py`).
ASKS_FOR_A_PLATFORM = {
    "teucer/_xla/": "platforms by their names: clients, plugins and options",
    "teucer/_devices/backends.py": "platforms by their names: which are started",
    "teucer/_targets/table.py": "it is what is asked",
}


# Numbers that are no compiler's: those of malloc, of Linux, and of XLA's protocol buffers.
NOT_TUNED = ("host_memory.py", "memory_maps.py", "stripped.py")


def test_tuned_constants_stand_in_one_file():
    def fault(path):
        if path.name in NOT_TUNED or path.name == "constants.py":
            return None
        values = [node.value for node in tree_of(path).body if isinstance(node, ast.Assign | ast.AnnAssign)]
        return [node.lineno for value in values for node in ast.walk(value)
                if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)]

    targets = [path for path in MODULES if path.is_relative_to(ROOT / "teucer" / "_targets")]
    assert targets and not offenders(targets, fault)


def test_nobody_but_targets_asks_for_a_platform():
    def names(node):
        items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
        return {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}

    def fault(path):
        if str(path.relative_to(ROOT)).startswith(tuple(ASKS_FOR_A_PLATFORM)):
            return None
        compared = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Compare)]
        return [node.lineno for node in compared
                if any(names(side) & PLATFORMS for side in (node.left, *node.comparators))]

    assert not offenders(MODULES, fault)

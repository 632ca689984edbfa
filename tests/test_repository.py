"""Rules that a machine can check: about files, not about what they compute."""

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

# Sizes are numbers of statements, so that they do not depend on how the formatter lays code out.
MAX_STATEMENTS = 400
MAX_FUNCTION_STATEMENTS = 60
CORE = ("_xla", "_base", "_core", "_lower", "_programs", "_transform")
MAX_READING_FILES, MAX_READING_STATEMENTS, MAX_READING_LINES = 14, 2200, 3000
# Code lines of the core layers, their folders included. It only goes down.
MAX_CORE_LINES = 10_480


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(), filename=str(path))


@pytest.fixture(scope="module", autouse=True)
def forget_trees():
    """The trees of all files are millions of objects, through which the collector would go."""
    yield
    tree_of.cache_clear()


def functions_of(tree):
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def offenders(paths, fault):
    """What fault(path) finds in each file where it finds something."""
    found = {str(path.relative_to(ROOT)): fault(path) for path in paths}
    return {name: what for name, what in found.items() if what}


def test_modules_say_their_subject_first():
    def fault(path):
        subject = (ast.get_docstring(tree_of(path)) or "").split("\n\n")[0].splitlines()
        if not subject:
            return "has no docstring"
        return "the subject takes more than two lines" if len(subject) > 2 else None

    assert not offenders(MODULES, fault)


@functools.cache
def statements_of(path):
    """The first lines of the statements of a file; a definition counts once for its header."""
    with tokenize.open(path) as file:
        ends = [
            t.start[0]
            for t in tokenize.generate_tokens(file.readline)
            if t.type == tokenize.NEWLINE
        ]
    docstrings = {
        node.body[0].end_lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and ast.get_docstring(node) is not None
    }
    return [line for line in ends if line not in docstrings]


def code_lines_of(path):
    """The lines of a file that hold code: no comments, docstrings or blank lines."""
    no_code = {
        getattr(tokenize, name)
        for name in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER", "ENCODING")
    }
    with path.open("rb") as file:
        code = {
            line
            for t in tokenize.tokenize(file.readline)
            if t.type not in no_code
            for line in range(t.start[0], t.end[0] + 1)
        }
    docstrings = [
        node.body[0]
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and ast.get_docstring(node) is not None
    ]
    return code.difference(*(range(d.lineno, d.end_lineno + 1) for d in docstrings))


def test_modules_fit():
    def fault(path):
        size = len(statements_of(path))
        return size if size >= MAX_STATEMENTS else None

    assert not offenders(MODULES, fault), (
        f"with {MAX_STATEMENTS} statements a module has more than one subject"
    )


def test_functions_fit():
    def fault(path):
        sizes = {
            f.name: sum(f.lineno <= line <= f.end_lineno for line in statements_of(path))
            for f in functions_of(tree_of(path))
        }
        return {name: size for name, size in sizes.items() if size >= MAX_FUNCTION_STATEMENTS}

    assert not offenders(MODULES, fault)


def size_of_layer(layer):
    """Without what has a package of its own in the layer."""
    return sum(len(statements_of(path)) for path in (ROOT / "teucer" / layer).glob("*.py"))


def test_the_core_is_read_in_an_afternoon():
    """docs/reading.md: what it numbers is short enough."""
    page = (ROOT / "docs" / "reading.md").read_text()
    path = [ROOT / "teucer" / name for name in re.findall(r"^\d+\. \[`([\w/.]+)`\]", page, re.M)]
    assert 10 <= len(path) <= MAX_READING_FILES
    assert sum(len(statements_of(p)) for p in path) <= MAX_READING_STATEMENTS
    assert sum(len(code_lines_of(p)) for p in path) <= MAX_READING_LINES


def test_the_core_layers_stay_small():
    """What few programs need stands beside the core, so it does not grow; docs/design.md says N."""
    size = sum(
        len(code_lines_of(p)) for layer in CORE for p in (ROOT / "teucer" / layer).rglob("*.py")
    )
    assert size <= MAX_CORE_LINES
    said = re.search(
        r"The core layers are ([\d ]+) lines", (ROOT / "docs" / "design.md").read_text()
    )
    assert int(said[1].replace(" ", "")) == pytest.approx(size, rel=0.02)


def test_design_says_how_long_the_layers_are():
    said = re.findall(
        r"`(_\w+)` \((\d+)(?: statements)?\)", (ROOT / "docs" / "design.md").read_text()
    )
    assert set(CORE) <= {layer for layer, _ in said}
    found = {layer: size_of_layer(layer) for layer, _ in said}
    assert found == pytest.approx({layer: int(lines) for layer, lines in said}, rel=0.1)


def test_nothing_is_left_to_do():
    assert not offenders(
        MODULES, lambda path: re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b.*", path.read_text())
    )


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

    # These are programs as users of libraries write them, which run on Teucer and on JAX alike.
    programs = ROOT / "benchmarks" / "whole_programs"
    assert not offenders([path for path in MODULES + OTHERS if path.parent != programs], fault)


def test_imports_within_the_package_are_absolute():
    def fault(path):
        return [
            node.lineno
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.ImportFrom) and node.level
        ]

    assert not offenders(MODULES, fault)


def name_of(path):
    """The name by which a file of the package is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def of_types(tree):
    """The nodes of imports that only type checkers see."""
    blocks = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {node for block in blocks for node in ast.walk(block)}


def modules_by_string(tree, names):
    """Modules that are named by strings: arguments of import_module, whole or by their beginning,
    and modules wherever they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            written = ast.unparse(node.args[0]).strip("f'\"").split("{")
            found = (
                [written[0]]
                if len(written) == 1
                else [
                    f"{written[0]}{text.value}"
                    for text in ast.walk(tree)
                    if isinstance(text, ast.Constant)
                ]
            )
            yield from names & set(found)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "._" in node.value:
            yield from names & {node.value}


def imports_of(path, names):
    """The modules of the package that a module imports, anywhere in it, by a statement or by a
    string."""
    tree = tree_of(path)
    found = set(modules_by_string(tree, names))
    for node in set(ast.walk(tree)) - of_types(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= modules & names if modules <= names else modules & names | {node.module}
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


@pytest.mark.parametrize(
    "text",
    [
        "import teucer.b",
        "from teucer import b",
        "from teucer.b import c",
        "def f():\n    from teucer import b",
        "importlib.import_module('teucer.b')",
        "importlib.import_module(f'teucer.{name}'); names = ['b']",
    ],
)
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
            f.lineno
            for f in called
            if (f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", None)) == "sleep"
        ]

    assert not offenders([path for path in OTHERS if path.is_relative_to(ROOT / "tests")], fault)


def test_the_package_knows_its_version():
    assert jax.__version__ == PROJECT["version"]


def test_changelog_tells_of_the_version():
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_ci_runs_what_developers_run():
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "make" in line]
    assert commands == ["make test", "make test-oldest", "make libraries ARGS=--small"]


@pytest.mark.parametrize(
    "target",
    [
        "run",
        "test",
        "test-oldest",
        "test-all",
        "test-matrix",
        "bench",
        "mutants",
        "lint",
        "format",
        "clean",
    ],
)
def test_make_has_target(target):
    done = subprocess.run(
        ["make", "--dry-run", "--directory", ROOT, target],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_rules_call_primitives():
    """`bind` is what libraries call, which gives one result or a list; code of ours takes the tuple
    that `call` gives."""

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
# Where a platform is asked for by its name, and why; all else asks the target of the platform
# (`teucer/_targets/interface.py`).
ASKS_FOR_A_PLATFORM = {
    "teucer/_xla/": "platforms by their names: clients, plugins and options",
    "teucer/_devices/backends.py": "platforms by their names: which are started",
    "teucer/_targets/table.py": "it is what is asked",
}


# Numbers that are no compiler's: those of malloc, of Linux, and of XLA's protocol buffers.
NOT_TUNED = ("host_memory.py", "memory_maps.py", "stripped.py", "topologies.py")


# Numbers of functions of targets that nobody can tune, and what they are.
NOT_FITTED = {
    "cpu/extremes.py": ({15, 16, 0x7FFF, 0x8000}, "bits of floats of 16 bits"),
    "cpu/faults.py": ({7}, "the axes from which a release of jaxlib has the fault"),
    "cpu/fourier.py": ({5, 6, 8, 52, 480}, "factors of fast lengths; bits of float64"),
    "cpu/products.py": ({16}, "bits of floats"),
    "cpu/radix.py": ({8, 31}, "bits of a byte; integers of 32 bits count elements"),
    "cpu/rates.py": ({1.5}, "numbers are rounded to 1, 1.5, 2 times a power of two"),
    "cpu/tuned.py": ({0o700}, "the mode of a folder"),
    "outlining/repeats.py": ({0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F}, "multipliers of a hash"),
}


def test_passes_have_no_fitted_numbers():
    """What a pass decides by stands in `constants`. Up to 4 a number may count axes."""
    targets, free = ROOT / "teucer" / "_targets", {}
    for path in targets.rglob("*.py"):
        if path.name in NOT_TUNED or path.name == "constants.py":
            continue
        numbers = {
            node.value
            for function in functions_of(tree_of(path))
            for node in ast.walk(function)
            if isinstance(node, ast.Constant)
            and type(node.value) in (int, float)
            and (node.value > 4 or node.value % 1)
        }
        if numbers:
            free[path.relative_to(targets).as_posix()] = numbers
    assert free == {name: numbers for name, (numbers, _) in NOT_FITTED.items()}


def test_tuned_constants_stand_in_one_file():
    def fault(path):
        if path.name in NOT_TUNED or path.name == "constants.py":
            return None
        values = [
            node.value
            for node in tree_of(path).body
            if isinstance(node, ast.Assign | ast.AnnAssign)
        ]
        return [
            node.lineno
            for value in values
            for node in ast.walk(value)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, int | float)
            and not isinstance(node.value, bool)
        ]

    targets = [path for path in MODULES if path.is_relative_to(ROOT / "teucer" / "_targets")]
    assert targets and not offenders(targets, fault)


# What compilers are asked has one place each; other modules import it.
ONE_PLACE = {
    "Target": "teucer/_targets/interface.py",
    "bytes_of": "teucer/_targets/outlining/bytes.py",
    "is_backward": "teucer/_derived/liveness.py",
}


def test_compilers_are_asked_in_one_place():
    made = ast.FunctionDef | ast.ClassDef
    found = [
        (node.name, str(path.relative_to(ROOT)))
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, made) and node.name in ONE_PLACE
    ]
    assert sorted(found) == sorted(ONE_PLACE.items())


def test_compiled_programs_have_one_reader():
    """What else reads them asks it: these words are in the text of every one that has a loop."""
    readers = [p for p in MODULES if re.search("ENTRY|known_trip_count", p.read_text())]
    assert [p.name for p in readers] == ["hlo_text.py"]


def test_nobody_but_targets_asks_for_a_platform():
    def names(node):
        items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
        return {
            item.value
            for item in items
            if isinstance(item, ast.Constant) and isinstance(item.value, str)
        }

    def fault(path):
        if str(path.relative_to(ROOT)).startswith(tuple(ASKS_FOR_A_PLATFORM)):
            return None
        compared = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Compare)]
        return [
            node.lineno
            for node in compared
            if any(names(side) & PLATFORMS for side in (node.left, *node.comparators))
        ]

    assert not offenders(MODULES, fault)


def test_what_libraries_ask_for_is_made_in_jax():
    """`core`, `api_util`, `extend` and `interpreters` hand names on, and define none."""
    public = [
        path
        for path in MODULES
        if path.relative_to(ROOT / "teucer").parts[0]
        in ("core.py", "api_util.py", "extend", "interpreters")
    ]
    made = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    assert len(public) > 20 and not offenders(
        public,
        lambda path: [n.name for n in ast.walk(tree_of(path)) if isinstance(n, made)],
    )


def test_private_modules_list_names_only_where_they_hand_them_on():
    """`lax` and `numpy` hand on what their modules list; others need an underscore alone."""

    def fault(path):
        parts = path.relative_to(ROOT / "teucer").parts
        private = any(part.startswith("_") and part != "__init__.py" for part in parts)
        if not private or parts[0] in ("lax", "numpy"):
            return None
        body = tree_of(path).body
        imported = {
            alias.asname or alias.name
            for node in body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        return [
            node.lineno
            for node in body
            if isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "__all__"
            and not imported.intersection(ast.literal_eval(node.value))
        ]

    assert not offenders(MODULES, fault)

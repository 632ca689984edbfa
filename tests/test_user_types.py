"""Type checkers accept what users write: the snippets of the documents, the examples, and programs
of JAX's users."""

import ast
import importlib.util
import json
import re
import runpy
import subprocess
import symtable
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What checkers say of programs without annotations, whatever library they use: of empty lists,
# of a name that is another function later, and of a rule that names its parameters (docs/rules.md).
OFF = ("var-annotated", "has-type", "no-redef", "override", "func-returns-value")
# Programs that are right, though checkers cannot see it.
NOT_SEEN = {
    "weak_types": "lambdas and functions of the library in one dict: together they are objects",
    "pytrees": "two classes of one name",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = [
    path
    for folder in ("examples", "tests/programs", "tests/typing")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.stem not in NOT_SEEN
]


def of_teucer(text):
    """A program for JAX as one for Teucer: type checkers do not run `import jax`."""
    text = re.sub(r"^( *)import jax(?: as jax)?$", r"\1import teucer as jax", text, flags=re.M)
    text = re.sub(r"^( *)(import|from) jax\.", r"\1\2 teucer.", text, flags=re.M)
    return re.sub(r"^( *)from jax import", r"\1from teucer import", text, flags=re.M)


def parts(page):
    """The snippets of a page as modules: a new one begins where a function or class is defined
    anew, and imports all else from that before it."""
    found, known = [""], set()
    for text in SNIPPET.findall(page.read_text()):
        defined = {n.name for n in ast.parse(text).body if hasattr(n, "name")}
        if defined & known:
            found.append("")
            known = set()
        found[-1] += text + "\n"
        known |= defined
    return [text for text in found if text]


def bound(text):
    """The names that a module binds."""
    symbols = symtable.symtable(text, "", "exec").get_symbols()
    return {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}


@pytest.mark.slow
def test_type_checkers_accept_the_programs_of_users(tmp_path):
    for page in PAGES:
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        known = set()
        for i, text in enumerate(parts(page)):
            old = sorted(known - {n.name for n in ast.parse(text).body if hasattr(n, "name")})
            before = f"from {name}_{i - 1} import {', '.join(old)}\n" if old else ""
            known |= bound(before + text)
            exported = f"\n__all__ = {sorted(known)}\n"
            (tmp_path / f"{name}_{i}.py").write_text(of_teucer(before + text) + exported)
    for program in PROGRAMS:
        name = re.sub(r"\W", "_", str(program.relative_to(ROOT).with_suffix("")))
        (tmp_path / f"{name}.py").write_text(of_teucer(program.read_text()))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", "/dev/null"),
            *("--cache-dir", str(ROOT / ".mypy_cache" / "users"), "--no-error-summary"),
            *(
                "--check-untyped-defs",
                "--no-implicit-reexport",
                "--ignore-missing-imports",
                "--follow-imports",
                "silent",
            ),
            *("--allow-redefinition", "--python-version", "3.11"),
            *(f"--disable-error-code={code}" for code in OFF),
            *sorted(str(path) for path in tmp_path.glob("*.py")),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert not done.stdout, done.stdout
    assert done.returncode == 0, done.stderr


def test_faces_whose_names_are_loaded_on_first_use_have_stubs():
    """Without one type checkers know nothing of a name that the public module hands on."""
    packages = [
        path
        for path in (ROOT / "teucer").rglob("*.py")
        if re.search(r"^__getattr__, __dir__, .*lazy_module\(", path.read_text(), re.MULTILINE)
    ]
    assert len(packages) > 10
    assert [path for path in packages if not path.with_suffix(".pyi").exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "typing").glob("*.py")), ids=str)
def test_programs_with_annotations_run(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_faces_export_to_type_checkers_what_they_import():
    """In a package with types, `from a import b` is private to checkers but for `__all__`, or
    `b as b`."""
    hidden = {}
    for path in (ROOT / "teucer").rglob("*.py"):
        inner = any(part[0] == "_" and part != "__init__.py" for part in path.parts[-4:])
        if inner or {"cli", "compat"} & set(path.parts) or path.with_suffix(".pyi").exists():
            continue
        body = ast.parse(path.read_text()).body
        if any(
            isinstance(n, ast.Assign | ast.AnnAssign)
            and "__all__" in ast.unparse(n.targets[0] if isinstance(n, ast.Assign) else n.target)
            for n in body
        ):
            continue
        plain = {
            alias.name
            for node in body
            if isinstance(node, ast.ImportFrom) and node.module != "__future__"
            for alias in node.names
            if alias.asname is None and alias.name not in ("Any", "listing")
        }
        if plain:
            hidden[str(path.relative_to(ROOT))] = sorted(plain)
    assert hidden == {}


TYPED = ROOT / "tests" / "typing" / "signatures.py"


@pytest.mark.slow
def test_pyright_sees_the_signatures_of_transformed_functions(tmp_path):
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed: pip install teucer[editors]")
    (tmp_path / "program.py").write_text(TYPED.read_text())
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(ROOT)], "pythonVersion": "3.11", "include": ["program.py"]})
    )
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("jax.jit(abs).", {"lower", "trace", "eval_shape", "clear_cache"}),
        ("jax.jit(abs).lower(1.0).", {"compile", "as_text", "cost_analysis"}),
        ("jax.jit(abs).trace(1.0).", {"jaxpr", "lower"}),
        ("jax.custom_vjp(abs).", {"defvjp"}),
        ("jax.custom_jvp(abs).", {"defjvp", "defjvps"}),
        ("jnp.zeros(3).", {"shape", "at", "sum", "dtype"}),
        ("jnp.sin(1.0).", {"shape", "at", "sum", "dtype"}),
    ],
)
def test_jedi_completes_attributes(text, names):
    jedi = pytest.importorskip("jedi", reason="pip install teucer[editors]")
    program = f"import teucer as jax\nimport teucer.numpy as jnp\n{text}"
    script = jedi.Script(program, project=jedi.Project(str(ROOT)))
    found = {c.name for c in script.complete(3, len(text))}
    assert names <= found

"""Modules ask one another only for names that they have.

`module.name` in the source, which mypy checks for lower layers only.
"""

import ast
import importlib
import types
from pathlib import Path

import teucer

ROOT = Path(teucer.__file__).parent
# What a module gives only where another package is installed.
ELSEWHERE = {"tensorstore_impl.TS_CONTEXT"}


def modules_of(tree):
    """Name -> module of ours, for the imports of a file."""
    found = {}
    for node in ast.walk(tree):
        # The alias of jax is loaded on demand.
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("teucer")
            and "compat" not in node.module
        ):
            for alias in node.names:
                if alias.name == "compat":
                    continue
                try:
                    module = importlib.import_module(node.module)
                    value = getattr(module, alias.name, None)
                    if value is None:
                        value = importlib.import_module(f"{node.module}.{alias.name}")
                except ImportError:  # a type, for checkers only
                    continue
                if isinstance(value, types.ModuleType):
                    found[alias.asname or alias.name] = value
    return found


def lacking(path):
    tree = ast.parse(path.read_text())
    modules = modules_of(tree)
    own = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name, module = f"{node.value.id}.{node.attr}", modules.get(node.value.id)
            if (
                module is not None
                and node.value.id not in own
                and name not in ELSEWHERE
                and not hasattr(module, node.attr)
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"


def test_names_of_modules_exist():
    # The alias of jax is of names of JAX; jax2tf needs TensorFlow.
    files = [
        path for path in sorted(ROOT.rglob("*.py")) if not {"compat", "jax2tf"} & set(path.parts)
    ]
    assert [line for path in files for line in lacking(path)] == []

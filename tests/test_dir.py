"""`dir()` of a public module, and so completion in editors, shows its public names and no
others."""

import importlib
import json
import re
import sys
from pathlib import Path

import teucer
from teucer._experimental.unbuilt import _Unbuilt

INTERNALS = {"Any", "annotations", "functools", "jnp", "np"}
INVENTORY = json.loads((Path(__file__).parent / "data" / "api_names.json").read_text())


def public_modules():
    root = Path(teucer.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        # The command line and the alias of jax are no modules for users; jax2tf needs TensorFlow.
        if not any(p.startswith("_") or p in ("cli", "compat", "jax2tf") for p in parts):
            yield ".".join(["teucer", *parts])


def submodules(module):
    return {
        name
        for name in vars(module)
        if sys.modules.get(f"{module.__spec__.name}.{name}") is getattr(module, name)
    }


def shown(module):
    return {name for name in dir(module) if not name.startswith("_")}


def has(module, name):
    try:
        getattr(module, name)
    except (AttributeError, ImportError):
        return False
    return True


def test_modules_show_what_they_declare():
    wrong = {}
    for name in public_modules():
        module = importlib.import_module(name)
        # A public module without `__all__` only hands on: nothing in it is its own.
        declared = {n for n in getattr(module, "__all__", vars(module)) if not n.startswith("_")}
        # Names that are not built are found by a table of their own.
        declared |= {n for n in shown(module) - declared if type(getattr(module, n)) is _Unbuilt}
        wrong[name] = (shown(module) - submodules(module)) ^ (
            declared - submodules(module)
        ) | shown(module) & INTERNALS
    assert {name: names for name, names in wrong.items() if names} == {}


def test_modules_show_what_jax_has():
    lacking = {}
    for path, names in INVENTORY.items():
        try:
            module = importlib.import_module(re.sub("^jax", "teucer", path))
        except ImportError:  # an object, or excepted
            continue
        lacking[path] = {
            n for n in names if re.fullmatch("[A-Za-z]\\w*", n) and has(module, n)
        } - shown(module)
    assert {path: names for path, names in lacking.items() if names} == {}


def test_modules_show_what_python_needs():
    assert {"__doc__", "__name__", "__all__"} <= set(dir(teucer.numpy))

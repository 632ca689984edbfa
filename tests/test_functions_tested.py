"""Which documented functions of the libraries no test names.

A function is named by a row of a table, or by a call.
"""

import importlib
import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LIBRARIES = ("jax.lax", "jax.numpy", "jax.nn", "jax.scipy", "jax.random", "jax.ops", "jax.image")
# Another name of a function that a test names needs none of its own.
NAMED = re.compile(r"""[."' ]([A-Za-z_]\w*)(?=["'(),: \].]|$)""", re.MULTILINE)


def functions():
    """(module, name) of the functions that the inventory of JAX's names documents."""
    inventory = json.loads((TESTS / "data" / "api_names.json").read_text())
    for module, names in inventory.items():
        for name, (kind, _, documented, _) in names.items():
            if (
                module.startswith(LIBRARIES)
                and kind in ("function", "ufunc")
                and documented
                and "." not in name
            ):
                yield module.replace("jax", "teucer", 1), name


@pytest.fixture(scope="module")
def named():
    texts = [
        path.read_text() for path in TESTS.rglob("*.py") if path.name != "test_functions_tested.py"
    ]
    return set().union(*(NAMED.findall(text) for text in texts))


def test_every_function_is_named_by_a_test(named):
    places = [(importlib.import_module(module), module, name) for module, name in functions()]
    found = {
        (module, name): getattr(place, name)
        for place, module, name in places
        if hasattr(place, name)
    }
    tested = {id(f) for (_, name), f in found.items() if name in named}
    assert [f"{module}.{name}" for (module, name), f in found.items() if id(f) not in tested] == []

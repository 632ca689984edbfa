"""Every documented name of JAX exists, takes what JAX documents, or is a named exception."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parent.parent / "tools" / "api_coverage.py"
SPEC = importlib.util.spec_from_file_location("api_coverage", PATH)
coverage = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = coverage
SPEC.loader.exec_module(coverage)

# Members of classes count where they are documented: others are what JAX's own code asks of its
# objects.
NAMES = [name for name in coverage.inventory() if name.documented or "." not in name.name]


@pytest.fixture(scope="module")
def reports():
    return list(coverage.reports(NAMES))


def test_names_exist(reports):
    assert [r.name.path for r in reports if r.missing and not r.excepted] == []


def test_signatures_take_what_is_documented(reports):
    assert {
        r.name.path: r.differences
        for r in reports
        if r.differences and not r.excepted and r.name.documented
    } == {}


def test_exceptions_are_needed(reports):
    patterns = {p: why for p, why in coverage.exceptions().items() if not why.startswith("issue ")}
    needed = {coverage.reason(r.name.path, patterns) for r in reports if r.missing or r.differences}
    assert all(patterns.values())
    assert {p for p, why in patterns.items() if why not in needed} == set()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("()", {}),
        ("(x, /, *, axis=None)", {"x": ("/", ""), "axis": ("*", "None")}),
        (
            "(f, *args, key=(1, 2), **kw)",
            {"f": ("", ""), "args": ("*args", ""), "key": ("*", "(1, 2)"), "kw": ("**kwargs", "")},
        ),
    ],
)
def test_signatures_are_read(text, expected):
    assert coverage.parameters(text) == expected


@pytest.mark.parametrize(
    "signature, function, expected",
    [
        ("(x, axis=None)", lambda x, axis=None, more=1: 0, []),
        ("(x, axis=None)", lambda y, axis=None: 0, ["x is not at place 0", "requires y"]),
        ("(x, /)", lambda y: 0, []),
        ("(x, /, *, axis=None)", lambda x, axis: 0, ["axis has no default"]),
        ("(x, *, axis=None)", lambda x: 0, ["no keyword axis"]),
        ("(x, n=1)", lambda x, n=2: 0, ["n=2, not 1"]),
        ("(x)", lambda x, n: 0, ["requires n"]),
    ],
)
def test_differences_of_signatures_are_found(signature, function, expected):
    name = coverage.Name("jax", "f", "function", 1, True, signature)
    assert coverage.differences(name, function) == expected

"""What type checkers and editors are told of the library."""

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Functions of trees, whose results are trees like these; of dtypes; those whose number of results
# depends on values.
SAYS_ANY = {
    "teucer.numpy": {
        "isneginf",
        "isposinf",
        "where",
        "fromfile",
        "fromiter",
        "finfo",
        "iinfo",
        "promote_types",
        "result_type",
        "vectorize",
        "unique",
    },
    "teucer.numpy.linalg": {"cond", "qr", "svd"},
    "teucer.numpy.fft": set(),
    "teucer.random": {"key_dtype", "key_impl"},
    "teucer.nn": {"log_softmax", "softmax", "standardize"},
    "teucer.ops": set(),
    "teucer.image": set(),
    "teucer.lax": {
        "psum_scatter_start",
        "dtype",
        "shape_as_value",
        "reduce",
        "eq",
        "ge",
        "gt",
        "le",
        "lt",
        "ne",
        "bessel_i1e",
        "digamma",
        "polygamma",
        "zeta",
        "cond",
        "switch",
        "fori_loop",
        "while_loop",
        "associative_scan",
        "map",
        "optimization_barrier",
        "platform_dependent",
        "custom_linear_solve",
        "custom_root",
        "reduce_window",
        "with_sharding_constraint",
        "rng_bit_generator",
        "pmax",
        "pmean",
        "pmin",
        "psum",
        "pbroadcast",
        "pcast",
        "all_gather",
        "all_to_all",
        "ppermute",
        "precv",
        "psend",
        "pshuffle",
        "psum_scatter",
        "pswapaxes",
    },
}

CORE = ("_core", "_transform", "_programs", "_lower", "_optimize")
# Parameters of these layers that may be anything: how many in which file, and why.
UNTYPED = {
    "_core/calls.py": (2, "what users pass, which is checked there"),
    "_core/dialects.py": (2, "padded sizes, defined on a layer above; keys of a dict"),
    "_core/high.py": (1, "values of libraries' types: only their class knows their members"),
    "_core/jaxpr.py": (3, "fields by name, options of the printer"),
    "_core/reference_types.py": (2, "fields by name, a reference of a library's type"),
    "_core/stage.py": (1, "narrowed by the class of the value, which type checkers do not follow"),
    "_core/stand_ins.py": (1, "objects of users' classes"),
    "_core/structure.py": (11, "values of any interpreter, or parameters of any primitive"),
    "_core/types.py": (1, "what is said of manual axes, defined on a layer above"),
    "_lower/context.py": (1, "constants with hooks of their own"),
    "_lower/hlo.py": (1, "sizes of either kind"),
    "_lower/module.py": (1, "meshes of either kind"),
    "_lower/text.py": (1, "scalars of NumPy"),
    "_optimize/passes.py": (2, "scalars of NumPy"),
    "_optimize/structure.py": (1, "parameters of any primitive"),
    "_programs/run.py": (1, "arrays of XLA, whose classes are untyped"),
    "_transform/jit_calls.py": (1, "padded sizes"),
    "_transform/jit_options.py": (1, "what users pass, which is checked there"),
    "_transform/transpose.py": (2, "cotangents, accumulators and references by variable"),
    "_transform/vmap.py": (2, "an axis, or the specification of a library's type"),
}


def test_functions_say_what_they_return():
    for name, excepted in SAYS_ANY.items():
        module = importlib.import_module(name)
        functions = {
            n: inspect.unwrap(getattr(module, n))
            for n in getattr(module, "__all__", dir(module))
            if n[0] != "_"
        }
        any_ = {
            n
            for n, f in functions.items()
            if inspect.isfunction(f)
            and f.__module__.startswith("teucer")
            and f.__annotations__.get("return") == "Any"
        }
        tables = {
            n for n in any_ if functions[n].__code__.co_name != n
        }  # their type is that of the table
        assert any_ - tables <= excepted, name


# Modules of functions of arrays.
NUMERICAL = (
    *SAYS_ANY,
    "teucer.lax.linalg",
    "teucer.nn.initializers",
    "teucer.scipy.cluster.vq",
    "teucer.scipy.fft",
    "teucer.scipy.integrate",
    "teucer.scipy.interpolate",
    "teucer.scipy.linalg",
    "teucer.scipy.ndimage",
    "teucer.scipy.optimize",
    "teucer.scipy.signal",
    "teucer.scipy.special",
    "teucer.scipy.stats",
    "teucer.experimental.ode",
    "teucer.experimental.rnn",
    "teucer.experimental.pallas",
)


@pytest.mark.parametrize("name", NUMERICAL)
def test_functions_take_arrays_of_numpy_and_numbers(name):
    """A parameter that is an `Array` to type checkers refuses arrays of NumPy, which it takes."""
    module = importlib.import_module(name)
    narrow = {
        f"{n}({parameter})"
        for n in getattr(module, "__all__", dir(module))
        if inspect.isfunction(f := inspect.unwrap(getattr(module, n)))
        and f.__module__.startswith("teucer")
        for parameter, said in f.__annotations__.items()
        if parameter != "return"
        and (parameter != "key" or "random" not in f.__module__)
        and re.search(r"\bArrays?\b", re.sub(r"Callable\[.*?\]", "", str(said)))
        and not re.search(r"\b(ArrayLike|HostArray)\b", str(said))
    }
    assert not narrow


@pytest.mark.parametrize("name", NUMERICAL)
def test_no_function_returns_an_object(name):
    """Type checkers let nobody do anything with it."""
    module = importlib.import_module(name)
    functions = [inspect.unwrap(getattr(module, n)) for n in getattr(module, "__all__", ())]
    assert [
        f.__name__
        for f in functions
        if inspect.isfunction(f) and re.search(r"\bobject\b", f.__annotations__.get("return") or "")
    ] == []


def test_stubs_are_fresh():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "stubs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def signatures():
    """The functions whose types stand in stubs of their own: the definitions there, and the
    function."""
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "tools" / "stubs.py")
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    for public, (stub, names) in stubs.SIGNATURES.items():
        tree = ast.parse((ROOT / stub.replace(".", "/")).with_suffix(".pyi").read_text())
        for item in names.split():
            name, _, other = item.partition("=")
            functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
            for definition in [f for f in functions if f.name == (other or name)]:
                yield definition, getattr(importlib.import_module(public), name)


def test_signatures_for_checkers_are_those_of_the_functions():
    said = list(signatures())
    assert len(said) > 20
    for definition, function in said:
        stated, own = definition.args, inspect.signature(function).parameters.values()
        if any(p.kind is p.VAR_POSITIONAL for p in own) and stated.vararg is None:
            continue  # an overload for so many arguments
        kinds = {"positional": [], "keyword": []}
        for p in own:
            kinds["keyword" if p.kind is p.KEYWORD_ONLY else "positional"].append(p.name)
        several = [a.arg for a in (stated.vararg, stated.kwarg) if a]
        positional = [a.arg for a in (*stated.posonlyargs, *stated.args)] + several
        keyword = [a.arg for a in stated.kwonlyargs]
        # An overload may ask for an option by name.
        assert [*positional, *keyword] == [*kinds["positional"], *kinds["keyword"]], definition.name
        assert positional == kinds["positional"][: len(positional)], definition.name
        first = inspect.getdoc(function).split("\n\n")[0]
        assert ast.get_docstring(definition).split() == first.split(), definition.name


def parameters(path):
    """The annotations of all parameters of functions in a file, but for `self` and `cls`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a = node.args
            for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))):
                if arg.arg not in ("self", "cls"):
                    yield arg.annotation


def says_any(annotation):
    return annotation is None or any(
        isinstance(n, ast.Name) and n.id == "Any" for n in ast.walk(annotation)
    )


def share_of_any(paths):
    """How many parameters say `Any`, among how many."""
    found = [says_any(annotation) for path in paths for annotation in parameters(path)]
    return sum(found) / len(found)


def test_parameters_of_the_core_say_what_they_take():
    """`Any` is forbidden on these layers, but in the files listed, each as often as it is listed
    and with its reason."""
    paths = [path for layer in CORE for path in sorted((ROOT / "teucer" / layer).rglob("*.py"))]
    counts = {
        str(path.relative_to(ROOT / "teucer")): sum(map(says_any, parameters(path)))
        for path in paths
    }
    assert {name: n for name, n in counts.items() if n} == {
        name: n for name, (n, _) in UNTYPED.items()
    }
    assert all(reason for _, reason in UNTYPED.values())
    assert share_of_any(paths) < 0.03


# The share of parameters that may say `Any` in the other modules. It only goes down.
MOST_ANY = {
    "lax": 0.13,
    "numpy": 0.22,
    "scipy": 0.12,
    "random": 0.2,
    "nn": 0.17,
    "image": 0.2,
    "ops": 0.08,
    "_sharding": 0.05,
    "experimental": 0.26,
    "_experimental": 0.23,
    "_hijax": 0.35,
    "_pallas": 0.18,
    "_serialization": 0.13,
    "_sparse": 0.27,
    "_jax": 0.22,
    "compat": 0.05,
    "debug": 0.1,
    "_arrays": 0.05,
    "_derived": 0.05,
    "_devices": 0.17,
    "_dynamic": 0.27,
    "_executables": 0.16,
    "_export": 0.09,
    "_targets": 0.02,
    "_trees": 0.15,
}


@pytest.mark.parametrize("module", MOST_ANY)
def test_most_parameters_say_what_they_take(module):
    assert share_of_any(sorted((ROOT / "teucer" / module).rglob("*.py"))) < MOST_ANY[module]

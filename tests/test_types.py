"""What type checkers and editors are told of the library."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Functions of trees, whose results are trees like these; of dtypes; those whose number of results depends on values.
SAYS_ANY = {
    "teucer.numpy": {"isneginf", "isposinf", "where", "fromfile", "fromiter", "finfo", "iinfo", "promote_types", "result_type",
                     "vectorize", "unique"},
    "teucer.numpy.linalg": {"cond", "qr", "svd"},
    "teucer.numpy.fft": set(),
    "teucer.random": {"key_dtype", "key_impl"},
    "teucer.nn": {"log_softmax", "softmax", "standardize"},
    "teucer.ops": set(),
    "teucer.image": set(),
    "teucer.lax": {
        "dtype", "shape_as_value", "reduce", "eq", "ge", "gt", "le", "lt", "ne", "bessel_i1e", "digamma", "polygamma", "zeta",
        "cond", "switch", "fori_loop", "while_loop", "associative_scan", "map", "optimization_barrier", "platform_dependent",
        "custom_linear_solve", "custom_root", "reduce_window", "with_sharding_constraint", "rng_bit_generator", "pmax", "pmean",
        "pmin", "psum", "pbroadcast", "pcast", "all_gather", "all_to_all", "ppermute", "pshuffle", "psum_scatter", "pswapaxes"},
}


def test_functions_say_what_they_return():
    for name, excepted in SAYS_ANY.items():
        module = importlib.import_module(name)
        functions = {n: inspect.unwrap(getattr(module, n)) for n in getattr(module, "__all__", dir(module)) if n[0] != "_"}
        any_ = {n for n, f in functions.items()
                if inspect.isfunction(f) and f.__module__.startswith("teucer") and f.__annotations__.get("return") == "Any"}
        tables = {n for n in any_ if functions[n].__code__.co_name != n}  # their type is that of the table
        assert any_ - tables <= excepted, name


def test_stubs_are_fresh():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "stubs.py"), "--check"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

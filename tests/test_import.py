"""What `import teucer` loads: time that every process of a user spends."""

import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import export
from teucer.experimental.serialize_executable import serialize

# Each takes 2 to 15 ms, or seconds, and is loaded by those who need it.
DEAR = (
    "asyncio",
    "concurrent.futures",
    "difflib",
    "hashlib",
    "json",
    "multiprocessing",
    "numpy.ma",
    "scipy",
    "tempfile",
    "unittest",
)
# Modules that few programs need, or none before it runs something. All modules that are loaded, and
# folders.
RARE = (
    "_derived.exchange",
    "_executables.differences",
    "_executables.explanations",
    "_lower.spmd",
    "_targets.cpu",
    "_targets.gpu",
    "_targets.outlining",
    "_targets.tpu",
    "_xla.platforms",
    "lax._collectives",
    "lax._control",
    "_derived.jit_sized",
    "lax._references",
    "lax._sharding",
    "numpy._references",
    "_sharding",
    "sharding",
)
MOST_MODULES = 199  # of half a millisecond at most each


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    ).stdout


def test_modules_of_others_are_not_loaded():
    assert (
        run(
            f"import jaxlib._jax, sys, teucer, teucer.numpy; print([m for m in {DEAR} if m in "
            "sys.modules])"
        )
        == "[]\n"
    )


def test_modules_that_few_need_are_not_loaded():
    loaded = run(
        "import sys, teucer; print(*[m for m in sys.modules if m.startswith('teucer.')])"
    ).split()
    assert [m for m in loaded if m.removeprefix("teucer.").startswith(RARE)] == []
    assert len(loaded) <= MOST_MODULES


def test_small_programs_load_nothing_of_outlining():
    code = """
import sys, teucer as jax, teucer.numpy as jnp
jax.jit(lambda x: jnp.sin(x) + 1)(1.0)
modules = "outline", "pieces", "products", "convolutions"
print(*[m for m in sys.modules if m.startswith("teucer._targets.") and m.endswith(modules)])
"""
    assert run(code) == "\n"


def test_networks_load_no_loops_and_no_special_functions():
    """What the first trace of a program loads is time until it is ready: 12 ms here. JAX's modules
    are loaded by `import jax`."""
    code = """
import sys, teucer as jax, teucer.numpy as jnp
def loss(w, x):
    x = jax.nn.softplus(jax.nn.relu(x @ w))
    return jnp.maximum(x, 0.1).mean() + jnp.add(x, 1).max() + jnp.logaddexp(x, 0).sum()
jax.jit(jax.grad(loss)).trace(jnp.ones((3, 3)), jnp.ones((2, 3)))
modules = "lax._control", "lax._functions", "numpy._vectorize"
print(*[m for m in modules if f"teucer.{m}" in sys.modules], "fractions" in sys.modules)
"""
    assert run(code) == "False\n"


def test_writing_to_the_cache_loads_no_compressors(tmp_path):
    code = f"""
import sys, teucer as jax, teucer.numpy as jnp
from pathlib import Path
jax.config.update("teucer_cache_dir", {str(tmp_path)!r})
jax.jit(lambda x: jnp.sin(x) + 1)(1.0)
print(*[m for m in ("tempfile", "lzma", "bz2") if m in sys.modules])
print(len([*Path({str(tmp_path)!r}).rglob("*.xla")]) > 0)
"""
    assert run(code) == "\nTrue\n"


def test_methods_of_references_come_with_the_first():
    code = """
import teucer as jax
@jax.jit
def f(x):
    ref = jax.new_ref(x)
    ref[...] += 1
    ref.addupdate(x)
    return ref[...]
print(f(2.0), hasattr(jax.new_ref(1.0), "at"))
"""
    assert run(code) == "5.0 True\n"


def test_cycles_are_looked_for_rarely_meanwhile():
    code = """
import gc
before, searches = gc.get_threshold(), []
gc.callbacks.append(lambda phase, info: searches.append(phase))
import teucer
print(searches.count("start") < 20, gc.get_threshold() == before)
"""
    assert run(code) == "True True\n"


def test_scipy_is_loaded_by_programs_that_call_lapack():
    code = """
import sys, teucer as jax, teucer.numpy as jnp
x = jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((3, 3)))
print("scipy" in sys.modules)
print(float(jnp.linalg.cholesky(jnp.eye(5) * 4)[0, 0]), "scipy" in sys.modules)
"""
    assert run(code) == "False\n2.0 True\n"


LAPACK = "float(jnp.linalg.cholesky(jnp.eye(5) * 4)[0, 0])"
SCIPY = (
    "scipy.linalg.cython_blas is sys.modules['scipy.linalg.cython_blas'], scipy.linalg.solve(2 * "
    "np.eye(2), np.ones(2))"
)


def test_lapack_does_not_load_the_package_around_it():
    assert (
        run(f"import sys, teucer.numpy as jnp; print({LAPACK}, 'scipy.linalg' in sys.modules)")
        == "2.0 False\n"
    )


@pytest.mark.parametrize(
    "before", ["pass", "import scipy.linalg", "import scipy.linalg.cython_lapack, scipy.special"]
)
def test_scipy_is_whole_after_lapack_was_loaded(before):
    code = f"""
{before}
import numpy as np, sys, teucer.numpy as jnp
print({LAPACK})
import scipy.linalg.cython_blas, scipy.linalg.cython_lapack, scipy.optimize
print({SCIPY}, scipy.linalg.cython_lapack.__name__)
"""
    assert run(code) == "2.0\nTrue [0.5 0.5] scipy.linalg.cython_lapack\n"


def test_threads_that_load_lapack_and_scipy_at_once():
    code = f"""
import sys, threading, numpy as np, teucer.numpy as jnp
sys.setswitchinterval(1e-6)
jnp.ones(3)
results, start = [], threading.Barrier(4)
def lapack():
    start.wait()
    results.append({LAPACK})
def scipy():
    start.wait()
    import scipy.linalg.cython_blas
    results.append(float(scipy.linalg.solve(2 * np.eye(1), np.ones(1))[0]))
threads = [threading.Thread(target=f) for f in (lapack, scipy, lapack, scipy)]
for t in threads:
    t.start()
for t in threads:
    t.join()
import scipy.linalg.cython_blas
print(sorted(results), {SCIPY})
"""
    assert run(code) == "[0.5, 0.5, 2.0, 2.0] True [0.5 0.5]\n"


def test_lapack_of_a_scipy_that_lies_elsewhere():
    code = f"""
import scipy, sys, teucer.numpy as jnp
scipy.__path__, there = ["/nowhere"], scipy.__path__
class Finder:
    def find_spec(name, path, target=None):
        if path == ["/nowhere"]:
            return importlib.machinery.PathFinder.find_spec(name, there)
import importlib.machinery
sys.meta_path.append(Finder)
print({LAPACK}, 'scipy.linalg' in sys.modules)
"""
    assert run(code) == "2.0 True\n"


@pytest.mark.parametrize("form", ["exported", "executable"])
def test_lapack_in_programs_that_were_not_lowered_here(tmp_path, form):
    f, a = (
        jax.jit(lambda a: jnp.linalg.cholesky(a) + jnp.linalg.eigvalsh(a)[0]),
        np.eye(3, dtype=np.float32) * 4,
    )
    if form == "exported":
        data, load = export.export(f)(a).serialize(), "teucer.export.deserialize(data).call"
    else:
        data, *trees = serialize(f.lower(a).compile())
        assert trees
        load = "teucer.experimental.serialize_executable.deserialize_and_load(data, None, None)"
    (tmp_path / "program").write_bytes(data)
    code = f"""
import pathlib, numpy, teucer, teucer.export, teucer.experimental.serialize_executable
data = pathlib.Path({str(tmp_path / "program")!r}).read_bytes()
print(numpy.asarray({load}(numpy.eye(3, dtype="f") * 4))[0, :2])
"""
    assert run(code) == "[6. 4.]\n"

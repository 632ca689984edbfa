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
DEAR = ("asyncio", "concurrent.futures", "difflib", "multiprocessing", "numpy.ma", "scipy", "tempfile", "unittest")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout


def test_modules_that_few_need_are_not_loaded():
    assert run(f"import jaxlib._jax, sys, teucer, teucer.numpy; print([m for m in {DEAR} if m in sys.modules])") == "[]\n"


def test_scipy_is_loaded_by_programs_that_call_lapack():
    code = """
import sys, teucer as jax, teucer.numpy as jnp
x = jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((3, 3)))
print("scipy" in sys.modules)
print(float(jnp.linalg.cholesky(jnp.eye(3) * 4)[0, 0]), "scipy" in sys.modules)
"""
    assert run(code) == "False\n2.0 True\n"


@pytest.mark.parametrize("form", ["exported", "executable"])
def test_lapack_in_programs_that_were_not_lowered_here(tmp_path, form):
    f, a = jax.jit(lambda a: jnp.linalg.cholesky(a) + jnp.linalg.eigvalsh(a)[0]), np.eye(3, dtype=np.float32) * 4
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

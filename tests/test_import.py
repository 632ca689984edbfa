"""What `import teucer` loads: time that every process of a user spends."""

import subprocess
import sys

# Each takes 2 to 15 ms, or seconds, and is loaded by those who need it.
DEAR = ("asyncio", "concurrent.futures", "difflib", "multiprocessing", "numpy.ma", "scipy", "tempfile", "unittest")


def test_modules_that_few_need_are_not_loaded():
    code = f"import jaxlib._jax, sys, teucer, teucer.numpy; print([m for m in {DEAR} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

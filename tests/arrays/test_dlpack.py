"""Arrays that another library holds by DLPack: they outlive the array, whatever ends it, and keys have no such form."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

ENDS = {
    "delete": "x.delete()",
    "drop": "del x",
    "donate": "jax.jit(lambda a: a + 1, donate_argnums=0)(x)",
    "donate in pieces": "f, g = jax.jit(lambda a: jnp.sin(a) + 1, outline=True), jax.jit(lambda a: a * 2, outline=True)\n"
                        "jax.jit(lambda a: f(g(a)), donate_argnums=0, outline=True)(x)",
    "two views": "w = np.from_dlpack(x); x.delete(); assert w.tolist() == [0.0, 1.0, 2.0]; del w",
    "delete a part": "x.addressable_data(0).delete(); x.delete()",
}
PROGRAM = """
import gc
import numpy as np
import teucer as jax
import teucer.numpy as jnp
x = jnp.arange(3.0)
view = np.from_dlpack(x)
assert view.ctypes.data == x.unsafe_buffer_pointer()
{end}
gc.collect()
assert view.tolist() == [0.0, 1.0, 2.0]
del view
gc.collect()
"""


@pytest.mark.parametrize("end", ENDS)
def test_a_view_outlives_its_array(end: str) -> None:
    """In a process of its own, since what went wrong aborted it."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM.format(end=ENDS[end])], capture_output=True, text=True,
                         timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_keys_have_no_dlpack_form() -> None:
    key = jax.random.key(0)
    with pytest.raises(TypeError, match="keys have no DLPack form"):
        np.from_dlpack(key)
    np.testing.assert_array_equal(np.from_dlpack(jnp.arange(3)), np.arange(3))

"""RMS normalisation in C++ as a function of teucer: gradient, batches, state, and errors from C++.

    python examples/ffi/rms_norm.py

builds `rms_norm.cc` with g++ and trains with it; `rms_norm.cu` is the same for CUDA.
"""

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import teucer as jax
import teucer.numpy as jnp

HERE = Path(__file__).parent


def build(folder, source="rms_norm.cc"):
    """Compile the source to a shared library in a folder; its path."""
    library = Path(folder) / "librms_norm.so"
    compiler = os.environ.get("CXX", "g++")
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-O2",
            "-shared",
            "-fPIC",
            "-isystem",
            jax.ffi.include_dir(),
            str(HERE / source),
            "-o",
            str(library),
        ],
        check=True,
    )
    return library


@functools.cache
def register():
    """Build the library and make its functions known to XLA, once a process."""
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(str(build(folder)))
    for name in ("rms_norm", "rms_norm_grad"):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    for function in (library.count_type_id, library.count_type_info):
        function.restype = ctypes.c_void_p
    count = {
        "type_id": jax.ffi.pycapsule(library.count_type_id()),
        "type_info": jax.ffi.pycapsule(library.count_type_info()),
    }
    jax.ffi.register_ffi_type("rms_norm_calls", count)
    jax.ffi.register_ffi_target("count", {"instantiate": jax.ffi.pycapsule(library.count_start),
                                          "execute": jax.ffi.pycapsule(library.count)})  # fmt: skip
    return library


def _forward(x, eps):
    register()
    outs = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(x.shape[:-1], x.dtype))
    return jax.ffi.ffi_call("rms_norm", outs, vmap_method="broadcast_all")(x, eps=np.float32(eps))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def rms_norm(x, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) along the last axis; x: f32[..., n]."""
    return _forward(x, eps)[0]


def _rms_norm_fwd(x, eps):
    y, scale = _forward(x, eps)
    return y, (x, scale)


def _rms_norm_bwd(eps, residuals, ct):
    x, scale = residuals
    call = jax.ffi.ffi_call(
        "rms_norm_grad", jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="broadcast_all"
    )
    return (call(x, scale, ct),)


rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


def count(start):
    """How often this program has counted before, from `start` on: state in C++, one for each
    program."""
    register()
    return jax.ffi.ffi_call("count", jax.ShapeDtypeStruct((), np.int32), has_side_effect=True)(
        start=np.int32(start)
    )


def main(steps=200):
    """Learn the direction of a vector of ones through the normalisation; the loss at the end."""
    target = jnp.ones(8)

    @jax.jit
    def step(x):
        loss, gradient = jax.value_and_grad(lambda x: jnp.sum((rms_norm(x) - target) ** 2))(x)
        return loss, x - 0.1 * gradient, count(1)

    x = jax.random.normal(jax.random.key(0), (8,))
    for _ in range(steps):
        loss, x, n = step(x)
    print(f"loss {float(loss):.2e} after {int(n)} steps")
    try:
        rms_norm(x, -1.0)
    except jax.errors.JaxRuntimeError as err:
        print(f"C++ says: {err}")
    return float(loss)


if __name__ == "__main__":
    main()

"""`teucer ffi new NAME`.

Write a project of a foreign function in C++, with its Python side, its build and its test.
"""

import re
from pathlib import Path

from teucer.cli._errors import CommandError

_SOURCE = """\
// NAME(x, factor) = factor * x, for XLA's FFI. Replace what the loop does by what you want.

#include <cmath>
#include <cstddef>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Compute(float factor, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (!std::isfinite(factor)) {
    return ffi::Error::InvalidArgument("NAME: factor is " + std::to_string(factor));
  }
  for (std::size_t i = 0; i < x.element_count(); ++i) {
    y->typed_data()[i] = factor * x.typed_data()[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    NAME, Compute,
    ffi::Ffi::Bind().Attr<float>("factor").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""
_MODULE = '''\
"""NAME: a function in C++ (NAME.cc) that jit, grad and vmap know."""

import ctypes
import functools
from pathlib import Path

import numpy as np
import teucer as jax

LIBRARY = Path(__file__).parent / "libNAME.so"


@functools.cache
def _registered():
    """The library, its function known to XLA."""
    library = ctypes.CDLL(str(LIBRARY))
    jax.ffi.register_ffi_target("NAME", jax.ffi.pycapsule(library.NAME), platform="cpu")
    return library


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def NAME(x, factor):
    """factor * x, for x of float32."""
    _registered()
    result = jax.ShapeDtypeStruct(x.shape, np.float32)
    # An element of the result depends on that of x alone, so a batch is one call on a larger array.
    call = jax.ffi.ffi_call("NAME", result, vmap_method="broadcast_all")
    return call(x, factor=np.float32(factor))


@NAME.defjvp
def _NAME_jvp(factor, primals, tangents):
    # Written with operations of teucer, the derivative can be differentiated itself, and reversed.
    return NAME(primals[0], factor), factor * tangents[0]
'''
_MAKEFILE = """\
# make builds the library, make test tries it.
PYTHON ?= python
INCLUDE := $(shell $(PYTHON) -c "import teucer as jax; print(jax.ffi.include_dir())")

libNAME.so: NAME.cc
\t$(CXX) -std=c++17 -O2 -shared -fPIC -isystem $(INCLUDE) $< -o $@

test: libNAME.so
\t$(PYTHON) test_NAME.py
.PHONY: test
"""
_TEST = '''\
"""What NAME must do: values, gradients, batches, and errors."""

import numpy as np
import teucer as jax

from NAME import NAME

x = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_values():
    np.testing.assert_allclose(jax.jit(lambda x: NAME(x, 2.0))(x), 2 * x)


def test_gradient():
    np.testing.assert_allclose(jax.grad(lambda x: NAME(x, 3.0).sum())(x), np.full((2, 3), 3.0))


def test_batch():
    np.testing.assert_allclose(jax.vmap(lambda row: NAME(row, 2.0))(x), 2 * x)


def test_error():
    try:
        NAME(jax.numpy.asarray(x), float("nan"))
    except jax.errors.JaxRuntimeError as err:
        assert "NAME: factor is nan" in str(err)
    else:
        raise AssertionError("no error came")


if __name__ == "__main__":
    for test in (test_values, test_gradient, test_batch, test_error):
        test()
    print("NAME works")
'''
_FILES = {"NAME.cc": _SOURCE, "NAME.py": _MODULE, "test_NAME.py": _TEST, "Makefile": _MAKEFILE}


def new(name: str, folder: Path | None) -> int:
    """Write the project into a folder, by default one of its name; prints what to do next."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise CommandError(
            f"{name!r} is no name of a function in C++ and Python: letters a to z, digits and _, "
            "a letter first."
        )
    target = folder or Path(name)
    paths = {
        target / file.replace("NAME", name): text.replace("NAME", name)
        for file, text in _FILES.items()
    }
    there = [str(path) for path in paths if path.exists()]
    if there:
        raise CommandError(
            f"{', '.join(there)} is there already. Give another name or --output FOLDER."
        )
    target.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        path.write_text(text)
    print(
        f"wrote {', '.join(path.name for path in paths)} to {target}/\n"
        f"make -C {target} test builds and tries it"
    )
    return 0

"""Makes printing.json: how jax prints arrays. Run by a Python that has jax: python make_printing.py jax."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np

DTYPES = (
    "bool",
    "int8",
    "int32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "int4",
    "float8_e4m3fn",
)
SHAPES = (
    (),
    (0,),
    (2, 0, 3),
    (1,),
    (5,),
    (10,),
    (14,),
    (17,),
    (20,),
    (30,),
    (1001,),
    (2, 2),
    (3, 4),
    (4, 12),
    (2, 3, 4),
    (2, 1, 40),
)
OPTIONS = (
    {"precision": 2},
    {"linewidth": 40},
    {"linewidth": 20},
    {"threshold": 5},
    {"threshold": 0},
    {"suppress": True},
    {"sign": "+"},
    {"edgeitems": 1, "threshold": 3},
    {"floatmode": "fixed"},
)
SPECS = (".2f", "e", ">10", "", "d", "05.1f")


def values(dtype, shape):
    """The values that are printed, before they are converted to the dtype."""
    n = int(np.prod(shape))
    if dtype == "complex64":
        return (np.arange(n) * 1.5 - 1j * np.arange(n) / 7).reshape(shape)
    if dtype == "bool" or "int" in dtype:
        return (np.arange(n) % 7 * (np.arange(n) % 3)).reshape(shape) % 5
    return ((np.arange(n) - n / 3) * 1.37).reshape(shape)


def cases():
    """Each case: dtype, shape, print options."""
    for dtype in DTYPES:
        yield from ((dtype, shape, {}) for shape in SHAPES)
        yield from ((dtype, shape, options) for shape in ((3, 4), (20,)) for options in OPTIONS)


def printed(jax):
    """What the library prints for every case."""
    found = []
    for dtype, shape, options in cases():
        x = jax.numpy.asarray(values(dtype, shape)).astype(dtype)
        with np.printoptions(**options):
            found.append([dtype, shape, options, repr(x), str(x)])
    weak = [repr(jax.lax.broadcast(1.0, (n,))) for n in range(8, 14)]
    integers = [repr(jax.numpy.arange(n)) for n in range(10, 40)]
    formats = [
        [spec, kind, _format(jax.numpy.asarray(2.5 if kind == "float32" else 25, kind), spec)]
        for spec in SPECS
        for kind in ("float32", "int32")
    ]
    lists = [
        repr([jax.numpy.ones(2), {"a": jax.numpy.float32(1)}]),
        repr(jax.numpy.asarray([np.nan, np.inf, 1e10, -0.0])),
    ]
    return {
        "arrays": found,
        "weak": weak,
        "integers": integers,
        "formats": formats,
        "others": lists,
    }


def _format(x, spec):
    try:
        return format(x, spec)
    except ValueError:
        return None


if __name__ == "__main__":
    text = json.dumps(printed(importlib.import_module(sys.argv[1])), separators=(",", ":"))
    Path(__file__).with_name("printing.json").write_text(text + "\n")

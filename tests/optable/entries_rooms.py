"""Entries made of the samples that the rooms of lax keep for tests of their own (tests/lax/samples_*.py).

Those tests compare values; here the samples go through the laws, in the thorough suite.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from optable.table import Draw, Op, Sample, resolve

# Samples whose laws do not hold as they are written here, with the reason.
EXCEPTIONS: dict[str, dict[str, str]] = {}
# Those of elementwise operations are rows of the library's table, which entries_elementwise reads itself.
ROOMS = sorted(p.stem for p in (Path(__file__).parent.parent / "lax").glob("samples_*.py") if p.stem != "samples_elementwise")


def is_traced(x: Any) -> bool:
    """Whether an argument is an array, or a list of arrays; other arguments are known to the program."""
    if isinstance(x, list | tuple):
        return bool(x) and all(map(is_traced, x))
    return isinstance(x, np.ndarray | np.generic)


def entry(room: str, s: Any) -> Op:
    def places(rng: Any, dtype: str) -> Any:
        args, kwargs = s.args(rng, dtype)
        return args, kwargs, [i for i, a in enumerate(args) if is_traced(a)]

    def samples(draw: Draw) -> Iterable[Sample]:
        args, kwargs, traced = places(draw.rng, draw.name)
        known = {i: a for i, a in enumerate(args) if i not in traced}
        yield Sample(tuple(args[i] for i in traced), {"known": known, "kwargs": kwargs})

    def apply(*arrays: Any, known: Any, kwargs: Any) -> Any:
        rest = iter(arrays)
        return resolve(s.function)(*(known[i] if i in known else next(rest) for i in range(len(arrays) + len(known))), **kwargs)

    name = f"{room.removeprefix('samples_')}: {s.name}"
    reasons = EXCEPTIONS.get(name, {}) | {"value": "compared with its reference in tests/lax"}
    # Elements of these are moved, or summed in an order that the program decides.
    return Op(name, apply, samples, s.dtypes, ulp=64, slow=True, gradients=None if s.differentiable else (), exceptions=reasons)


OPS = [entry(room, s) for room in ROOMS for s in importlib.import_module(f"lax.{room}").SAMPLES]

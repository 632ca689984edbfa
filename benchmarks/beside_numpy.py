"""Functions of `jnp` beside NumPy's on the CPU, eager and under jit.

    python benchmarks/beside_numpy.py --sizes 1000 100000 [--only sort unique]

Prints the least time of NumPy in microseconds, and the ratios, the greatest first.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import teucer as jax
import teucer.numpy as jnp

# x, y, w: n floats, those of w positive; s: x sorted; i: places; b: booleans; t: 16 columns; a: a
# square matrix. Behind a bar: calls whose results have a size of their own, which jit refuses.
CALLS = """
sort(x) argsort(x) median(x) percentile(x,30.0) quantile(x,0.3) cumsum(x) cumprod(x) sum(x) mean(x)
var(x) std(x) max(x) min(x) argmax(x) argmin(x) prod(w) all(b) any(b) ptp(x) diff(x) nansum(x)
nanmax(x) nanmedian(x) count_nonzero(b) searchsorted(s,y) histogram(x)[0] lexsort((x,y))
partition(x,9) argpartition(x,9) take(x,i) repeat(x,3) interp(y,s,x) where(b,x,y) clip(x,-0.5,0.5)
roll(x,3) pad(x,3) tile(x,3) concatenate((x,y)) stack((x,y)) dot(x,y) sum(t,0) mean(t,0) max(t,0)
argmax(t,0) cumsum(t,0) sort(t,0) median(t,0) any(t,0) sum(t,1) sort(t,1) matmul(a,a) exp(x) sin(x)
log(w) sqrt(w) tanh(x) power(w,1.7) add(x,y) take_along_axis(x,i,0) trapezoid(y,x) gradient(x)
convolve(x,x[:33]) triu(a) isin(i,i[:20]) unwrap(x) | unique(x) unique(i) nonzero(b)
setdiff1d(i,i[:9])
"""


def least(f: Callable[..., Any], *args: Any, seconds: float = 0.05) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 4 or time.perf_counter() < end:
        start = time.perf_counter()
        jax.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return min(times)


def operands(n: int) -> dict[str, Any]:
    draw, side = np.random.default_rng(0), int(n**0.5)
    x = draw.standard_normal(n).astype(np.float32)
    return {
        "x": x,
        "y": draw.standard_normal(n).astype(np.float32),
        "w": np.abs(x) + np.float32(0.5),
        "s": np.sort(x),
        "i": draw.integers(0, n, n).astype(np.int32),
        "b": x > 0,
        "t": draw.standard_normal((n // 16, 16)).astype(np.float32),
        "a": draw.standard_normal((side, side)).astype(np.float32),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    fixed, sized = (part.split() for part in CALLS.split("|"))
    rows = []
    for n in given.sizes:
        host = operands(n)
        own = {name: jnp.asarray(v) for name, v in host.items()}
        for call in fixed + sized:
            if given.only and call.split("(")[0] not in given.only:
                continue
            there = eval(f"lambda: {call}", {**vars(np), **host})
            code = compile(call, call, "eval")
            names = {f: getattr(jnp, f) for f in code.co_names if hasattr(jnp, f)}

            def here(values: dict[str, Any], code: Any = code, names: Any = names) -> Any:
                return eval(code, {**names, **values})

            numpy = least(there)
            eager = least(here, own) / numpy
            jitted = least(jax.jit(here), own) / numpy if call in fixed else float("nan")
            rows.append((max(eager, jitted), call, n, numpy, eager, jitted))
    for _, call, n, numpy, eager, jitted in sorted(rows, reverse=True, key=lambda row: row[0]):
        print(f"{call:22} {n:8} {numpy * 1e6:10.1f} us  eager {eager:6.2f}  jit {jitted:6.2f}")


if __name__ == "__main__":
    main()

"""Eager calls on small arrays, functions of `jnp` and other everyday ones, Teucer beside JAX.

    python benchmarks/eager.py --jax JAX/bin/python --teucer TEUCER/bin/python

Prints microseconds of processors a call, the least of all turns, slowest ratio first, and the
geometric mean of the ratios. The libraries take turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import subprocess
import sys
import time

import numpy as np

# x, y: 16 numbers; a, b: 4 x 4; i: 16 integers; m: 16 booleans.
CALLS = """
abs(x) add(x,y) all(m) allclose(x,y) any(m) append(x,y) arange(16) arccos(x) arctan2(x,y) argmax(x)
argmin(x) argsort(x) array_equal(x,y) around(x) atleast_2d(x) average(x) bincount(i,length=16)
bitwise_and(i,i) broadcast_to(x,(4,16)) ceil(x) clip(x,0,1) column_stack((x,y)) concatenate((x,y))
conj(x) convolve(x,y) copysign(x,y) corrcoef(a) cos(x) count_nonzero(m) cov(a) cross(x[:3],y[:3])
cumprod(x) cumsum(x) deg2rad(x) diag(a) diagonal(a) diff(x) digitize(x,y) divide(x,y) dot(x,y)
einsum('ij,jk',a,b) equal(x,y) exp(x) expand_dims(x,0) eye(4) flip(x) floor(x) floor_divide(x,y)
full((16,),2.0) full_like(x,2.0) gradient(x) greater(x,y) heaviside(x,y) histogram(x)[0]
hstack((x,y)) hypot(x,y) inner(x,y) interp(x,y,x) isclose(x,y) isfinite(x) isnan(x) kron(a,b)
linspace(0,1,16) log(x) log1p(x) logaddexp(x,y) logical_not(m) matmul(a,b) max(x) maximum(x,y)
mean(x) median(x) meshgrid(x,y)[0] min(x) mod(x,y) moveaxis(a,0,1) multiply(x,y) nan_to_num(x)
nanmean(x) negative(x) ones_like(x) outer(x,y) pad(x,1) percentile(x,50) power(x,y) prod(x) ptp(x)
ravel(a) repeat(x,2) reshape(x,(4,4)) roll(x,1) round(x) searchsorted(x,y) sign(x) sin(x) sort(x)
split(x,2)[0] sqrt(x) square(x) squeeze(x) stack((x,y)) std(x) subtract(x,y) sum(x) swapaxes(a,0,1)
take(x,i) take_along_axis(x,i,0) tanh(x) tensordot(a,b) tile(x,2) trace(a) transpose(a)
trapezoid(x) tril(a) triu(a) unwrap(x) vander(x,3) var(x) vdot(x,y) vstack((x,y)) where(m,x,y)
zeros((16,)) zeros_like(x) linalg.norm(x) linalg.det(a) linalg.inv(a) linalg.solve(a,b)
"""

# Calls that are no functions of jnp. v: 1.0; h: x as a NumPy array; t: {"x": x, "y": y}; k: a key.
OTHERS = """
x[0]; x[1:3]; x.at[0].set(1.0); float(v); x + 1; -x; a @ b; x + y; x * 2.0; x.sum(); x.T; a.T;
x.reshape(4, 4); np.asarray(x); jnp.array([1.0, 2.0]); jnp.asarray(h); jnp.array(h);
jax.random.split(k); jax.random.normal(k, (4,)); jax.nn.relu(x); jax.nn.softmax(x); lax.add(x, y);
lax.sin(x); jax.tree.map(jnp.add, t, t); jax.device_put(x); jax.device_put(h); x > 0.5
"""
EVERYDAY = [call.strip() for call in OTHERS.split(";")]


def measure(library: str, calls: list[str]) -> None:
    jax = importlib.import_module(library)
    jnp = importlib.import_module(f"{library}.numpy")
    x, y = jnp.linspace(0.1, 0.9, 16), jnp.linspace(0.2, 0.8, 16)
    names = {
        "jax": jax,
        "jnp": jnp,
        "lax": jax.lax,
        "np": np,
        "v": jnp.asarray(1.0),
        "h": np.asarray(x),
        "t": {"x": x, "y": y},
        "k": jax.random.key(0),
        "x": x,
        "y": y,
        "a": x.reshape(4, 4) + jnp.eye(4),
        "b": y.reshape(4, 4),
        "i": jnp.arange(16),
        "m": x > 0.5,
    }
    functions = [
        eval(f"lambda: {call if call in EVERYDAY else f'jnp.{call}'}", names) for call in calls
    ]
    for f in functions:
        jax.block_until_ready([f(), f(), f()])
    for _ in sys.stdin:
        print(json.dumps([least(jax, f) for f in functions]), flush=True)


def least(jax: object, f: object) -> float:
    found = []
    for _ in range(8):
        start = time.thread_time()
        for _ in range(10):
            f()
        found.append((time.thread_time() - start) / 10)
        jax.block_until_ready(f())
    return 1e6 * min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", help="a Python that has JAX")
    parser.add_argument("--teucer", default=sys.executable, help="one that has Teucer")
    parser.add_argument("--turns", type=int, default=8, help="(default: %(default)s)")
    parser.add_argument("--only", default="", help="names of functions, with commas")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else []
    calls = [
        call
        for call in [*CALLS.split(), *EVERYDAY]
        if not wanted or call.partition("(")[0] in wanted
    ]
    if options.measure:
        measure(options.measure, calls)
        return
    processes = [
        subprocess.Popen(
            [python, __file__, "--measure", library, "--only", options.only],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for python, library in ((options.jax, "jax"), (options.teucer, "teucer"))
    ]
    turns: list[list[list[float]]] = [[], []]
    for _ in range(options.turns):
        for process, found in zip(processes, turns, strict=True):
            process.stdin.write("turn\n")
            process.stdin.flush()
            found.append(json.loads(process.stdout.readline()))
    for process in processes:
        process.stdin.close()
        process.wait()
    theirs, ours = ([min(values) for values in zip(*found, strict=True)] for found in turns)
    rows = sorted(
        ((b / a, call, a, b) for call, a, b in zip(calls, theirs, ours, strict=True)), reverse=True
    )
    for ratio, call, a, b in rows:
        print(f"{call:28} JAX {a:8.1f}  Teucer {b:8.1f}  {ratio:.2f}")
    ratios = [row[0] for row in rows]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    slow, slower = (sum(ratio > bound for ratio in ratios) for bound in (0.8, 1.1))
    print(f"{len(rows)} calls: geometric mean {mean:.2f}, {slow} above 0.8, {slower} above 1.1")


if __name__ == "__main__":
    main()

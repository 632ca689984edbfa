"""`make bench-ops`.

The time of operations, Teucer beside JAX and NumPy, as a table of medians and ratios.

    python benchmarks/operations.py --jax JAX/bin/python                      all operations on 10^5
    elements
    python benchmarks/operations.py --jax JAX/bin/python --sizes 10 1000 cumsum sort

Teucer and JAX take turns. A ratio above 1.2 stands again at the end, in the order of size.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from libraries import Library

Arrays = tuple[np.ndarray, ...]


class Row(NamedTuple):
    """An operation: its name, the function as `Library.apply` takes it, its operands, and what
    NumPy calls it."""

    name: str
    function: str
    arguments: Arrays
    numpy: Any = None


UNARY = """abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma
erf erf_inv erfc exp exp2 expm1 floor is_finite lgamma log log1p logistic neg reciprocal round
rsqrt sign sin sinh sqrt square tan tanh"""
BINARY = "add atan2 div eq igamma igammac lt max mul nextafter pow rem sub zeta"
INTEGER = (
    "bitwise_and bitwise_or bitwise_xor clz population_count bitwise_not shift_left add mul div rem"
)
COMPLEX = "abs add cos div exp expm1 log log1p mul sin sinh sqrt tan tanh"
SPECIAL = (
    """entr erfcx exp1 expi expit gamma gammaln i0 i1 log_ndtr logit ndtr ndtri sici spence dawsn"""
)
NN = (
    "celu elu gelu glu leaky_relu log_sigmoid log_softmax logsumexp mish relu selu silu softmax "
    "softplus"
)
# Functions of one array of numpy, under the same name in NumPy.
SAME = """all any argmax argmin argsort arctan2 average ceil clip convolve corrcoef cov cumprod
cumsum deg2rad diff ediff1d exp2 fabs flip floor_divide fmod gradient heaviside histogram hypot
interp isnan kron log10 log2 logaddexp max mean median min mod nan_to_num nanmean nansum outer
percentile power prod ptp rint roll round searchsorted sign sinc sort std sum trapezoid
true_divide unwrap var where"""
BINARIES = "arctan2 convolve floor_divide fmod heaviside hypot logaddexp mod power true_divide"
DISTRIBUTIONS = """bernoulli beta bits categorical cauchy choice dirichlet exponential gamma
gumbel laplace normal permutation poisson randint rademacher t truncated_normal uniform"""


def elementwise(x: np.ndarray, y: np.ndarray) -> Iterator[Row]:
    whole, other = (np.asarray(v * 1000, np.int32) + 1 for v in (x, y))
    z = (x + 1j * y).astype(np.complex64)
    for name in UNARY.split():
        yield Row(f"lax.{name}", f"lax.{name}", (x + 1 if name == "acosh" else x,))
    for name in BINARY.split():
        yield Row(f"lax.{name}", f"lax.{name}", (x + 1 if name == "zeta" else x, y))
    for name in INTEGER.split():
        one = name in ("clz", "population_count", "bitwise_not")
        yield Row(f"lax.{name} int32", f"lax.{name}", (whole,) if one else (whole, other % 8 + 1))
    for name in COMPLEX.split():
        yield Row(
            f"lax.{name} complex64",
            f"lax.{name}",
            (z, z + 1) if name in ("add", "div", "mul") else (z,),
        )
    for name in SPECIAL.split():
        yield Row(f"special.{name}", f"lambda x: special.{name}(x)", (x,))
    for name in NN.split():
        yield Row(f"nn.{name}", f"lambda x: jax.nn.{name}(x)", (4 * x - 2,))


def of_numpy(x: np.ndarray, y: np.ndarray) -> Iterator[Row]:
    table = np.sort(x[:1000])
    special: dict[str, tuple[str, Arrays]] = {
        "clip": ("x, 0.2, 0.7", (x,)),
        "where": ("x > 0.5, x, y", (x, y)),
        "interp": ("x, t, t", (x, table)),
        "searchsorted": ("t, x", (x, table)),
        "percentile": ("x, 30", (x,)),
        "roll": ("x, 7", (x,)),
        "outer": ("x[:300], x[:300]", (x,)),
        "kron": ("x[:300], x[:300]", (x,)),
        "corrcoef": ("x[:len(x) // 8 * 8].reshape(8, -1)", (x,)),
        "cov": ("x[:len(x) // 8 * 8].reshape(8, -1)", (x,)),
        "histogram": ("x, 50, (0, 1)", (x,)),
        "convolve": ("x, y[:33], 'same'", (x, y)),
    }
    for name in SAME.split():
        text, arguments = special.get(
            name, ("x, y", (x, y)) if name in BINARIES.split() else ("x", (x,))
        )
        head = (
            "x, t"
            if "t" in text.replace(" ", "").split(",")
            else "x, y"
            if len(arguments) == 2
            else "x"
        )
        yield Row(
            f"numpy.{name}",
            f"lambda {head}: jnp.{name}({text})",
            arguments,
            eval(f"lambda {head}: np.{name}({text})"),
        )


def structural(x: np.ndarray, y: np.ndarray) -> Iterator[Row]:
    n = len(x)
    square = x[: n // 100 * 100].reshape(-1, 100)
    ids = (x * 100).astype(np.int32)
    table: list[tuple[str, str, Arrays]] = [
        ("take", "lambda x, i: jnp.take(x, i)", (x, ids)),
        ("x[i]", "lambda x, i: x[i]", (x, ids)),
        ("at add", "lambda x, i: x.at[i].add(x)", (x, ids)),
        ("at set", "lambda x, i: x.at[i].set(1.0)", (x, ids)),
        ("segment_sum", "lambda x, i: jax.ops.segment_sum(x, i, 100)", (x, ids)),
        ("segment_max", "lambda x, i: jax.ops.segment_max(x, i, 100)", (x, ids)),
        ("bincount", "lambda i: jnp.bincount(i, length=100)", (ids,)),
        ("one_hot", "lambda i: jax.nn.one_hot(i[:1000], 100)", (ids,)),
        ("transpose", "lambda x: x.T + 0", (square,)),
        ("concatenate", "lambda x, y: jnp.concatenate([x, y])", (x, y)),
        ("stack", "lambda x, y: jnp.stack([x, y], 1)", (x, y)),
        ("tile", "lambda x: jnp.tile(x, 3)", (x,)),
        ("repeat", "lambda x: jnp.repeat(x, 3)", (x,)),
        ("pad", "lambda x: jnp.pad(x, 9)", (x,)),
        ("sum rows", "lambda x: x.sum(1)", (square,)),
        ("sum columns", "lambda x: x.sum(0)", (square,)),
        ("cumsum rows", "lambda x: jnp.cumsum(x, 1)", (square,)),
        ("sort rows", "lambda x: jnp.sort(x, 1)", (square,)),
        ("argsort rows", "lambda x: jnp.argsort(x, 1)", (square,)),
        ("top_k", "lambda x: lax.top_k(x, 8)", (square,)),
        ("cumlogsumexp", "lax.cumlogsumexp", (x,)),
        ("cummax", "lax.cummax", (x,)),
        ("sort pairs", "lambda x, y: lax.sort((x, y))", (x, y)),
        ("unique", "lambda i: jnp.unique(i, size=100)", (ids,)),
        ("nonzero", "lambda x: jnp.nonzero(x > 0.5, size=len(x))", (x,)),
        ("reduce_window", "lambda x: lax.reduce_window(x, 0.0, lax.add, (9,), (1,), 'SAME')", (x,)),
        ("associative_scan", "lambda x: lax.associative_scan(jnp.multiply, x)", (x,)),
        ("fft", "jnp.fft.fft", (x,)),
        ("rfft", "jnp.fft.rfft", (x,)),
        ("scan", "lambda x: lax.scan(lambda c, v: (c + v, c), 0.0, x[:1000])", (x,)),
    ]
    for name, text, arguments in table:
        text = text if text.startswith(("lambda", "lax")) else f"lambda x: {text}(x)"
        yield Row(name, text, arguments)
    for name in DISTRIBUTIONS.split():
        shape = f"({n},)"
        call = {
            "bernoulli": f"k, 0.3, {shape}",
            "beta": f"k, 2.0, 3.0, {shape}",
            "categorical": f"k, jnp.zeros(10), shape={shape}",
            "choice": f"k, 100, {shape}",
            "dirichlet": f"k, jnp.ones(10), ({n} // 10,)",
            "gamma": f"k, 2.0, {shape}",
            "permutation": f"k, {n}",
            "poisson": f"k, 4.0, {shape}",
            "randint": f"k, {shape}, 0, 100",
            "t": f"k, 3.0, {shape}",
            "truncated_normal": f"k, -1.0, 1.0, {shape}",
        }.get(name, f"k, {shape}")
        yield Row(
            f"random.{name}",
            f"lambda s: (lambda k: random.{name}({call}))(random.key(s))",
            (np.uint32(7),),
        )


def matrices(x: np.ndarray, _: np.ndarray) -> Iterator[Row]:
    generator = np.random.default_rng(3)
    for n in (3, 8, 100):
        batch = max(1, len(x) // n**2 // (10 if n > 50 else 1))
        a = generator.standard_normal((batch, n, n)).astype(np.float32)
        spd = (a @ a.swapaxes(1, 2) + n * np.eye(n)).astype(np.float32)
        for name in ("cholesky", "det", "eigh", "inv", "qr", "svd", "slogdet"):
            yield Row(
                f"linalg.{name} {batch} of {n}",
                f"lambda a: jnp.linalg.{name}(a)",
                (spd,),
                getattr(np.linalg, name),
            )
        yield Row(
            f"linalg.solve {batch} of {n}", "lambda a: jnp.linalg.solve(a, a[..., :1])", (spd,)
        )
        yield Row(f"matmul {batch} of {n}", "lambda a: a @ a", (a,), lambda a: a @ a)
    image = generator.standard_normal((4, 32, 32, 8)).astype(np.float32)
    filters = generator.standard_normal((3, 3, 8, 16)).astype(np.float32)
    text = (
        "lambda x, w: lax.conv_general_dilated(x, w, (1, 1), 'SAME', dimension_numbers=('NHWC', "
        "'HWIO', 'NHWC'))"
    )
    yield Row("conv 4x32x32x8", text, (image, filters))


def sparse_products(x: np.ndarray, y: np.ndarray) -> Iterator[Row]:
    """Matrices with ten elements a row, beside SciPy's; the elements are x."""
    n = max(1, len(x) // 10)
    generator = np.random.default_rng(4)
    places = np.sort(generator.choice(n * n, min(len(x), n * n), replace=False))
    rows, columns = (places // n).astype(np.int32), (places % n).astype(np.int32)
    values, vector, block = (
        x[: len(places)],
        y[:n],
        generator.standard_normal((n, 16)).astype(np.float32),
    )
    matrix = scipy.sparse.csr_array((values, (rows, columns)), (n, n))
    indices, starts = np.stack([rows, columns], 1), matrix.indptr.astype(np.int32)
    of_bcoo = f"sparse.BCOO((v, i), shape=({n}, {n}), indices_sorted=True, unique_indices=True)"
    of_bcsr = f"sparse.BCSR((v, i, s), shape=({n}, {n}), indices_sorted=True, unique_indices=True)"
    bcoo, bcsr = (values, indices), (values, columns, starts)
    size = f"{n} of {len(places)}"
    yield Row(
        f"BCOO @ x {size}",
        f"lambda v, i, x: {of_bcoo} @ x",
        (*bcoo, vector),
        lambda v, i, x: matrix @ x,
    )
    yield Row(
        f"BCOO @ X {size}",
        f"lambda v, i, x: {of_bcoo} @ x",
        (*bcoo, block),
        lambda v, i, x: matrix @ x,
    )
    yield Row(
        f"x @ BCOO {size}",
        f"lambda v, i, x: x @ {of_bcoo}",
        (*bcoo, vector),
        lambda v, i, x: x @ matrix,
    )
    yield Row(
        f"BCOO.T @ x {size}",
        f"lambda v, i, x: {of_bcoo}.T @ x",
        (*bcoo, vector),
        lambda v, i, x: matrix.T @ x,
    )
    yield Row(
        f"BCSR @ x {size}",
        f"lambda v, i, s, x: {of_bcsr} @ x",
        (*bcsr, vector),
        lambda v, i, s, x: matrix @ x,
    )
    yield Row(
        f"BCSR @ X {size}",
        f"lambda v, i, s, x: {of_bcsr} @ x",
        (*bcsr, block),
        lambda v, i, s, x: matrix @ x,
    )
    yield Row(
        f"BCOO gradient {size}",
        f"lambda v, i, x: jax.grad(lambda v: ({of_bcoo} @ x).sum())(v)",
        (*bcoo, vector),
    )


def numpy_time(row: Row, repetitions: int) -> float | None:
    """The median time of NumPy's, or None."""
    if row.numpy is None:
        return None
    times = []
    with np.errstate(all="ignore"):
        for _ in range(repetitions):
            start = time.perf_counter()
            row.numpy(*row.arguments)
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def measured(row: Row, libraries: list[Library], rounds: int) -> list[float]:
    """The least of the medians of some rounds, for each library in turn."""
    times = [
        [library.apply(row.function, *row.arguments, repetitions=11).clock for library in libraries]
        for _ in range(rounds)
    ]
    return [min(each) for each in zip(*times, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jax", required=True, help="the Python that has JAX")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**5])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "names", nargs="*", help="operations whose names contain one of these; all without"
    )
    options = parser.parse_args()
    slow = []
    with tempfile.TemporaryDirectory() as folder:
        libraries = [Library(sys.executable, "teucer", folder), Library(options.jax, "jax", folder)]
        print(
            "| operation | elements | Teucer, us | JAX, us | of JAX's | NumPy, us |\n|"
            + " --- |" * 6
        )
        for size in options.sizes:
            x, y = np.random.default_rng(1).uniform(0.01, 0.99, (2, size)).astype(np.float32)
            for make in (elementwise, of_numpy, structural, matrices, sparse_products):
                for row in make(x, y):
                    if options.names and not any(name in row.name for name in options.names):
                        continue
                    try:
                        teucer, jax = measured(row, libraries, options.rounds)
                    except RuntimeError as error:
                        sys.exit(str(error))
                    beside = numpy_time(row, 5)
                    text = (
                        f"| {row.name} | {size} | {teucer * 1e6:.0f} | {jax * 1e6:.0f} | "
                        f"{teucer / jax:.2f} | {'' if beside is None else f'{beside * 1e6:.0f}'} |"
                    )
                    print(text, flush=True)
                    if teucer > 1.2 * jax:
                        slow.append((teucer / jax, text))
    print("\nSlower than 1.2 times JAX's:\n")
    print("\n".join(text for _, text in sorted(slow, reverse=True)))


if __name__ == "__main__":
    main()

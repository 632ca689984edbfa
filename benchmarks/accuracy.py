"""`make accuracy`.

The largest errors of elementary and special functions in ulp, Teucer beside JAX, as tables.

    python benchmarks/accuracy.py --jax JAX/bin/python                   a sample, some minutes
    python benchmarks/accuracy.py --jax JAX/bin/python --all erfc        all 2^32 inputs of float32,
    of erfc
    python benchmarks/accuracy.py --all --step 16 erfc                   one of every 16 of these,
    drawn by chance

An error is |y - f(x)| / ulp(f(x)). The references are NumPy's and SciPy's functions of float64 for
float32, NumPy's long doubles or mpmath's 60 digits for float64. Inputs and results below the least
normal number are left out: XLA computes with them as zeros.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from accuracy_references import by_mpmath, complex_by_mpmath, complex_in_more_digits
from accuracy_sweep import LEFT, decided, sweep
from libraries import Library


class Function(NamedTuple):
    """A function: its path in the libraries, its names in NumPy or SciPy and in mpmath, where it is
    searched.

    parity: 1 of an even function, -1 of an odd one: of all inputs of float32 only positive ones are
    compared with the reference, and negative ones with these.
    """

    path: str
    wide: str
    exact: str = ""
    domain: tuple[float, float] = (-np.inf, np.inf)
    near: tuple[float, ...] = (0.0,)
    arguments: int = 1
    parity: int = 0


def elementary(name: str, *near: float, **more: Any) -> Function:
    return Function(f"numpy.{name}", name, near=near or (0.0,), **more)


def special(
    name: str,
    exact: str,
    *near: float,
    domain: tuple[float, float] = (-np.inf, np.inf),
    parity: int = 0,
) -> Function:
    return Function(
        f"scipy.special.{name}",
        f"special.{name}",
        exact,
        domain,
        near or (0.0,),
        parity=parity,
    )


POSITIVE, UNIT = (0.0, np.inf), (0.0, 1.0)


PI = tuple(k * np.pi / 2 for k in (-7, -3, -2, -1, 1, 2, 3, 4, 5, 22, 355, 1e5))
ELEMENTARY = (
    elementary("exp"),
    elementary("exp2"),
    elementary("expm1"),
    elementary("log", 1.0),
    elementary("log2", 1.0),
    elementary("log10", 1.0),
    elementary("log1p", 0.0, -1.0, 0.5, -0.3),
    elementary("sqrt"),
    elementary("cbrt", parity=-1),
    Function("lax.rsqrt", "reciprocal sqrt"),
    elementary("sin", *PI, parity=-1),
    elementary("cos", *PI, parity=1),
    elementary("tan", *PI, parity=-1),
    elementary("arcsin", 0.0, 0.5, 1.0, -1.0, parity=-1),
    elementary("arccos", 0.0, 0.5, 1.0, -1.0),
    elementary("arctan", 0.0, 1.0, parity=-1),
    elementary("sinh", 0.0, 1.0, 88.7, 710.0, parity=-1),
    elementary("cosh", 0.0, 1.0, 88.7, 710.0, parity=1),
    elementary("tanh", 0.0, 0.5, parity=-1),
    elementary("arcsinh", 0.0, 1.0, parity=-1),
    elementary("arccosh", 1.0, 2.0),
    elementary("arctanh", 0.0, 0.5, 1.0, -1.0, parity=-1),
    elementary("power", arguments=2),
    elementary("arctan2", arguments=2),
    elementary("hypot", arguments=2),
    elementary("logaddexp", arguments=2),
)
SPECIAL = (
    special("erf", "erf", parity=-1),
    special("erfc", "erfc", 0.0, 0.5, 1.0, 4.0, 9.0, 26.0),
    special("erfinv", "erfinv", 0.0, 1.0, -1.0, domain=(-1.0, 1.0), parity=-1),
    special("ndtr", "ncdf"),
    special("log_ndtr", "log_ncdf", 0.0, -10.0, 5.0, -20.0),
    special("ndtri", "ncdf_inverse", 0.0, 0.5, 1.0, 0.135, domain=UNIT),
    special("expit", "expit"),
    special("logit", "logit", 0.0, 0.5, 1.0, domain=UNIT),
    special("entr", "entr", 0.0, 1.0),
    special("gammaln", "gammaln", 0.0, 1.0, 2.0, domain=POSITIVE),
    special("gamma", "gamma", 0.0, 1.0, 10.0, 35.0, 170.0),
    special("digamma", "digamma", 0.0, 1.4616321449683622, domain=POSITIVE),
    special("exp1", "e1", 0.0, 1.0, domain=POSITIVE),
    special("expi", "ei", 0.0, 0.37250741078136663, 40.0, 1.0),
    special("i0", "i0", 0.0, 8.0, parity=1),
    special("i0e", "i0e", 0.0, 8.0, parity=1),
    special("i1", "i1", 0.0, 8.0, parity=-1),
    special("i1e", "i1e", 0.0, 8.0, parity=-1),
    special("spence", "spence", 0.0, 0.5, 1.0, 2.0, domain=POSITIVE),
)
COMPLEX = tuple(
    elementary(name)
    for name in (
        "exp",
        "expm1",
        "log",
        "log1p",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "arcsin",
        "arccos",
        "arctan",
        "arcsinh",
        "arccosh",
        "arctanh",
    )
)


# Inputs


def samples(function: Function, dtype: Any, count: int) -> np.ndarray:
    """Numbers of all exponents alike, more of usual sizes, and the neighbours of hard cases."""
    generator = np.random.default_rng(2026)
    info, bits = np.finfo(dtype), np.dtype(f"i{np.dtype(dtype).itemsize}")
    spread = generator.integers(np.iinfo(bits).min, np.iinfo(bits).max, count, dtype=bits).view(
        dtype
    )
    usual = [generator.uniform(-r, r, count // 4).astype(dtype) for r in (1, 4, 40, 400)]
    close = []
    for point in function.near:
        at = np.array(point, dtype)
        steps = generator.integers(-4000, 4000, count // 64).astype(dtype) * np.spacing(at)
        powers = np.exp2(generator.uniform(-info.nmant - 2, 0, count // 64)) * generator.choice(
            [-1, 1], count // 64
        )
        close += [at + steps, (at + powers * max(abs(point), 1)).astype(dtype)]
    return np.concatenate([spread, *usual, *close])


def pairs(dtype: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands of functions of two numbers: of like and unlike sizes, and a first one near 1."""
    generator = np.random.default_rng(2026)
    x, y = (
        np.exp2(generator.uniform(-60, 60, count)) * generator.choice([-1, 1], count)
        for _ in range(2)
    )
    u, v = generator.uniform(-30, 30, (2, count))
    near = 1 + generator.uniform(-1, 1, count) * 2.0 ** -generator.integers(1, 20, count)
    tall = generator.uniform(-700, 700, count)
    first, second = (
        np.concatenate(part).astype(dtype) for part in ((x, u, np.abs(u), near), (y, v, v, tall))
    )
    return first, second


def planes(dtype: Any, count: int) -> np.ndarray:
    """Complex numbers with parts of all sizes, near the axes, the unit circles about 0 and -1,
    multiples of pi / 2."""
    generator = np.random.default_rng(2026)
    reach = 0.3 * np.finfo(dtype).maxexp

    def size(low: float, high: float) -> np.ndarray:
        return np.exp2(generator.uniform(low, high, count)) * generator.choice([-1, 1], count)

    x, y, u, v, small = (
        size(-reach, reach),
        size(-reach, reach),
        size(-8, 6.4),
        size(-8, 6.4),
        size(-30, 0),
    )
    circle = np.exp(
        1j * generator.uniform(-np.pi, np.pi, count) * 2.0 ** -generator.integers(0, 20, count)
    )
    turns = generator.integers(-6, 7, count) * np.pi / 2 + size(-24, -3)
    cut = generator.choice([-2.0, -1, 1, 2], count) * (1 + size(-24, -1))
    level = generator.uniform(-1.5, 1.5, count)  # e^a cos b = 1 where a = -log(cos b)
    parts = [
        x + 1j * y,
        u + 1j * v,
        circle,
        circle - 1,
        u + 1j * turns,
        turns + 1j * u,
        cut + 1j * small,
        small + 1j * cut,
        small + 1j * size(-30, 0),
        -np.log(np.cos(level)) + 1j * level,
    ]
    return np.concatenate(parts).astype(np.result_type(dtype, np.complex64))


def inputs(function: Function, dtype: Any, count: int) -> Iterator[tuple[np.ndarray, ...]]:
    """The inputs of a function, in parts."""
    if function.arguments == 2:
        yield pairs(dtype, count)
    else:
        yield (samples(function, dtype, count),)


# Errors


class Worst(NamedTuple):
    """The largest error, in ulp, and where it is."""

    error: float
    at: tuple[Any, ...]

    def __str__(self) -> str:
        number = (
            "inf"
            if np.isinf(self.error)
            else f"{self.error:.2f}"
            if self.error < 100
            else f"{self.error:.1e}"
        )
        return f"{number} at {', '.join(f'{v:.9g}' for v in self.at)}" if self.error > 1 else number


def errors(y: np.ndarray, exact: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """The errors in ulp; infinite where one is finite and the other not, zero where the input is
    left out."""
    info = np.finfo(y.dtype)
    with np.errstate(all="ignore"):
        nearest = exact.astype(y.dtype)
        size = np.maximum(np.abs(exact), float(info.tiny))
        error = np.abs(y.astype(np.longdouble) - exact) / np.exp2(
            np.floor(np.log2(size.astype(np.longdouble))) - info.nmant
        )
        # Near the largest number either may overflow.
        error = np.where(
            np.isinf(y) & (np.abs(exact) > float(info.max) * (1 - 8 * info.eps)), 0, error
        )
        same = (y == nearest) | (np.isnan(y) & np.isnan(exact))
        error = np.where(same & ~np.isfinite(nearest), 0, error)
        usable = usable & ~((np.abs(nearest) < info.tiny) & (np.abs(y) <= info.tiny))
    return np.where(usable, np.where(np.isnan(error), np.inf, error), 0).astype(np.float64)


def normal(x: np.ndarray) -> np.ndarray:
    """Whether numbers are zero or normal."""
    return np.isfinite(x) & ((np.abs(x) >= np.finfo(x.dtype).tiny) | (x == 0))


def worst(previous: Worst, error: np.ndarray, *arguments: np.ndarray) -> Worst:
    i = int(np.argmax(error))
    return max(
        previous,
        Worst(float(error[i]), tuple(x[i].item() for x in arguments)),
        key=lambda w: w.error,
    )


def wide_reference(function: Function, arguments: tuple[np.ndarray, ...]) -> np.ndarray:
    """The function in a wider type: float64 for float32, long double for float64."""
    import scipy.special

    wider = np.float64 if arguments[0].dtype == np.float32 else np.longdouble
    values: Any = [x.astype(wider) for x in arguments]
    for name in reversed(function.wide.split()):
        where: Any = scipy.special if name.startswith("special.") else np
        values = [getattr(where, name.removeprefix("special."))(*values)]
    return values[0]


def measured_everywhere(function: Function, libraries: list[Library], step: int) -> list[Worst]:
    """The largest error of each library over all inputs of float32, or one of every `step`."""

    def usable(x: np.ndarray) -> np.ndarray:
        low, high = function.domain
        return normal(x) & (x >= low) & (x <= high)

    name = f"jax.{function.path}"
    text = (
        f"lambda x: jnp.where({name}(lax.optimization_barrier(-x)) == {function.parity} * {name}(x)"
        f", {name}(x), jnp.nan)"
    )

    def applied(library: Library) -> Any:
        return lambda x: library.apply(text if function.parity else function.path, x).value

    found = sweep(
        lambda x: wide_reference(function, (x,)),
        usable,
        list(map(applied, libraries)),
        errors,
        step,
        positive=bool(function.parity),
    )
    if function.exact:
        found = [decided(one, lambda x: by_mpmath(function.exact, x), errors) for one in found]
    return [Worst(one[-1].error, (one[-1].x,)) if one else Worst(0.5, ()) for one in found]


def measured(
    function: Function, dtype: Any, libraries: list[Library], step: int | None
) -> list[Worst]:
    """The largest error of each library. step: of all inputs of float32, one of so many."""
    if step and dtype == np.float32 and function.arguments == 1:
        return measured_everywhere(function, libraries, step)
    found = [Worst(0.0, ())] * len(libraries)
    slow = bool(function.exact) and dtype == np.float64
    for arguments in inputs(function, dtype, 800 if slow else 2**20):
        low, high = function.domain
        usable = np.all([normal(x) & (x >= low) & (x <= high) for x in arguments], axis=0)
        exact = (
            by_mpmath(function.exact, arguments[0]) if slow else wide_reference(function, arguments)
        )
        usable &= ~(slow & np.isnan(exact))
        for i, library in enumerate(libraries):
            y = library.apply(function.path, *arguments).value
            found[i] = worst(found[i], errors(y, exact, usable), *arguments)
    return found


def measured_complex(function: Function, dtype: Any, libraries: list[Library]) -> list[Worst]:
    """The largest error of a part of the result, in ulp of that part.

    Of complex64 a reference in more digits chooses the inputs at which mpmath decides.
    """
    z = planes(dtype, 2**14 if dtype == np.float32 else 300)
    z = z[normal(z.real) & normal(z.imag)]
    found = []
    for library in libraries:
        at, y = z, library.apply(function.path, z).value
        if dtype == np.float32:
            chosen = np.argsort(part_errors(y, complex_in_more_digits(function.wide, z)))[-LEFT:]
            at, y = z[chosen], y[chosen]
        found.append(
            worst(Worst(0.0, ()), part_errors(y, complex_by_mpmath(function.wide, at)), at)
        )
    return found


def part_errors(y: np.ndarray, parts: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The larger of the errors of the parts."""
    return np.maximum(
        *(
            errors(part, exact, np.isfinite(exact))
            for part, exact in zip((y.real, y.imag), parts, strict=True)
        )
    )


def seconds(function: Function, dtype: Any, libraries: list[Library]) -> list[float]:
    """The CPU time of 10^5 elements of usual size, the least of sixty calls in turns."""
    numbers = np.random.default_rng(1).uniform(0.01, 0.99, (2 * function.arguments, 10**5))
    arguments = (numbers[::2] + (1j * numbers[1::2] if np.dtype(dtype).kind == "c" else 0)).astype(
        dtype
    )
    return [
        min(times)
        for times in zip(
            *(
                [
                    library.apply(function.path, *arguments, repetitions=20).cpu
                    for library in libraries
                ]
                for _ in range(3)
            ),
            strict=True,
        )
    ]


def print_table(
    title: str,
    functions: list[Function],
    names: list[str],
    libraries: list[Library],
    step: int | None,
) -> None:
    heads = [f"{name} {library.name}" for name in names for library in libraries] + [
        f"{name} time" for name in names
    ]
    print(f"\n## {title}\n\n| function | {' | '.join(heads)} |\n|{' --- |' * (1 + len(heads))}")
    for function in functions:
        cells, times = [], []
        for name in names:
            dtype = np.finfo(name).dtype
            found = (
                measured_complex(function, dtype, libraries)
                if name.startswith("complex")
                else measured(function, dtype, libraries, step)
            )
            cells += [str(one) for one in found]
            spent = seconds(function, np.dtype(name), libraries)
            times.append(
                f"{spent[0] * 1e3:.3f} ms"
                + (f", {spent[0] / spent[1]:.2f} of JAX's" if len(spent) > 1 else "")
            )
        print(f"| {function.path} | {' | '.join(cells + times)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jax", help="the Python that has JAX; without, Teucer alone")
    parser.add_argument("--all", action="store_true", help="all inputs of float32")
    parser.add_argument("--step", type=int, default=1, help="with --all, one of so many inputs")
    parser.add_argument("--dtypes", default="float32,float64,complex64,complex128")
    parser.add_argument("names", nargs="*", help="functions; all without")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    pythons = {"teucer": sys.executable, "jax": options.jax}
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        libraries = [Library(python, name, folder) for name, python in pythons.items() if python]
        for title, table, kind in (
            ("Elementary functions", ELEMENTARY, "float"),
            ("Special functions", SPECIAL, "float"),
            ("Complex functions", COMPLEX, "complex"),
        ):
            chosen = [
                f for f in table if not options.names or f.path.rpartition(".")[2] in options.names
            ]
            dtypes = [name for name in options.dtypes.split(",") if name.startswith(kind)]
            if chosen and dtypes:
                print_table(title, chosen, dtypes, libraries, options.step if options.all else None)


if __name__ == "__main__":
    main()

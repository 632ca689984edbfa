"""The measures of one library.

`python measures.py jax small` prints a JSON object, seconds by measure.

One file for both libraries, run in the environment of each by compare.py; `import jax` here is the
text "jax" on the command line.
"""

import argparse
import importlib
import itertools
import json
import resource
import statistics
import sys
import time

SECONDS_A_MEASURE = 0.3
REPEATS = 7
# steps before those that are measured, as in a training loop: malloc and the thread pools find
# their ways
WARM_UP = 5
CHAIN = 1000


def measure_import(library):
    """Import of the library when NumPy and jaxlib's extension are loaded already."""
    import jaxlib._jax  # noqa: F401
    import numpy  # noqa: F401

    start = time.perf_counter()
    importlib.import_module(library)
    importlib.import_module(f"{library}.numpy")
    return {"import": time.perf_counter() - start}


def measure_small(library):
    """Calls, tracing and lowering: all that happens in microseconds."""
    jax = importlib.import_module(library)
    jnp = importlib.import_module(f"{library}.numpy")
    x, y = jnp.arange(10.0), jnp.ones(10)
    many = [jnp.ones(10) + i for i in range(40)]
    one_argument = jax.jit(lambda x: x + 1)
    forty = jax.jit(lambda *xs: [x + 1 for x in xs])
    calls = {
        "jit_call_1": lambda: one_argument(x),
        "jit_call_40": lambda: forty(*many),
        "eager_add": lambda: x + y,
        "eager_index": lambda: x[0],
        "eager_at_set": lambda: x.at[0].set(5.0),
        "eager_grad": lambda: jax.grad(lambda x: jnp.sum(jnp.sin(x) * x))(x),
        "eager_vmap": lambda: jax.vmap(lambda x: jnp.sin(x) * x)(x),
    }
    results = {name: per_call(call, jax.block_until_ready) for name, call in calls.items()}
    stages = {
        "trace": lambda: once(lambda f=chain(jnp): jax.make_jaxpr(f)(x)),
        "trace_grad": lambda: once(
            lambda f=chain(jnp): jax.make_jaxpr(jax.grad(lambda x: jnp.sum(f(x))))(x)
        ),
        "lower": lambda: once(jax.jit(chain(jnp)).trace(x).lower),
    }
    for name, stage in stages.items():
        stage()
        results[name] = statistics.median(stage() for _ in range(REPEATS)) / CHAIN
    return results


def measure_program(library, name):
    """Trace, lower and compile a program of programs.py, and run it. Its value shows that both
    libraries run the same program."""
    jax = importlib.import_module(library)
    jnp = importlib.import_module(f"{library}.numpy")
    importlib.import_module(f"{library}.scipy.linalg")
    import programs

    function, args = programs.PROGRAMS[name](jax, jnp)
    args = jax.device_put(args)
    jax.block_until_ready(one_small_program(jax, jnp))
    stages = [time.perf_counter()]
    traced = jax.jit(function).trace(*args)
    stages.append(time.perf_counter())
    lowered = traced.lower()
    stages.append(time.perf_counter())
    compiled = lowered.compile()
    stages.append(time.perf_counter())
    results = jax.block_until_ready(compiled(*args))
    first = time.perf_counter() - stages[0]
    times = []
    for _ in range(WARM_UP + REPEATS):
        start = time.perf_counter()
        results = jax.block_until_ready(compiled(*args))
        times.append(time.perf_counter() - start)
    trace, lower, compile_ = (end - start for start, end in itertools.pairwise(stages))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {
        "trace": trace,
        "lower": lower,
        "compile": compile_,
        "ready": stages[-1] - stages[0],
        "first": first,
        "run": statistics.median(times[WARM_UP:]),
        "memory": memory,
        "value": float(jax.tree.leaves(results)[-1]),
    }
    return {f"{name}.{measure}": value for measure, value in figures.items()}


def one_small_program(jax, jnp):
    """Starts the backend, whose start is no part of what is measured."""
    return jax.jit(lambda x: x + 1)(jnp.ones(3))


def chain(jnp):
    """A new function of CHAIN operations: new, because traces are cached by function."""

    def apply(x):
        for _ in range(CHAIN // 2):
            x = jnp.sin(x)
            x = x * 0.5
        return x

    return apply


def once(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def per_call(call, wait):
    """Median over REPEATS runs of the time of a call, each run long enough to be measured."""
    wait(call())

    def run(number):
        start = time.perf_counter()
        for _ in range(number):
            result = call()
        wait(result)
        return (time.perf_counter() - start) / number

    number = max(1, int(SECONDS_A_MEASURE / REPEATS / run(20)))
    return statistics.median(run(number) for _ in range(REPEATS))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("group", choices=["import", "small", "program"])
    parser.add_argument("--name", help="one of programs.py")
    options = parser.parse_args()
    if options.group == "import":
        results = measure_import(options.library)
    elif options.group == "small":
        results = measure_small(options.library)
    else:
        results = measure_program(options.library, options.name)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()

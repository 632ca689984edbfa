"""The measures of one library: `python measures.py jax small` prints a JSON object, seconds by measure.

One file for both libraries, run in the environment of each by compare.py; `import jax` here is the text "jax" on the
command line.
"""

import argparse
import importlib
import json
import statistics
import sys
import time

SECONDS_A_MEASURE = 0.3
REPEATS = 7
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
        "trace_grad": lambda: once(lambda f=chain(jnp): jax.make_jaxpr(jax.grad(lambda x: jnp.sum(f(x))))(x)),
        "lower": lambda: once(jax.jit(chain(jnp)).trace(x).lower),
    }
    for name, stage in stages.items():
        stage()
        results[name] = statistics.median(stage() for _ in range(REPEATS)) / CHAIN
    return results


def measure_transformer(library, layers):
    """Trace, lower and compile a training step, and run it. The loss shows that both libraries run the same program."""
    jax = importlib.import_module(library)
    jnp = importlib.import_module(f"{library}.numpy")
    import transformer

    params, batch = transformer.init_params(layers), transformer.make_batch()
    params, batch = jax.tree.map(jnp.asarray, (params, batch))
    jax.block_until_ready(one_small_program(jax, jnp))
    step = jax.jit(transformer.make_train_step(jax, jnp))
    start = time.perf_counter()
    compiled = step.trace(params, *batch).lower().compile()
    compile_time = time.perf_counter() - start
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        params, loss = jax.block_until_ready(compiled(params, *batch))
        times.append(time.perf_counter() - start)
    return {f"compile_{layers}": compile_time, f"run_{layers}": statistics.median(times), f"loss_{layers}": float(loss)}


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
    parser.add_argument("group", choices=["import", "small", "transformer"])
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    if options.group == "import":
        results = measure_import(options.library)
    elif options.group == "small":
        results = measure_small(options.library)
    else:
        results = measure_transformer(options.library, options.layers)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()

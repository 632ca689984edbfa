"""Makes result_types.json: dtypes and weak types of results. Run by a Python that has jax: python make_result_types.py jax.

Each function of jax.numpy, jax.nn and jax.scipy.special that takes one or two operands, on operands of every kind; with 64 bits
those that take one.
"""

import importlib
import itertools
import json
import sys
import warnings
from pathlib import Path

OPERANDS = (
    "1.0",
    "2",
    "True",
    "1j",
    "asarray(1.0)",
    "asarray(2)",
    "float32(1)",
    "int8(2)",
    "float16(1)",
    "ones(2)",
    "arange(3)",
    "array([True])",
    "bfloat16(1)",
    "uint32(2)",
)
PAIRS = ("1.0", "2", "True", "asarray(2)", "float32(1)", "int8(2)", "float16(1)", "ones(2)")
# Whose results differ from call to call, or that do more than compute.
LEFT_OUT = {
    "can_cast",
    "save",
    "savez",
    "load",
    "printoptions",
    "set_printoptions",
    "get_printoptions",
    "array_repr",
    "array_str",
    "from_dlpack",
    "fromfile",
    "frombuffer",
    "fromstring",
    "fromiter",
    "empty",
    "empty_like",
    "rng_uniform",
    "rng_bit_generator",
}
MODULES = ("numpy", "nn", "scipy.special")
EXPRESSIONS = (
    "lax.cond(True, lambda: 1.0, lambda: jnp.float32(2))",
    "lax.cond(True, lambda: jnp.float32(2), lambda: 1.0)",
    "lax.switch(1, [lambda: 3.0, lambda: 1.0, lambda: jnp.float32(2)])",
    "lax.switch(0, [lambda: jnp.float32(2), lambda: 1.0, lambda: 2.0])",
    "lax.cond(True, lambda: (1.0, jnp.float32(1)), lambda: (jnp.float32(2), 1.0))",
    "lax.while_loop(lambda x: x < 3, lambda x: x + jnp.float32(1), 1.0)",
    "lax.fori_loop(0, 3, lambda i, x: x + 1, 1.0)",
    "lax.scan(lambda c, _: (c * jnp.float32(2), c), 1.0, None, length=2)",
    "lax.map(lambda x: x * 2, jnp.arange(2))",
    "jnp.average(2.0, weights=1.0, returned=True)",
    "jnp.average(2.0, returned=True)",
    "jnp.average(2, returned=True)",
    "jnp.full_like(1.0, 2)",
    "jnp.full_like(1, 2.0)",
    "jnp.full((), 2)",
    "jnp.full(2, 2.0)",
    "jnp.insert(1.0, 0, 5)",
    "jnp.insert(jnp.arange(3), 1, 5)",
    "jnp.insert(jnp.asarray(1.0), 0, 5)",
    "jnp.append(1.0, 2.0)",
    "jnp.array_equal(1, 1, equal_nan=True)",
    "jnp.isin(3, 3)",
    "jnp.linspace(0, 1, 3)",
    "jnp.linspace(0, 1, 3, dtype=int)",
    "jnp.nonzero(jnp.arange(3), size=4, fill_value=2.5)",
    "jnp.nonzero(jnp.arange(3), size=4)",
    "jnp.digitize(1.0, jnp.arange(2.0))",
    "jnp.searchsorted(jnp.arange(3.0), 1.0)",
    "jnp.array([True]) ** 2",
    "True ** jnp.array(2)",
    "jnp.angle(jnp.float16(-1))",
    "jnp.angle(1.0, deg=True)",
    "jnp.trapezoid(jnp.ones(3), dx=1j)",
    "jax.random.permutation(key, np.int8(3))",
    "jax.random.permutation(key, 3)",
    "jax.random.choice(key, 3)",
    "jax.random.choice(key, np.int8(3), (2,))",
    "jax.flatten_util.ravel_pytree(1.0)[0]",
    "jax.flatten_util.ravel_pytree((1.0, 2.0))[0]",
    "jax.flatten_util.ravel_pytree((1.0, 2))[0]",
    "jax.flatten_util.ravel_pytree((1.0, 2))[1](jnp.ones(2))",
    "jax.scipy.linalg.toeplitz(1.0)",
    "jnp.histogram(jnp.arange(3), 2)",
    "jnp.bincount(jnp.arange(3))",
    "jnp.unique(3)",
    "jnp.setxor1d(3, 2)",
    "jnp.setdiff1d(3, 2.0)",
    "jnp.intersect1d(3, 3)",
    "jnp.union1d(3, 2)",
    "jnp.setdiff1d(3, 2, size=2)",
    "jax.ops.segment_sum(jnp.arange(3), jnp.arange(3))",
    "jnp.polyadd(jnp.ones((2, 3)), jnp.ones((1, 3)))",
    "jax.grad(lambda x: x * 2)(1.0)",
    "jax.jvp(jnp.sin, (1.0,), (1.0,))",
    "jax.vmap(lambda x: x * 2)(jnp.arange(2))",
)


def main(name, x64):
    """The types by expression."""
    jax = importlib.import_module(name)
    for module in ("ops", "flatten_util", "scipy.linalg"):
        importlib.import_module(f"{name}.{module}")
    jnp = importlib.import_module(f"{name}.numpy")
    import numpy as np

    scope = {
        "jnp": jnp,
        "np": np,
        "jax": jax,
        "lax": importlib.import_module(f"{name}.lax"),
        "key": jax.random.key(0),
    }
    operands = {text: eval(text, {n: getattr(jnp, n) for n in dir(jnp)}) for text in OPERANDS}
    out = {}
    for inner in MODULES:
        module = importlib.import_module(f"{name}.{inner}")
        for function_name in sorted(dir(module)):
            function = getattr(module, function_name)
            if (
                function_name[0] == "_"
                or function_name in LEFT_OUT
                or not callable(function)
                or isinstance(function, type)
            ):
                continue
            for texts in itertools.chain(
                ((t,) for t in OPERANDS), () if x64 else itertools.product(PAIRS, PAIRS)
            ):
                types = result(
                    lambda f=function, ts=texts: jax.eval_shape(f, *(operands[t] for t in ts))
                )
                if types is not None:
                    out[f"{inner}.{function_name}({', '.join(texts)})"] = types
    for text in EXPRESSIONS:
        out[text] = result(lambda text=text: eval(text, scope))
    return out


def result(call):
    """The types of the arrays that a call gives, None if it raises or gives others."""
    try:
        found = call()
    except Exception:
        return None
    leaves = (
        [found]
        if hasattr(found, "weak_type")
        else list(found)
        if isinstance(found, tuple | list) and found
        else []
    )
    if not all(hasattr(x, "weak_type") for x in leaves) or not leaves:
        return None
    return " ".join(f"{'~' if x.weak_type else ''}{x.dtype}" for x in leaves)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for x64 in (False, True) if len(sys.argv) < 3 else (sys.argv[2] == "x64",):
        importlib.import_module(sys.argv[1]).config.update("jax_enable_x64", x64)
        table = main(sys.argv[1], x64)
        path = Path(
            sys.argv[3]
            if len(sys.argv) > 3
            else Path(__file__).with_name(f"result_types{'_x64' if x64 else ''}.json")
        )
        path.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")
        print(path, len(table))

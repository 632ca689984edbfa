"""A training step of a 12-layer transformer over a mesh of 2 x 4 devices, in JAX's three modes.

Compile time and run time.

`python benchmarks/sharded.py --jax PYTHON --teucer PYTHON` runs both in turns, each mode in a
process of its own, and prints a table. The layers stand in a Python loop, as users write them.
Along "data" the batch is divided, along "model" heads and hidden units are.
"""

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

import numpy as np

WIDTH, HEADS, HIDDEN, VOCABULARY, BATCH, LENGTH, RATE = 128, 4, 512, 256, 8, 64, 0.01
MODES = ("auto", "explicit", "manual")


def specs(layers, P):
    """How every parameter lies over the mesh."""
    norm = {"scale": P(None), "bias": P(None)}
    block = {
        "qkv": P(None, None, "model", None),
        "out": P("model", None, None),
        "up": P(None, "model"),
        "down": P("model", None),
        "norms": [norm, norm],
    }
    return {
        "embedding": P(None, None),
        "position": P(None, None),
        "blocks": [block] * layers,
        "norm": norm,
        "logits": P(None, "model"),
    }


def init(layers):
    """Parameters as NumPy arrays, the same for every library."""
    rng = np.random.default_rng(0)

    def weights(*shape, inputs=None):
        return (rng.standard_normal(shape) / np.sqrt(inputs or shape[0])).astype(np.float32)

    def norm():
        return {"scale": np.ones(WIDTH, np.float32), "bias": np.zeros(WIDTH, np.float32)}

    def block():
        return {
            "qkv": weights(WIDTH, 3, HEADS, WIDTH // HEADS),
            "out": weights(HEADS, WIDTH // HEADS, WIDTH, inputs=WIDTH),
            "up": weights(WIDTH, HIDDEN),
            "down": weights(HIDDEN, WIDTH),
            "norms": [norm(), norm()],
        }

    return {
        "embedding": weights(VOCABULARY, WIDTH),
        "position": weights(LENGTH, WIDTH),
        "blocks": [block() for _ in range(layers)],
        "norm": norm(),
        "logits": weights(WIDTH, VOCABULARY),
    }


def batch():
    """Tokens and the tokens that follow them, one-hot: f32[8,64,256] each."""
    tokens = np.random.default_rng(1).integers(VOCABULARY, size=(BATCH, LENGTH + 1))
    hot = np.eye(VOCABULARY, dtype=np.float32)[tokens]
    return hot[:, :-1], hot[:, 1:]


def make_loss(jax, jnp, product, share=lambda x: x, summed=lambda x: x, greatest=lambda x: x):
    """loss(params, inputs, targets) -> f32[].

    product(subscripts, x, w): one that is summed over "model". share: of values before products
    with divided weights. summed, greatest: what completes a sum or a maximum over the vocabulary.
    """

    def norm(x, params):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * params["scale"] + params["bias"]

    def attention(block, x):
        qkv = jnp.einsum("bld,dchk->cblhk", share(x), block["qkv"])
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // HEADS)
        causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        shares = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        return product("bqhd,hdw->bqw", jnp.einsum("bhqk,bkhd->bqhd", shares, v), block["out"])

    def loss(params, inputs, targets):
        x = inputs @ params["embedding"] + params["position"]
        for block in params["blocks"]:
            x = x + attention(block, norm(x, block["norms"][0]))
            hidden = jax.nn.gelu(share(norm(x, block["norms"][1])) @ block["up"])
            x = x + product("blh,hd->bld", hidden, block["down"])
        logits = share(norm(x, params["norm"])) @ params["logits"]
        logits = logits - greatest(jax.lax.stop_gradient(jnp.max(logits, -1, keepdims=True)))
        total = jnp.log(summed(jnp.sum(jnp.exp(logits), -1)))
        return jnp.mean(total - summed(jnp.sum(logits * targets, -1)))

    return loss


def step_of(jax, loss, average=lambda value: value):
    """One step of gradient descent."""

    def step(params, inputs, targets):
        value, gradients = jax.value_and_grad(lambda p: average(loss(p, inputs, targets)))(params)
        return jax.tree.map(lambda p, g: p - RATE * g, params, gradients), value

    return step


def make(jax, jnp, mode, layers):
    """The step of a mode, jitted, and its arguments laid over the mesh; call it under the mesh that
    is returned too."""
    P, lax = jax.sharding.PartitionSpec, jax.lax
    kind = jax.sharding.AxisType.Explicit if mode == "explicit" else jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(kind, kind))
    places, data = (
        specs(layers, P),
        (P("data"), P("data") if mode != "manual" else P("data", None, "model")),
    )
    leaf = {"is_leaf": lambda x: isinstance(x, P)}
    places = jax.tree.map(lambda s: jax.sharding.NamedSharding(mesh, s), places, **leaf)
    args = (
        jax.device_put(init(layers), places),
        *(
            jax.device_put(x, jax.sharding.NamedSharding(mesh, s))
            for x, s in zip(batch(), data, strict=True)
        ),
    )
    if mode == "auto":
        step = jax.jit(step_of(jax, make_loss(jax, jnp, jnp.einsum)), donate_argnums=0)
    elif mode == "explicit":

        def product(subscripts, x, w):
            return jnp.einsum(subscripts, x, w, out_sharding=P("data"))

        step = jax.jit(step_of(jax, make_loss(jax, jnp, product)), donate_argnums=0)
    else:
        loss = make_loss(
            jax,
            jnp,
            lambda s, x, w: lax.psum(jnp.einsum(s, x, w), "model"),
            summed=lambda x: lax.psum(x, "model"),
            greatest=lambda x: lax.pmax(x, "model"),
        )
        own = specs(layers, P)
        step = jax.jit(
            jax.shard_map(
                step_of(jax, loss, lambda v: lax.pmean(v, "data")),
                mesh=mesh,
                in_specs=(own, P("data"), P("data", None, "model")),
                out_specs=(own, P()),
            ),
            donate_argnums=0,
        )
    return mesh, step, args


def measure(library, mode, layers):
    """Seconds of tracing, lowering and compiling, on the clock and of processors, and of a step,
    and the loss after all steps, as JSON."""
    jax, jnp = importlib.import_module(library), importlib.import_module(f"{library}.numpy")
    jax.config.update("jax_num_cpu_devices", 8)
    mesh, step, args = make(jax, jnp, mode, layers)
    with jax.set_mesh(mesh):
        start, cpu = time.perf_counter(), time.process_time()
        compiled = step.lower(*args).compile()
        ready, cpu = time.perf_counter() - start, time.process_time() - cpu
        params, value = compiled(*args)
        times = []
        for _ in range(15):
            start = time.perf_counter()
            params, value = compiled(params, *args[1:])
            value.block_until_ready()
            times.append(time.perf_counter() - start)
    print(
        json.dumps(
            {
                "ready": ready,
                "cpu": cpu,
                "run": min(times),
                "median": statistics.median(times),
                "value": float(value),
            }
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", help="a Python that has JAX")
    parser.add_argument("--teucer", help="a Python that has Teucer")
    parser.add_argument(
        "--rounds",
        type=int,
        default=2,
        help="how often each library has its turn (default: %(default)s)",
    )
    parser.add_argument("--layers", type=int, default=12, help="(default: %(default)s)")
    parser.add_argument(
        "--modes", default=",".join(MODES), help="with commas (default: %(default)s)"
    )
    parser.add_argument(
        "--measure", choices=("jax", "teucer"), help="one measurement, in this process"
    )
    options = parser.parse_args()
    modes = options.modes.split(",")
    if options.measure:
        measure(options.measure, modes[0], options.layers)
        return
    figures = defaultdict(list)
    for _ in range(options.rounds):
        for mode in modes:
            for library in ("jax", "teucer"):
                python = getattr(options, library)
                if python is not None:
                    figures[mode, library].append(run(python, library, mode, options.layers))
    print_table(figures, modes)


def run(python, library, mode, layers):
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [python, __file__, "--measure", library, "--modes", mode, "--layers", str(layers)],
            check=True,
            env=os.environ | {"TEUCER_CACHE_DIR": cache},
            stdout=subprocess.PIPE,
            text=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def print_table(figures, modes):
    print(
        "| mode | ready, s: JAX / Teucer | | the same of processors | | a step, ms | | losses "
        "agree |"
    )
    print("| --- " * 8 + "|")
    for mode in modes:
        theirs, ours = (figures.get((mode, library)) for library in ("jax", "teucer"))
        if not theirs or not ours:
            print(f"| {mode} | {theirs or ours}")
            continue
        cells = [mode]
        for name, scale in (("ready", 1), ("cpu", 1), ("run", 1e3)):
            first, second = (min(f[name] for f in both) * scale for both in (theirs, ours))
            cells += [f"{first:.3g} / {second:.3g}", f"{first / second:.1f}x"]
        same = math.isclose(theirs[0]["value"], ours[0]["value"], rel_tol=1e-4)
        print(
            f"| {' | '.join(cells)} | {'yes' if same else (theirs[0]['value'], ours[0]['value'])} |"
        )


if __name__ == "__main__":
    sys.exit(main())

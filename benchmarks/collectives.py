"""Collectives of the compiled programs of `examples/parallel/` and of `sharded.py`.

Those of JAX beside those of Teucer.

`python benchmarks/collectives.py --jax PYTHON --teucer PYTHON` compiles each training step for 8
simulated devices in both, and prints a table of how many collectives a device takes part in, and
how many bytes it gives to them. Run it by a Python that has Teucer, whose reader of compiled
programs counts them. JAX runs the same sources, with the names of the packages changed.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import types
from collections import Counter
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples" / "parallel"
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def example(name, library):
    """A program of examples/parallel/ as a module that uses a library."""
    return module(name, (EXAMPLES / f"{name}.py").read_text(), library)


def module(name, source, library):
    if library == "jax":
        demo = "from teucer.cli.demos import spectral_radius as demo"
        if demo in source:
            text = (
                EXAMPLES.parents[1] / "teucer" / "cli" / "demos" / "spectral_radius.py"
            ).read_text()
            sys.modules["spectral_radius"] = module("spectral_radius", text, library)
            source = source.replace(demo, "import spectral_radius as demo")
        source = source.replace("teucer", "jax").replace("import jax as jax", "import jax")
    made = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), vars(made))
    return made


def steps(library):
    """The training steps: name -> a function that lowers it."""
    jax, jnp = importlib.import_module(library), importlib.import_module(f"{library}.numpy")
    jax.config.update("jax_num_cpu_devices", 8)
    P = jax.sharding.PartitionSpec

    def mesh_of(kind=jax.sharding.AxisType.Auto, **sizes):
        return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(kind,) * len(sizes))

    def struct(mesh, shape, spec):
        return jax.ShapeDtypeStruct(
            shape, jnp.float32, sharding=jax.sharding.NamedSharding(mesh, spec)
        )

    def manual(f, mesh, in_specs, out_specs, loss, argnums, *args):
        run = jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
        return jax.jit(jax.value_and_grad(lambda *a: loss(run(*a), *a), argnums)).lower(*args)

    def data_parallel():
        program = example("data_parallel", library)
        demo = program.demo
        state = demo.init_optimizer(demo.init_model(jax.random.key(0), (2, 2))[1])
        return program.train_step.lower(
            0,
            state,
            jnp.ones((program.DEVICES, demo.BATCH // program.DEVICES, 2, 2), jnp.complex64),
        )

    def transformer(mode):
        program = example("transformer", library)
        kind, make = program.MODES[mode]
        mesh = mesh_of(kind, data=2, model=4)
        with jax.set_mesh(mesh):
            shapes = jax.eval_shape(program.init, jax.random.key(0))
            params = {
                name: struct(mesh, w.shape, program.stacked(program.SPECS[name]))
                for name, w in shapes.items()
            }
            x = struct(mesh, (program.BATCH, program.LENGTH, program.WIDTH), P("data"))
            return make(mesh).lower(params, x, x)

    def pipeline():
        program = example("pipeline", library)
        mesh = mesh_of(stage=program.STAGES)
        return manual(
            program.pipelined,
            mesh,
            (P("stage"), P()),
            P(),
            lambda y, w, x: jnp.mean((y - jnp.sin(2 * x)) ** 2),
            0,
            struct(mesh, (program.STAGES, program.WIDTH, program.WIDTH), P("stage")),
            struct(mesh, (program.PARTS, program.SIZE, program.WIDTH), P()),
        )

    def mixture():
        program = example("mixture_of_experts", library)
        n, width = program.EXPERTS, program.WIDTH
        mesh = mesh_of(expert=n)
        return manual(
            program.mixture,
            mesh,
            (P(), P("expert"), P("expert")),
            P("expert"),
            lambda y, *a: jnp.sum(jnp.sin(y)),
            (0, 1, 2),
            struct(mesh, (width, n), P()),
            struct(mesh, (n, width, width), P("expert")),
            struct(mesh, (n * program.TOKENS, width), P("expert")),
        )

    def ring():
        program = example("ring_attention", library)
        mesh = mesh_of(ring=program.DEVICES)
        shape = program.LENGTH, program.HEADS, program.DEPTH
        return manual(
            program.ring_attention,
            mesh,
            P("ring"),
            P("ring"),
            lambda y, *a: jnp.sum(jnp.sin(y)),
            (0, 1, 2),
            *[struct(mesh, shape, P("ring"))] * 3,
        )

    def layers(mode):
        sharded = importlib.import_module("sharded")
        mesh, step, args = sharded.make(jax, jnp, mode, 12)
        with jax.set_mesh(mesh):
            return step.lower(*args)

    modes = ("auto", "explicit", "manual")
    return {
        "data_parallel": data_parallel,
        **{f"transformer, {m}": lambda m=m: transformer(m) for m in modes},
        "pipeline": pipeline,
        "mixture_of_experts": mixture,
        "ring_attention": ring,
        **{f"12 layers in a Python loop, {m}": lambda m=m: layers(m) for m in modes},
    }


def compiled(python, library, names):
    """The texts of the compiled steps, by name."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [python, __file__, "--texts", library, "--names", *names],
            check=True,
            text=True,
            env=os.environ | {"TEUCER_CACHE_DIR": cache},
            stdout=subprocess.PIPE,
        )
    return json.loads(done.stdout.splitlines()[-1])


def counted(text):
    """For each kind how many collectives run, and the bytes of their operands and results, the
    larger of both."""
    from teucer._derived.communication import hlo

    program, found, sizes = hlo.Module(text), Counter(), Counter()
    for name, computation in program.computations.items():
        for instruction in computation.instructions.values():
            kind = instruction.opcode.removesuffix("-start")
            if kind in KINDS:
                types_of = [computation.instructions[o].type for o in instruction.operands]
                times = program.runs[name]
                found[kind] += times
                sizes[kind] += times * max(
                    sum(map(hlo.bytes_of, types_of)), hlo.bytes_of(instruction.type)
                )
    return {kind: (found[kind], sizes[kind]) for kind in KINDS if found[kind]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", help="a Python that has JAX")
    parser.add_argument("--teucer", help="a Python that has Teucer")
    parser.add_argument("--names", nargs="*", help="which programs (default: all)")
    parser.add_argument(
        "--texts", choices=("jax", "teucer"), help="print the texts of one library, as JSON"
    )
    options = parser.parse_args()
    if options.texts:
        wanted = steps(options.texts)
        print(json.dumps({name: wanted[name]().compile().as_text() for name in options.names}))
        return
    names = options.names or list(steps("teucer"))
    texts = [compiled(getattr(options, library), library, names) for library in ("jax", "teucer")]
    print("| program | collective | JAX: how many, bytes | Teucer |\n| --- | --- | --- | --- |")
    for name in names:
        theirs, ours = (counted(text[name]) for text in texts)
        for kind in KINDS:
            if kind in theirs or kind in ours:
                cells = [
                    f"{count:g}, {size:,.0f}"
                    for count, size in (found.get(kind, (0, 0)) for found in (theirs, ours))
                ]
                print(
                    f"| {name} | {kind} | {cells[0]} | "
                    f"{cells[1] if cells[0] != cells[1] else 'the same'} |"
                )


if __name__ == "__main__":
    main()

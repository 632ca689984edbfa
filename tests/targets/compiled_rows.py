"""The operation table compiled for devices that are not there, a row and a dtype at a time.

    python tests/targets/compiled_rows.py v5e H100 --derivatives --dtypes float32 --out rows.jsonl

compiles in a child process, which a compiler may end: the row then counts as refused, and the next
child goes on. With --out, rows that stand in the file are not compiled again.
"""

import argparse
import importlib.util
import json
import multiprocessing
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from optable.table import all_ops, is_64_bit, precision_of
from optable.trees import along, flat_call, moving

import teucer as jax
from teucer.experimental import topologies

TARGETS = {
    "v5e": ("v5e:2x2", "tpu", "libtpu"),
    "v6e": ("v6e:2x2", "tpu", "libtpu"),
    "v5p": ("v5p:2x2x1", "tpu", "libtpu"),
    "v4": ("v4:2x2x1", "tpu", "libtpu"),
    "7x": ("tpu7x:2x2x1", "tpu", "libtpu"),
    "H100": ("h100", "cuda", "jax_cuda13_plugin"),
}
OPS = all_ops()


def is_installed(target):
    return importlib.util.find_spec(TARGETS[target][2]) is not None


def rows(*, wide=False, derivatives=False):
    """The names and dtypes of the table; wide: of 64 bits. Derivatives are of what has them, in
    floating-point and complex numbers."""
    return [
        (name, dtype)
        for name, op in OPS.items()
        for dtype in op.dtypes
        if is_64_bit(dtype) == wide
        and not (derivatives and ("gradient" in op.exceptions or not is_inexact(dtype)))
    ]


def is_inexact(dtype):
    return "float" in dtype or "complex" in dtype


def compile_row(name, dtype, target, *, derivatives=False):
    """All calls of a row in one program, or their derivatives, compiled for a target."""
    topology, platform, _ = TARGETS[target]
    device = topologies.get_topology_desc(topology, platform).devices[0]
    op = OPS[name]
    with precision_of(dtype):
        calls = op.calls(dtype)
        if derivatives:
            calls = calls[: op.gradient_calls]
        functions, operands = [], []
        for call in calls:
            leaves, f = flat_call(op, call)
            if derivatives:
                moves = moving(op, call)
                if not any(moves):
                    continue
                f = along(f, leaves, moves)
                leaves = [x for x, m in zip(leaves, moves, strict=True) if m]
                f = backwards(f)
            functions.append(f)
            operands.append(leaves)
        jax.jit(
            lambda operands: [f(*xs) for f, xs in zip(functions, operands, strict=True)],
            out_shardings=jax.sharding.SingleDeviceSharding(device),
        ).trace(operands).lower(lowering_platforms=(platform,)).compile()


def backwards(f):
    def g(*xs):
        ys, pull = jax.vjp(f, *xs)
        return pull(ys)

    return g


def _serve(connection):
    while (job := connection.recv()) is not None:
        target, name, dtype, derivatives = job
        try:
            compile_row(name, dtype, target, derivatives=derivatives)
            connection.send("")
        except Exception as err:
            connection.send(f"{type(err).__name__}: {err}")


class Child:
    """A process that compiles rows; a new one after each that died, or took too long."""

    def __init__(self, limit):
        self.limit, self.process = limit, None

    def compile(self, job):
        """The reason for which a job fails, '' if it does not."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.end, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()
        self.end.send(job)
        try:
            if self.end.poll(self.limit):
                return self.end.recv()
            reason = f"took longer than {self.limit} s"
        except EOFError:
            self.process.join()
            reason = f"the compiler ended the process ({self.process.exitcode})"
        self.process.kill()
        self.process = None
        return reason

    def close(self):
        if self.process is not None:
            self.end.send(None)
            self.process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=["v5e", "v6e", "v5p", "H100"])
    parser.add_argument("--dtypes", nargs="*", help="only these")
    parser.add_argument("--rows", nargs="*", help="only these")
    parser.add_argument("--wide", action="store_true", help="the types of 64 bits")
    parser.add_argument("--derivatives", action="store_true")
    parser.add_argument("--limit", type=float, default=120, help="seconds a row")
    parser.add_argument("--out", type=Path, help="a file of a line a row, which is gone on with")
    args = parser.parse_args()
    done = {}
    if args.out and args.out.exists():
        for line in args.out.read_text().splitlines():
            *job, reason, _ = json.loads(line)
            done[tuple(job)] = reason
    child = Child(args.limit)
    for target in args.targets:
        results = {}
        for name, dtype in rows(wide=args.wide, derivatives=args.derivatives):
            if (args.dtypes and dtype not in args.dtypes) or (args.rows and name not in args.rows):
                continue
            job = target, name, dtype, args.derivatives
            if job not in done:
                start = time.perf_counter()
                done[job] = child.compile(job)
                if args.out:
                    with args.out.open("a") as file:
                        seconds = round(time.perf_counter() - start, 2)
                        file.write(json.dumps([*job, done[job], seconds]) + "\n")
            results[name, dtype] = done[job]
            if done[job]:
                print(target, name, dtype, done[job].splitlines()[0][:200], flush=True)
        fine = sum(not reason for reason in results.values())
        print(f"{target}: {fine} of {len(results)} rows and dtypes compile", flush=True)
    child.close()


if __name__ == "__main__":
    main()

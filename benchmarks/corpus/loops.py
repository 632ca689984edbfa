"""What XLA makes of cases of the corpus in Teucer beside JAX: counts, which load does not disturb.

    python benchmarks/corpus/loops.py --jax JAX/bin/python mlp_small.train contrastive.forward

Prints for each case the object files that XLA compiles (10 to 14 ms of CPU time each) and the
operations of its optimised programs that are no part of a fusion.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# Their results are parts of others, or constants.
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}
COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
OPERATION = re.compile(r"^ +(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][a-z0-9\-]*)\(")


def compiled(python: str, library: str, case: str) -> Path:
    """The folder into which XLA writes what it makes of a case."""
    folder = Path(tempfile.mkdtemp(prefix="loops"))
    variables = {
        "XLA_FLAGS": f"--xla_dump_to={folder} --xla_dump_hlo_as_text",
        "JAX_ENABLE_COMPILATION_CACHE": "False",
    }
    command = [python, str(HERE / "measure.py"), library, case]
    subprocess.run(
        command,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return folder


def counts(folder: Path) -> tuple[int, collections.Counter[str]]:
    """The loops and the operations of the programs in a folder."""
    operations: collections.Counter[str] = collections.Counter()
    for path in folder.glob("*cpu_after_optimizations.txt"):
        inside = False
        for line in path.read_text().splitlines():
            if head := COMPUTATION.match(line):
                inside = "fused" in head[1] or "wrapped" in head[1]
            elif not inside and (found := OPERATION.match(line)) and found[1] not in FREE:
                operations[found[1]] += 1
    return len(list(folder.glob("*.o"))), operations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", required=True, help="a Python that has JAX")
    parser.add_argument("--teucer", default=sys.executable, help="one that has Teucer")
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    for case in options.cases:
        for library in ("jax", "teucer"):
            loops, operations = counts(compiled(getattr(options, library), library, case))
            rows = ", ".join(f"{name} {n}" for name, n in sorted(operations.items()))
            print(f"{case} in {library}: {loops} loops; {rows}", flush=True)


if __name__ == "__main__":
    main()

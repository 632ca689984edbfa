"""Writes expected/*.txt: what the programs of this folder print under JAX. Run: python record.py PYTHON_WITH_JAX [NAME ...]

A program is made one of JAX's by replacing the name of the package in its imports.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
IMPORT = re.compile(r"^(\s*(?:import|from) )teucer\b", re.MULTILINE)
ALIAS = re.compile(r"^import jax as jax$", re.MULTILINE)


def main(python, *names):
    for path in sorted(HERE.glob("*.py")):
        if (
            path.stem in ("record", "conftest")
            or path.stem.startswith("test_")
            or (names and path.stem not in names)
        ):
            continue
        source = ALIAS.sub("import jax", IMPORT.sub(r"\1jax", path.read_text()))
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(
            [python, "-W", "ignore", "-c", source],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        (HERE / "expected" / f"{path.stem}.txt").write_text(done.stdout)
        print(path.stem, len(done.stdout.splitlines()), "lines")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The names of JAX by release, which `teucer compat check PACKAGE` reads.

`tools/releases.py [--folder F] [RELEASE ...]`: installs each release of JAX that is not there yet
into a throwaway folder, asks it for its names (`releases_names.py`), and writes
`teucer/compat/releases.txt.gz` of all that the folder has. It needs Python 3.12 and two minutes a
release; the folder keeps what was asked, so that a new release is one more.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "teucer" / "compat" / "releases.txt.gz"
# JAX's releases from June 2024 on, in order.
RELEASES = """
    0.4.30 0.4.31 0.4.33 0.4.34 0.4.35 0.4.36 0.4.37 0.4.38 0.5.0 0.5.1 0.5.2 0.5.3 0.6.0 0.6.1
    0.6.2 0.7.0 0.7.1 0.7.2 0.8.0 0.8.1 0.8.2 0.8.3 0.9.0 0.9.0.1 0.9.1 0.9.2 0.10.0 0.10.1
    0.10.2 0.11.0 0.11.1 0.11.2 0.12.0 0.12.0.1
"""
JAXLIB = {"0.4.37": "0.4.36", "0.5.2": "0.5.1"}  # those without a jaxlib of their own
BESIDE = ("numpy==2.2.6", "scipy==1.15.3", "ml_dtypes==0.5.4", "opt_einsum==3.4.0")


def main() -> None:
    """Ask the releases that the command line names, and write the file of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="*", default=RELEASES.split())
    parser.add_argument("--folder", type=Path, default=Path("/tmp/teucer-releases"))
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for release in options.releases:
        if not (folder / f"{release}.jsonl").exists():
            ask(release, folder)
    asked = [r for r in RELEASES.split() if (folder / f"{r}.jsonl").exists()]
    text = written({r: (folder / f"{r}.jsonl").read_text() for r in asked})
    DATA.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{DATA.relative_to(ROOT)}: {len(asked)} releases, {DATA.stat().st_size} bytes")


def ask(release: str, folder: Path) -> None:
    """Write what a release says of itself into the folder."""
    base, place = folder / "base", folder / "current"
    python = base / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet"]
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", base], check=True)
        subprocess.run([*pip, *BESIDE], check=True)
    subprocess.run(["rm", "-rf", place], check=True)
    what = (f"jax=={release}", f"jaxlib=={JAXLIB.get(release, release)}")
    subprocess.run([*pip, "--no-deps", "--target", place, *what], check=True)
    names = subprocess.run(
        [python, ROOT / "tools" / "releases_names.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(place), "JAX_PLATFORMS": "cpu"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    (folder / f"{release}.jsonl").write_text(names.stdout)


def written(said: dict[str, str]) -> str:
    """The file: the releases, then for each module what it has, by the releases that have it.

    A line `first last names` has the indices of releases. `module()` has parameters of functions,
    as `name.parameter`; `module.Class` members of an enumeration; `module!` what the releases
    deprecate. A name that comes back counts as there in between. So does one of a module that a
    release has, and that could not be imported where it was asked.
    """
    found: dict[str, dict[str, list[int]]] = defaultdict(dict)
    unasked: dict[int, list[str]] = {}
    for i, text in enumerate(said.values()):
        *lines, failed = text.splitlines()[1:]
        unasked[i] = json.loads(failed)[1]
        for line in lines:
            module, names, calls, members, deprecated = json.loads(line)
            for name in ("", *names):
                found[module].setdefault(name, []).append(i)
            for name, parameters in calls.items():
                for parameter in ("", *parameters.split()):
                    found[f"{module}()"].setdefault(f"{name}.{parameter}", []).append(i)
            for name, entries in members.items():
                for entry in entries:
                    found[f"{module}.{name}"].setdefault(entry, []).append(i)
            for name, (_, gone) in deprecated.items():
                if not gone:
                    found[f"{module}!"].setdefault(name, []).append(i)
    for i, modules in unasked.items():
        for module in modules:
            for kind in (module, f"{module}()"):
                for where in found[kind].values():
                    where.append(i)
            found[module].setdefault("", []).append(i)
    lines = [
        "# Names of JAX by release, as each release lists its modules (tools/releases.py).",
        " ".join(said),
    ]
    for module, names in sorted(found.items()):
        spans = defaultdict(list)
        for name, where in names.items():
            spans[min(where), max(where)].append(name or ".")
        lines.append(module)
        lines += [f" {a} {b} {' '.join(sorted(n))}" for (a, b), n in sorted(spans.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

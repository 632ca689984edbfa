"""The cells of JAX's documents, run on JAX and on Teucer: what runs, and what prints the same.

    git --git-dir=GIT archive cec06d116c05 docs | tar x -C FOLDER
    documents.py run FOLDER/docs --python PYTHON --impl jax --out jax.json
    documents.py run FOLDER/docs --python PYTHON --impl teucer --out teucer.json
    documents.py compare jax.json teucer.json [--show]

A cell is a code cell, a fenced block of Python, or one example of a doctest. The cells of a page
run in order in one process. Addresses and times are left out of the comparison.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import importlib
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>```+) *(\{code-cell\}|python3?|py|ipython3?|pycon)[^\n]*\n"
    r"(?P<body>.*?)^(?P=indent)(?P=ticks) *$",
    re.MULTILINE | re.DOTALL,
)
OPTIONS = re.compile(r"\A(---\n.*?^---\n|(:[\w-]+:.*\n)+)", re.MULTILINE | re.DOTALL)
# What differs from run to run: addresses, times, folders, numbers of threads.
VARIES = (
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"\b\d+(\.\d+)?(e-?\d+)? ?(ns|us|µs|ms|s|sec|seconds)\b"), "TIME"),
    (re.compile(r"/tmp/[\w/.-]+|/[\w/.-]*site-packages/[\w/.-]+"), "PATH"),
)


def cells(page: Path) -> Iterator[str]:
    """The source of each cell of a page, in order."""
    text = page.read_text()
    spans: list[tuple[int, str]] = []
    for match in FENCE.finditer(text):
        body = OPTIONS.sub("", textwrap.dedent(match["body"]))
        if ">>>" in body:
            spans += [(match.start() + n, code) for n, code in enumerate(examples(body))]
        else:
            spans.append((match.start(), body))
    rest = FENCE.sub(lambda match: "\n" * len(match[0]), text)
    at = 0
    for code in examples(rest):
        at = rest.index(code.split("\n")[0], at) + 1
        spans.append((at, code))
    for _, code in sorted(spans, key=lambda span: span[0]):
        yield "\n".join(
            line for line in code.split("\n") if not line.lstrip().startswith(("%", "!"))
        )


def examples(text: str) -> list[str]:
    """The examples of doctests of a text, as far as doctest can read them."""
    parser = doctest.DocTestParser()
    try:
        return [example.source for example in parser.get_examples(text)]
    except ValueError:
        return []


def run_page(page: Path) -> list[dict[str, str]]:
    """Run the cells of a page in this process: what each printed, showed and raised."""
    # Doctests of JAX's documents begin with these names.
    names = {"jax": "jax", "jnp": "jax.numpy", "lax": "jax.lax", "np": "numpy"}
    scope: dict[str, Any] = {key: importlib.import_module(name) for key, name in names.items()}
    scope["__name__"] = "__main__"
    return [run_cell(f"<{page.stem} {n}>", code, scope) for n, code in enumerate(cells(page))]


def run_cell(name: str, code: str, scope: dict[str, Any]) -> dict[str, str]:
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    printed, error = io.StringIO(), ""
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            tree = ast.parse(code, name)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), scope)
            if last is not None:
                shown = eval(compile(ast.Expression(last.value), name, "eval"), scope)  # type: ignore[attr-defined]
                if shown is not None and not code.rstrip().endswith(";"):
                    print(repr(shown))
            sys.modules["jax"].effects_barrier()
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"
    return {"code": code, "printed": printed.getvalue(), "error": error}


def run(options: argparse.Namespace) -> int:
    """Run each page in a process of its own."""
    folder = options.docs.resolve()
    pages = options.pages or sorted(
        str(page.relative_to(folder))
        for page in folder.rglob("*")
        if page.suffix in (".md", ".rst") and any(cells(page))
    )
    found: dict[str, Any] = {}
    for page in pages:
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "out.json"
            command = [options.python, __file__, "page", str(folder / page), "--out", str(out)]
            command += ["--impl", options.impl]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    command, cwd=place, timeout=options.timeout, stdin=subprocess.DEVNULL,
                    capture_output=not options.verbose, check=False,
                )  # fmt: skip
            if out.exists():
                found[page] = json.loads(out.read_text())
            else:
                found[page] = [
                    {"code": code, "printed": "", "error": "the process ended or took too long"}
                    for code in cells(folder / page)
                ]
        print(page, sum(not cell["error"] for cell in found[page]), len(found[page]), flush=True)
        options.out.write_text(json.dumps(found))
    return 0


def page(options: argparse.Namespace) -> int:
    if options.impl == "teucer":
        __import__("teucer.compat")
    options.out.write_text(json.dumps(run_page(options.docs)))
    # Threads of callbacks that a page has left waiting do not hold up the end.
    os._exit(0)


def same(one: str, other: str) -> bool:
    for pattern, word in VARIES:
        one, other = pattern.sub(word, one), pattern.sub(word, other)
    return one == other


def compare(options: argparse.Namespace) -> int:
    """Count the cells that run on JAX, those that run on Teucer, and those that print the same."""
    jax, teucer = (json.loads(path.read_text()) for path in (options.docs, options.other))
    total = [0, 0, 0, 0, 0]
    for name in jax:
        for n, (one, other) in enumerate(zip(jax[name], teucer.get(name, []), strict=False)):
            both_run = not one["error"] and not other["error"]
            equal = same(one["printed"], other["printed"])
            total[0] += not one["error"]
            total[1] += both_run
            total[2] += both_run and equal
            total[3] += bool(one["error"])
            total[4] += bool(one["error"]) and bool(other["error"])
            kind = (
                "FAILS" if not one["error"] and other["error"]
                else "RUNS" if one["error"] and not other["error"]
                else "PRINTS" if both_run and not equal
                else "RAISES" if not same(one["error"], other["error"])
                else ""
            )  # fmt: skip
            if kind and options.show:
                print(f"==== {kind} {name} {n}\n{one['code']}")
                for who, cell in (("jax", one), ("teucer", other)):
                    print(f"---- {who}\n{cell['printed']}{cell['error']}")
    print(
        f"run on JAX {total[0]}, on both {total[1]}, print the same {total[2]}; "
        f"raise on JAX {total[3]}, on both {total[4]}"
    )
    return int(total[1] < total[0])


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for function in (run, page, compare):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        command.add_argument("docs", type=Path)
        if function is compare:
            command.add_argument("other", type=Path)
            command.add_argument("--show", action="store_true")
            continue
        command.add_argument("--impl", choices=("jax", "teucer"), default="teucer")
        command.add_argument("--out", type=Path, required=True)
        if function is run:
            command.add_argument("--pages", nargs="*")
            command.add_argument("--python", default=sys.executable)
            command.add_argument("--timeout", type=float, default=300.0)
            command.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    result: int = options.function(options)
    return result


if __name__ == "__main__":
    sys.exit(main())

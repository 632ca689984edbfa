"""The pages of the reference.

A page a public module, with the signature and docstring of each of its names.

A Sphinx extension. It writes reStructuredText into docs/reference before Sphinx reads the pages.
Docstrings are shown as they are written, but for their examples, which are highlighted.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

MODULES = (
    "teucer",
    "teucer.numpy",
    "teucer.numpy.linalg",
    "teucer.numpy.fft",
    "teucer.lax",
    "teucer.lax.linalg",
    "teucer.random",
    "teucer.nn",
    "teucer.nn.initializers",
    "teucer.scipy.special",
    "teucer.scipy.linalg",
    "teucer.scipy.stats",
    "teucer.scipy.signal",
    "teucer.scipy.optimize",
    "teucer.scipy.ndimage",
    "teucer.image",
    "teucer.ops",
    "teucer.tree",
    "teucer.tree_util",
    "teucer.sharding",
    "teucer.distributed",
    "teucer.debug",
    "teucer.dtypes",
    "teucer.errors",
    "teucer.export",
    "teucer.ffi",
    "teucer.profiler",
    "teucer.monitoring",
    "teucer.ref",
    "teucer.stages",
    "teucer.custom_batching",
    "teucer.custom_derivatives",
    "teucer.dlpack",
    "teucer.flatten_util",
    "teucer.test_util",
    "teucer.experimental.checkify",
    "teucer.experimental.multihost_utils",
)
_EXAMPLE = re.compile(r"^\s*>>> ")


def names_of(module: Any) -> list[str]:
    """The public names of a module, in order."""
    names = getattr(module, "__all__", None) or [
        name for name in dir(module) if not name.startswith("_")
    ]
    return sorted(set(names))


def signature_of(value: Any) -> str:
    """The signature as text without annotations; empty if there is none."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "" if not callable(value) else "(...)"
    parameters = [
        p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def text_of(doc: str) -> list[str]:
    """A docstring as reStructuredText: its lines as they are, examples as blocks of code."""
    lines: list[str] = []
    for block in inspect.cleandoc(doc).split("\n\n"):
        if not _EXAMPLE.match(block) and not any(
            line.startswith(" ") for line in block.splitlines()
        ):
            lines += [*(f"| {_escaped(line)}" for line in block.splitlines()), ""]
            continue
        kind = ".. code-block:: pycon" if _EXAMPLE.match(block) else ".. code-block:: none"
        lines += [kind, "", *(f"   {line}" for line in block.splitlines()), ""]
    return lines


def _escaped(text: str) -> str:
    return re.sub(r"([*`_|\\])", r"\\\1", text)


def page(name: str) -> str:
    """The page of a module."""
    module = importlib.import_module(name)
    lines = [
        name,
        "=" * len(name),
        "",
        *text_of(module.__doc__ or ""),
        f".. py:module:: {name}",
        "",
    ]
    for item in names_of(module):
        value = getattr(module, item, None)
        if inspect.ismodule(value):
            continue
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        signature = signature_of(value) if kind != "data" else ""
        lines += [f".. py:{kind}:: {item}{_one_line(signature)}", f"   :module: {name}", ""]
        own = value.__doc__ if kind != "data" else None
        lines += [f"   {line}" if line else "" for line in text_of(own or "")] + [""]
    return "\n".join(lines)


def _one_line(signature: str) -> str:
    return re.sub(r"<[^>]*>", "...", " ".join(signature.split()))


def write(folder: Path) -> None:
    """Write the pages of all modules, those that have changed."""
    folder.mkdir(exist_ok=True)
    for name in MODULES:
        path, text = folder / f"{name}.rst", page(name)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "reference"))
    return {"parallel_read_safe": True}

"""Which releases of JAX have a name, by listings of each release (`tools/releases.py`)."""

from __future__ import annotations

import functools
import gzip
from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).with_name("releases.txt.gz")
# Packages that the releases were not asked for.
_UNKNOWN = ("jax.tools", "jax.experimental.jax2tf", "jax.experimental.mosaic", "jax._src.lib.mlir")
Span = tuple[int, int]


@dataclass(frozen=True)
class Releases:
    """The releases in order, and for each module the first and last release of each name.

    `module()` has parameters of functions as `name.parameter`, and `name.` for the function itself;
    `module!` has the names that releases deprecate.
    """

    order: tuple[str, ...]
    modules: dict[str, dict[str, Span]]

    @property
    def whole(self) -> Span:
        """All releases."""
        return 0, len(self.order) - 1

    def of(self, name: str) -> Span | None:
        """The first and last release that has a dotted name; None if no release has it.

        Attributes of functions and classes, and names that were never looked up, count as present.
        """
        if any(name == u or name.startswith(u + ".") for u in _UNKNOWN):
            return self.whole
        module, first, last = "jax", *self.whole
        for part in name.split(".")[1:]:
            names = self.modules.get(module)
            if names is None:  # a name behind a class or function
                break
            if part.startswith("_") and part != "_src" and not module.startswith("jax._src"):
                break  # private names of public modules were not asked for
            if names.keys() == {"."}:
                break  # a module that could not be imported where it was asked
            # A module is a name of its parent once it is loaded, whichever release.
            inner = self.modules.get(f"{module}.{part}", {}).get(".")
            own = names.get(part, inner)
            span = own and (
                own if inner is None else (min(own[0], inner[0]), max(own[1], inner[1]))
            )
            if span is None:
                return None
            first, last = max(first, span[0]), min(last, span[1])
            module = f"{module}.{part}"
        return (first, last) if first <= last else None

    def keyword(self, name: str, keyword: str) -> Span | None:
        """The releases whose function of that name takes a keyword; None if none does.

        All, if its parameters are not known.
        """
        module, _, short = name.rpartition(".")
        parameters = self.modules.get(f"{module}()", {})
        known = parameters.get(f"{short}.")
        if known is None:
            return self.whole
        span = parameters.get(f"{short}.{keyword}")
        if span is None:
            return None if known[1] == self.whole[1] else self.whole
        first, last = span
        return (
            0 if first == known[0] else first,
            len(self.order) - 1 if last == known[1] else last,
        )

    def deprecated(self, name: str) -> bool:
        """Whether the newest release warns of the name."""
        module, _, short = name.rpartition(".")
        span = self.modules.get(f"{module}!", {}).get(short)
        return span is not None and span[1] == len(self.order) - 1


@functools.cache
def releases() -> Releases:
    """The names by release, read once."""
    lines = gzip.decompress(_DATA.read_bytes()).decode().splitlines()
    modules: dict[str, dict[str, Span]] = {}
    names: dict[str, Span] = {}
    for line in lines[2:]:
        if line[0] != " ":
            names = modules[line] = {}
            continue
        first, last, *found = line.split()
        names.update(dict.fromkeys(found, (int(first), int(last))))
    return Releases(tuple(lines[1].split()), modules)

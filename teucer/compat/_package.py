"""`teucer compat check PACKAGE`: a package's use of JAX, read from its source."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from teucer.compat._releases import Releases, Span, releases
from teucer.compat._uses import Use, files, uses

_SHOWN = 3  # places of a name that are shown


@dataclass(frozen=True)
class Report:
    """The report. missing: whether a name that the package needs is not here."""

    text: str
    missing: bool


def locate(package: str) -> Path | None:
    """The folder or file of a package: of a path, or of an installed package, which is not
    imported."""
    if Path(package).exists():
        return Path(package)
    top, _, rest = package.partition(".")
    spec = importlib.util.find_spec(top) if top.isidentifier() else None
    if spec is None:
        return None
    if not spec.submodule_search_locations:
        return Path(spec.origin) if spec.origin else None
    place = Path(next(iter(spec.submodule_search_locations)), *rest.split("."))
    return next((p for p in (place, place.with_suffix(".py")) if p.exists()), None)


def check(place: Path) -> Report:
    """The names of JAX that the files at a place use."""
    found: dict[str, list[Use]] = defaultdict(list)
    unread, count = [], 0
    for file in files(place):
        count += 1
        try:
            for use in uses(file):
                found[use.name].append(use)
        except SyntaxError as error:
            unread.append(f"{file}:{error.lineno} is no Python that can be read: {error.msg}")
    known = releases()
    # jax.numpy.clip says that jax.numpy is used, too.
    needed = {
        name: there
        for name, there in found.items()
        if not any(other.startswith(name + ".") for other in found) or _called(there)
    }
    spans = {name: known.of(name) for name in needed}
    absent = {name: here for name in needed if (here := _absent(name))}
    newest = len(known.order) - 1
    sections = {
        "Missing here": absent,
        "Not in the newest release of JAX": {
            n: _when(known, spans[n]) + ("" if n in absent else "; is here")
            for n in needed
            if (s := spans[n]) is None or s[1] < newest
        },
        "Deprecated by the newest release of JAX": {n: "" for n in needed if known.deprecated(n)},
        "Private: any release of JAX may change it": {
            n: _when(known, spans[n]) + ("" if n in absent else "; is here")
            for n in needed
            if _is_private(n)
        },
        "Keywords that not all releases take": _keywords(known, needed),
    }
    lines = [f"{place}: {count} files, {len(needed)} names of JAX"]
    for title, names in sections.items():
        if names:
            lines += ["", f"{title}: {len(names)}"]
            for name, said in sorted(names.items()):
                where = _places(place, needed[name.partition("(")[0]])
                lines.append(f"    {name:<50} {said:<30} {where}".rstrip())
    lines += ["", *_runs_on(known, needed, spans), *unread]
    hard = [n for n in absent if not all(use.guarded for use in needed[n])]
    verdict = f"{len(hard)} of them are missing" if hard else "all are there"
    lines.append(f"On Teucer: of the names that it cannot do without, {verdict}.")
    return Report("\n".join(lines), bool(hard))


def _called(there: Iterable[Use]) -> bool:
    return any(use.keywords for use in there)


def _is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def _when(known: Releases, span: Span | None) -> str:
    if span is None:
        return f"in no release from {known.order[0]} to {known.order[-1]}"
    first, last = (known.order[i] for i in span)
    if span == known.whole:
        return "in all releases"
    if span[1] == len(known.order) - 1:
        return f"from {first} on"
    return f"up to {last}" if span[0] == 0 else f"from {first} to {last}"


def _places(place: Path, there: Sequence[Use]) -> str:
    base = place if place.is_dir() else place.parent
    distinct = list(dict.fromkeys((use.file, use.line) for use in there))
    said = [f"{file.relative_to(base)}:{line}" for file, line in distinct[:_SHOWN]]
    more = len(distinct) - len(said)
    guarded = " (guarded)" if all(use.guarded for use in there) else ""
    return ", ".join(said) + (f" and {more} more" if more else "") + guarded


def _keywords(known: Releases, needed: Mapping[str, Sequence[Use]]) -> dict[str, str]:
    return {
        f"{name}({keyword}=)": _when(known, span)
        for name, there in needed.items()
        for keyword in sorted({k for use in there for k in use.keywords})
        if (span := known.keyword(name, keyword)) != known.whole
    }


def _runs_on(
    known: Releases, needed: Mapping[str, Sequence[Use]], spans: Mapping[str, Span | None]
) -> list[str]:
    """The releases that have all names without a guard; and the names that others lack."""
    first, last, why = 0, len(known.order) - 1, {}
    none = []
    for name, there in needed.items():
        hard = [use for use in there if not use.guarded]
        if not hard:
            continue
        asked = {name: spans[name]} | {
            f"{name}({k}=)": known.keyword(name, k) for use in hard for k in use.keywords
        }
        for said, span in asked.items():
            if span is None:
                none.append(said)
                continue
            if span[0] > first:
                first, why["before"] = span[0], said
            if span[1] < last:
                last, why["after"] = span[1], said
    if none:
        return [f"JAX: no release has {', '.join(sorted(none)[:_SHOWN])}, which it does not guard."]
    if first > last:
        return [
            f"JAX: no release has both {why['before']} (from {known.order[first]} on) and "
            f"{why['after']} (up to {known.order[last]})."
        ]
    said = f"JAX: its names are in releases {known.order[first]} to {known.order[last]}"
    limits = [f"{w} these {name} is not there" for w, name in why.items()]
    return [f"{said}; {', '.join(limits)}." if limits else f"{said}."]


def _absent(name: str) -> str:
    """Why a name cannot be had here; empty where it can."""
    value: object = importlib.import_module("jax")
    done = "jax"
    for part in name.split(".")[1:]:
        if not isinstance(value, ModuleType):
            # Attributes of functions and objects are not looked at, but members of enumerations.
            return "" if hasattr(value, part) or not hasattr(value, "__members__") else "no member"
        done = f"{done}.{part}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                value = getattr(value, part)
            except Exception:  # names that are refused give a reason of any class
                try:
                    value = importlib.import_module(done)
                except Exception:
                    return f"{done} is not here" if done != name else "not here"
    return ""

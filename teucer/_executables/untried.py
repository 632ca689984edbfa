"""The warning that Teucer was not tried on the installed release of jaxlib."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from teucer._base import source
from teucer._executables import guard
from teucer._executables.disk_cache import users_folder
from teucer._xla.client import jaxlib_version


def found_path() -> Path | None:
    """The file of `teucer guard`'s finds for this release; None if the user has no cache folder."""
    folder = users_folder()
    return None if folder is None else folder / f"guard-{jaxlib_version}.json"


@functools.cache
def warn_once() -> None:
    """Warn, with the faults that `teucer guard` found; silent if it found none."""
    wrong = _wrong_answers()
    if wrong == []:
        return
    if wrong is None:
        known = "`teucer guard` runs known answers against it."
    else:
        more = "; ..." if len(wrong) > 3 else "."
        known = f"`teucer guard` found wrong answers ({len(wrong)}): {'; '.join(wrong[:3])}{more}"
    source.warn(
        f"Teucer was not tried on jaxlib {jaxlib_version} (on {guard.TESTED[0]} to "
        f"{guard.TESTED[-1]} it was). {known}"
    )


def _wrong_answers() -> list[str] | None:
    """The faults that the last run of the guard found; None if it never ran here."""
    path = found_path()
    try:
        if path is None:
            return None
        found = json.loads(path.read_text())["found"]
        return [f"{one['name']}: {one['fault']}" for one in found if one["fault"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None

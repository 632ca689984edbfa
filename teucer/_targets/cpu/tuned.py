"""Rates that were measured on the user's machine (`teucer tune`): their file, and whether they
apply.

The file names the release of jaxlib and the processor. It does not apply to others. Processes that
run programs together may be on different machines, so they use the committed rates.
"""

from __future__ import annotations

import functools
import math
import os
import warnings
from pathlib import Path

from teucer._base import config, source
from teucer._devices import processes
from teucer._executables import cpu_features, disk_cache
from teucer._targets.cpu.constants import Rates
from teucer._targets.cpu.rates import Thresholds, committed, thresholds
from teucer._xla.client import jaxlib_version

COMMITTED = "committed"  # the option's word for no file


def current() -> Thresholds:
    """The break-even points for this process, from the rates that its options choose."""
    chosen = config.rates.value
    if chosen == COMMITTED or processes.state.client is not None:
        return committed()
    return _found(chosen)


def path() -> Path | None:
    """The file; None if there is no folder of the user's, or the option wants none."""
    chosen = config.rates.value
    if chosen == COMMITTED:
        return None
    if chosen is not None:
        return Path(os.path.expanduser(chosen))
    folder = disk_cache.users_folder()
    return None if folder is None else folder / f"rates-{jaxlib_version}.json"


@functools.cache
def _found(chosen: str | None) -> Thresholds:
    """Read once, so that a process decides alike all the time. chosen: the option."""
    where = path()
    rates = None if where is None else read(where)
    return committed() if rates is None else thresholds_of(rates)


def thresholds_of(rates: Rates) -> Thresholds:
    """The thresholds from rates that were measured on this machine."""
    return thresholds(rates).settled(committed())


def read(where: Path) -> Rates | None:
    """The rates of a file; None if there is none for this jaxlib and processor, or, with a warning,
    if it is damaged."""
    try:
        text = where.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as err:
        _refuse(where, str(err))
        return None
    import json  # for users with such a file

    try:
        content = json.loads(text)
        about, rates = (content["jaxlib"], content["processor"]), Rates(**content["rates"])
        if not all(type(r) in (int, float) and 0 < r < math.inf for r in rates):
            raise ValueError("a rate is not a positive number")
    except (ValueError, TypeError, KeyError) as err:
        _refuse(where, f"{type(err).__name__}: {err}")
        return None
    return rates if about == (jaxlib_version, cpu_features.model()) else None


def write(where: Path, rates: Rates) -> None:
    """Write them, whole or not at all.

    Raises OSError.
    """
    import json

    content = {
        "jaxlib": jaxlib_version,
        "processor": cpu_features.model(),
        "rates": rates._asdict(),
    }
    where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    disk_cache.write_whole(where, (json.dumps(content, indent=2) + "\n").encode())
    _found.cache_clear()


def _refuse(where: Path, why: str) -> None:
    warnings.warn(
        f"{where}: the rates of `teucer tune` cannot be read, and are ignored.\n"
        f"    {why}\n"
        "  Run `teucer tune` again, or remove the file by `teucer tune --reset`.",
        stacklevel=source.user_stacklevel(),
    )

"""`teucer tune`.

Measures the rates of the CPU's cost model on this machine, and keeps them for later processes.
"""

from pathlib import Path

from teucer._base import config
from teucer._executables import cpu_features
from teucer._targets.cpu import tuned
from teucer._targets.cpu.constants import Rates
from teucer._targets.cpu.rates import Thresholds, committed, committed_rates
from teucer._xla.client import jaxlib_version
from teucer.cli import _measures
from teucer.cli._errors import CommandError


def tune(*, dry_run: bool, reset: bool) -> int:
    """Measure rates, print them beside the committed ones, and write them; dry_run: write nothing;
    reset: remove the file, and measure nothing."""
    where = tuned.path()
    if where is None and not dry_run:
        raise CommandError(
            f"there is no file for the rates: teucer_rates is {config.rates.value!r}, and the "
            "user's cache folder is that of XDG_CACHE_HOME or HOME.\n  TEUCER_RATES names a file."
        )
    try:
        if reset:
            return _reset(where)
        measured = _measures.measure(lambda what: print(f"{what} ...", flush=True))
        _print(measured)
        if dry_run:
            print("Nothing was written (--dry-run).")
        elif where is not None:
            tuned.write(where, measured.rates)
            print(f"Written to {where}. New processes use it; `teucer tune --reset` removes it.")
    except ValueError as err:
        raise CommandError(f"{err}.\n  Measure again on a machine that does less.") from err
    except OSError as err:
        raise CommandError(f"{where} cannot be used: {err}") from err
    return 0


def _reset(where: Path | None) -> int:
    if where is not None and where.exists():
        where.unlink()
        print(f"{where}: removed")
    else:
        print(f"There is nothing to remove: {where or 'no file'}.")
    return 0


def _print(measured: _measures.Measured) -> None:
    ours = committed_rates(jaxlib_version)
    print(f"jaxlib {jaxlib_version}, {cpu_features.model()}")
    _table(measured.rates, ours)
    print("Networks, seconds to compile: measured, predicted")
    for n, seconds in measured.flat.items():
        print(f"  {n:5} equations            {seconds:8.3f} {measured.rates.flat(n):8.3f}")
    for n, seconds in measured.outlined.items():
        print(f"  {n:5} layers as calls      {seconds:8.3f} {measured.rates.outlined(n):8.3f}")
    changes = _changes(tuned.thresholds_of(measured.rates), committed())
    print("Thresholds that change: " + ("none" if not changes else ""))
    for name, old, new in changes:
        print(f"  {name:16} {old:10} -> {new}")


def _table(found: Rates, ours: Rates) -> None:
    print(f"{'rate':10} {'measured':>12} {'committed':>12} {'ratio':>7}")
    for name, rate in found._asdict().items():
        known = getattr(ours, name)
        print(f"{name:10} {rate:12.4g} {known:12.4g} {rate / known:7.2f}")


def _changes(found: Thresholds, ours: Thresholds) -> list[tuple[str, int, int]]:
    return [
        (name, old, new)
        for (name, old), new in zip(ours.named().items(), found.named().values(), strict=True)
        if old != new
    ]

"""What checks find, under a limit of time."""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any


class Report:
    """Lines of what was found, printed as they come.

    A line has the section, what was checked, a verdict, and figures. Verdicts: `ok`, `WRONG`,
    `FAILED` (it raised), `figure` (measured, nothing to compare with), `left out` (no time).
    """

    def __init__(self, seconds: float) -> None:
        self.lines: list[dict[str, Any]] = []
        self.end = time.monotonic() + seconds

    def note(self, section: str, what: str, verdict: str, **figures: Any) -> None:
        """Add a line, and print it unless all is well with one of many."""
        self.lines.append({"section": section, "what": what, "verdict": verdict, **figures})
        if verdict != "ok" or section not in ("values",):
            told = "  ".join(
                f"{name}={_short(value)}" for name, value in figures.items() if name != "traceback"
            )
            print(f"{section:12} {verdict:9} {what:44} {told}", flush=True)

    def section(
        self,
        name: str,
        share: float,
        checks: Iterable[tuple[str, Callable[[], dict[str, Any] | bool]]],
        workers: int = 1,
    ) -> None:
        """Run checks in their order while a share of the time that is left lasts.

        A check returns figures, with `verdict` for one other than `ok`; or whether all is well.
        workers: threads, for checks that mostly compile.
        """
        start = time.monotonic()
        limit = start + share * max(self.end - start, 0)

        def run(item: tuple[str, Callable[[], dict[str, Any] | bool]]) -> dict[str, Any] | None:
            if time.monotonic() > limit:
                return None
            began = time.monotonic()
            try:
                found = item[1]()
            except Exception as err:
                text = str(err).strip().splitlines() or [""]
                return {
                    "verdict": "FAILED",
                    "error": f"{type(err).__name__}: {text[0][:160]}",
                    "traceback": traceback.format_exc()[-4000:],
                }
            figures = {"verdict": "ok" if found else "WRONG"} if isinstance(found, bool) else found
            return {"verdict": "ok", "seconds": time.monotonic() - began, **figures}

        items, late = list(checks), list[str]()
        with ThreadPoolExecutor(workers) as pool:
            for (what, _), found in zip(items, pool.map(run, items), strict=True):
                if found is None:
                    late.append(what)
                else:
                    self.note(name, what, found.pop("verdict"), **found)
        if late:
            self.note(name, f"{len(late)} checks", "left out", first=late[0])

    def counts(self) -> Counter[tuple[str, str]]:
        """How many lines each section has of each verdict."""
        return Counter((line["section"], line["verdict"]) for line in self.lines)

    def failed(self) -> bool:
        """Whether something is wrong."""
        return any(line["verdict"] in ("WRONG", "FAILED") for line in self.lines)

    def close(self, path: Path | None) -> None:
        """Print the counts; write all lines to a file of JSON."""
        print("\nsection      verdict   lines")
        for (section, verdict), count in sorted(self.counts().items()):
            print(f"{section:12} {verdict:9} {count}")
        if path is not None:
            path.write_text("\n".join(map(json.dumps, self.lines)) + "\n")
            print(f"All lines are in {path}.")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

"""Where operations come from, in the form of MLIR.

A call site in a call site, each written once a module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from teucer._base import config, source
from teucer._base.source import Record
from teucer._lower import text

if TYPE_CHECKING:
    from teucer._lower.context import Context


@final
class Locations:
    """The table of the places of a module. around: the calls that were being made when it was
    written."""

    def __init__(self) -> None:
        self.around: tuple[Record, ...] = tuple(source.records(source.here()))
        self._symbols: dict[str, str] = {}
        self._calls: dict[tuple[Record, str], str] = {}

    def begin(self, ctx: Context) -> str:
        """Give the operations of the main function their callers' lines; returns the location of
        its end."""
        ctx.callers = self.around
        return self.named(ctx.path, self.around)

    def named(self, name: str, calls: Sequence[Record]) -> str:
        """The location of an operation: its name, and the calls, the innermost first. Options limit
        their number."""
        most = (
            config.traceback_in_locations_limit.value
            if config.include_full_tracebacks_in_locations.value
            else 1
        )
        symbol = ""
        for record in reversed(calls if most < 0 else calls[:most]):
            symbol = self._call(record, symbol)
        return (
            " "
            "loc("
            f"{self._symbol(f'{text.quoted(name)}({symbol})') if symbol else text.quoted(name)})"
        )

    def text(self) -> str:
        """The table."""
        return "".join(
            [f"{symbol} = loc({written})\n" for written, symbol in self._symbols.items()]
        )

    def _call(self, record: Record, caller: str) -> str:
        """The symbol of the location of a call. caller: the symbol of the call around it, if there
        is one."""
        found = self._calls.get((record, caller))
        if found is None:
            place = source.spelled_out(record)
            unwanted = config.hlo_source_file_canonicalization_regex.value
            file = re.sub(unwanted, "", place.file) if unwanted else place.file
            ends = f":{place.line}:{place.column} to {place.end_line}:{place.end_column}"
            own = f"{text.quoted(record[0].co_qualname)}({text.quoted(file)}{ends})"
            found = self._calls[record, caller] = self._symbol(
                f"callsite({own} at {caller})" if caller else own
            )
        return found

    def _symbol(self, written: str) -> str:
        return self._symbols.setdefault(written, f"#loc{len(self._symbols)}")

"""Source maps.

Which place of generated text comes from which place of a program (https://tc39.es/ecma426).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


@dataclasses.dataclass(frozen=True)
class SourceMap:
    """mappings: for each line of the generated text its segments: (column), or (column, number of
    the source, line, column).

    Lines and columns count from 0.
    """

    version: int
    sources: Sequence[str]
    sources_content: Sequence[str]
    names: Sequence[str]
    mappings: Sequence[Sequence[tuple[int, ...]]]

    def to_json(self) -> str:
        """The map as JSON, in which numbers are differences, in base 64.

        >>> SourceMap(3, ["a.py"], [], [], [[(4, 0, 16, 1)], []]).to_json()
        '{"version": 3, "sources": ["a.py"], "sourcesContent": [], "names": [], "mappings":
        "IAgBC;"}'
        """
        return json.dumps(
            {
                "version": self.version,
                "sources": list(self.sources),
                "sourcesContent": list(self.sources_content),
                "names": list(self.names),
                "mappings": _encoded(self.mappings),
            }
        )

    @classmethod
    def from_json(cls, json_data: str) -> SourceMap:
        """The map that `to_json` wrote."""
        data: dict[str, Any] = json.loads(json_data)
        return cls(
            data["version"],
            data["sources"],
            data.get("sourcesContent", []),
            data["names"],
            _decoded(data["mappings"]),
        )


class MappingsGenerator:
    """Builds mappings line by line.

    >>> generator = MappingsGenerator()
    >>> generator.new_group()
    >>> generator.new_segment(4, 0, 16, 1)
    >>> generator.mappings()
    [[(4, 0, 16, 1)]]
    """

    def __init__(self) -> None:
        self._groups: list[list[tuple[int, ...]]] = []

    def new_group(self) -> None:
        """Begin a line."""
        self._groups.append([])

    def new_segment(self, *seg: int) -> None:
        """Add a segment to the line. Raises RuntimeError before the first line."""
        if not self._groups:
            raise RuntimeError(
                "MappingsGenerator.new_segment: begin a line with new_group() first."
            )
        self._groups[-1].append(seg)

    def mappings(self) -> list[list[tuple[int, ...]]]:
        """The lines."""
        return self._groups


def _encoded(mappings: Sequence[Sequence[tuple[int, ...]]]) -> str:
    before, lines = [0, 0, 0, 0, 0], []
    for segments in mappings:
        before[0] = 0
        said = []
        for segment in segments:
            said.append("".join(_number(n - before[i]) for i, n in enumerate(segment)))
            before[: len(segment)] = segment
        lines.append(",".join(said))
    return ";".join(lines)


def _number(n: int) -> str:
    rest, text = (-n << 1 | 1) if n < 0 else n << 1, ""
    while True:
        digit, rest = rest & 31, rest >> 5
        text += _DIGITS[digit | (32 if rest else 0)]
        if not rest:
            return text


def _decoded(text: str) -> list[list[tuple[int, ...]]]:
    before, lines = [0, 0, 0, 0, 0], []
    for line in text.split(";"):
        before[0] = 0
        segments = []
        for part in filter(None, line.split(",")):
            numbers = _numbers(part)
            before[: len(numbers)] = [b + n for b, n in zip(before, numbers, strict=False)]
            segments.append(tuple(before[: len(numbers)]))
        lines.append(segments)
    return lines


def _numbers(text: str) -> list[int]:
    found, value, shift = [], 0, 0
    for character in text:
        digit = _DIGITS.index(character)
        value, shift = value | (digit & 31) << shift, shift + 5
        if not digit & 32:
            found.append(-(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    return found

"""jaxlib's pretty printer (P. Wadler, "A prettier printer", 2003)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib import _pretty_printer as pp

brk, concat, group, nest, text = pp.brk, pp.concat, pp.group, pp.nest, pp.text


def join(separator: Any, docs: Sequence[Any]) -> Any:
    """The documents with `separator` between them."""
    parts: list[Any] = []
    for doc in docs:
        parts += [separator, doc] if parts else [doc]
    return concat(parts)


def layout(doc: Any, width: int) -> str:
    """The document as text of at most `width` columns where its breaks allow."""
    result: str = doc._format(
        width,
        use_color=False,
        output_format=pp.OutputFormat.TEXT,
        separable_lines=False,
        annotation_prefix=" # ",
        source_map=None,
    )
    return result

"""`teucer show FILE:FUNCTION --args TYPES`: a program as text, or as a page."""

from pathlib import Path

from teucer.cli._jaxpr import check_count, load, parse_types
from teucer.debug._show import show as picture_of


def show(target: str, types: str, output: Path | None) -> int:
    """Print target, FILE:FUNCTION, on arguments of the given types, by line; with an output write
    the page there."""
    function, args = load(target), parse_types(types)
    check_count(target, function, args)
    picture = picture_of(function, *args)
    if output is None:
        print(picture)
    else:
        print(picture.save(output))
    return 0

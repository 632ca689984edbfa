"""`teucer show FILE:FUNCTION --args TYPES`: a program as text, or as a page."""

from pathlib import Path

from teucer.cli._arguments import read_call
from teucer.debug._show import show as picture_of


def show(target: str, types: str, output: Path | None, mesh: str | None = None) -> int:
    """Print target, FILE:FUNCTION, on arguments of the given types, by line; with an output write
    the page there."""
    function, args, kwargs = read_call(target, types, mesh=mesh)
    picture = picture_of(function, *args, **kwargs)
    if output is None:
        print(picture)
    else:
        print(picture.save(output))
    return 0

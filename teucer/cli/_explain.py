"""`teucer errors SECTION`: what the guide says about errors of a kind."""

import difflib
import importlib.metadata
from pathlib import Path

from teucer._advice.remedies import slug
from teucer.cli._errors import CommandError

_PAGE = "docs/guide/errors.md"


def errors(section: str | None) -> int:
    """Print a section of the guide to errors, or the names of all.

    Raises CommandError for a section that there is not.
    """
    _, *sections = _page().read_text(encoding="utf-8").split("\n## ")
    texts = {slug(text.partition("\n")[0].strip("`")): text for text in sections}
    if section is None:
        print(*texts, sep="\n")
        return 0
    name = slug(section)
    if name not in texts:
        close = difflib.get_close_matches(name, texts, 1)
        raise CommandError(
            f"the guide has no section {section}."
            + (f" Did you mean {close[0]}?" if close else "")
            + "\n`teucer errors` lists all."
        )
    print(f"## {texts[name].rstrip()}")
    return 0


def _page() -> Path:
    """The guide: in a clone beside the package; where it is installed, in the documents."""
    beside = Path(__file__).parents[2] / _PAGE
    if beside.is_file():
        return beside
    for file in importlib.metadata.files("teucer") or ():
        if file.name == Path(_PAGE).name and "doc" in file.parts:
            return Path(str(file.locate()))
    raise CommandError(f"the guide is not installed. It is {_PAGE} of the sources.")

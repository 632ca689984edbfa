"""The text of the package index, which has no files for README's links to lead to."""

import re
from pathlib import Path

from setuptools import setup

_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)]*)\)")


def without_relative_links(text: str) -> str:
    """Markdown in which links to files of the sources are their names.

    >>> without_relative_links("[errors](docs/errors.md), [XLA](https://openxla.org)")
    'errors (docs/errors.md), [XLA](https://openxla.org)'
    >>> without_relative_links("[docs/errors.md](docs/errors.md)")
    'docs/errors.md'
    """
    return _LINK.sub(lambda link: link[1] if link[1] == link[2] else f"{link[1]} ({link[2]})", text)


if __name__ == "__main__":
    setup(
        long_description=without_relative_links(
            Path(__file__).with_name("README.md").read_text(encoding="utf-8")
        ),
        long_description_content_type="text/markdown",
    )

"""Every Python snippet of README.md and docs/ runs; those of one page share their names, in order.

A snippet that is no program (bad examples of the style guide) is fenced as ```python no-run.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippets_run(page):
    text = page.read_text()
    names = {"__name__": "__snippet__"}
    for match in SNIPPET.finditer(text):
        # Empty lines before it, so that an error names the line of the page.
        source = "\n" * (text[: match.start(1)].count("\n")) + match[1]
        exec(compile(source, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


def test_readme_has_snippets():
    assert SNIPPET.search((ROOT / "README.md").read_text())

"""The documentation site: `make docs`.

Pages are Markdown; those of the reference are written by `reference.py`.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "Teucer"
extensions = ["myst_parser", "reference"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Teucer"
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
suppress_warnings = ["myst.header"]
pygments_style = "default"


def link_files(app, name, source):
    """MyST takes a link to any .md for one to a page of the site: notes of benchmarks are files."""
    source[0] = re.sub(r"\]\(((?:\.\./)+benchmarks/)", r"](path:\1", source[0])


def setup(app):
    app.connect("source-read", link_files)

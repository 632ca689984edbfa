"""The documentation site: `make docs`. Pages are Markdown; those of the reference are written by `reference.py`."""

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

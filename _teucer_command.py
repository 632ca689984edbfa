"""The `teucer` command as it is installed.

Help, and mistakes in options, are printed before anything of Teucer is imported: the parser is
loaded by its path.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main() -> int:
    """Run the command with the arguments of the process."""
    path = Path(__file__).resolve().parent / "teucer" / "cli" / "_main.py"
    spec = importlib.util.spec_from_file_location("_teucer_parser", path)
    if spec is not None and spec.loader is not None and path.is_file():
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        options = module.parsed()  # ends the process after help, versions and mistakes
        if options.name is None:
            module.parser().print_help()
            return 0
    from teucer.cli import main as run  # Late: it imports Teucer.

    return run()


if __name__ == "__main__":
    sys.exit(main())

"""`python -m teucer.cli` is the `teucer` command."""

import sys

from teucer.cli import main

sys.exit(main())

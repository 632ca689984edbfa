"""`python -m teucer` is the `teucer` command."""

import sys

from teucer.cli import main

sys.exit(main())

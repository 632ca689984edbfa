"""`teucer compat wheel`: build the wheel named jax. Importing this installs the alias."""

from pathlib import Path

from teucer.compat import _wheel


def build_wheel(output: Path) -> int:
    """Build the wheel in a folder, and print where it is."""
    print(_wheel.build(output))
    return 0

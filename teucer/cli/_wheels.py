"""`teucer compat wheel`: build the wheel named jax."""

from pathlib import Path


def build_wheel(output: Path) -> int:
    """Build the wheel in a folder, and print where it is. It installs the alias in this process."""
    from teucer.compat import _wheel  # `import teucer.compat` changes the process

    print(_wheel.build(output))
    return 0

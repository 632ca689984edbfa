"""The `teucer` command: run programs, look at jaxprs, devices and the cache, and a demo."""

from teucer.cli._main import main

__all__ = ["main"]

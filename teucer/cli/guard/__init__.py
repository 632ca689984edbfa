"""`teucer guard`: known answers against the installed jaxlib.

Values, what programs cost as they grow, memory, and time to compile. docs/guard.md has what was
found on each release.
"""

from teucer.cli.guard.command import guard

__all__ = ["guard"]

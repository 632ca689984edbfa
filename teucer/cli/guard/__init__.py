"""`teucer guard`: known answers against the installed jaxlib.

Values, costs of programs as they grow, memory, and time to compile. docs/guard.md has the finds on
each release.
"""

from teucer.cli.guard.command import guard

__all__ = ["guard"]

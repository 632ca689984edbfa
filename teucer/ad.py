"""What `jax.vjp(...)[1].with_refs` is told of arguments, and what it gives in the place of
cotangents."""

from teucer._derived.vjp import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]

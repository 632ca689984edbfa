"""Arguments of `jax.vjp(...)[1].with_refs`, and results in the place of cotangents."""

from teucer._derived.vjp import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]

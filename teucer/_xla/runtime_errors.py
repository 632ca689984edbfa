"""The exception that XLA raises when compiling or running a program fails."""

from __future__ import annotations

from jaxlib import _jax

JaxRuntimeError: type[RuntimeError] = _jax.JaxRuntimeError

"""Adapters of JAX's inside, for libraries that define primitives or interpret programs.

`core`, `api_util`, `extend` and `interpreters` hand them on.
"""

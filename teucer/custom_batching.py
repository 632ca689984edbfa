"""Functions with batching rules of their own."""

from teucer._transform.custom_batching import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]

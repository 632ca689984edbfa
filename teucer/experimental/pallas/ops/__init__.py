"""Ready operations that JAX has as kernels."""

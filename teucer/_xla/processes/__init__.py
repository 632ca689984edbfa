"""jaxlib's distributed runtime."""

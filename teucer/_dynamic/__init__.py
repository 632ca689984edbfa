"""One compilation for many sizes."""

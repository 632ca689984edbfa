"""The transformations, one module each."""

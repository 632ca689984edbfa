"""Functions built on the transformations."""

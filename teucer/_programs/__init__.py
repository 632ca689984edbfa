"""A jaxpr becomes a program and runs."""

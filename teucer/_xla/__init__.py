"""jaxlib, adapted: the only module that imports it."""

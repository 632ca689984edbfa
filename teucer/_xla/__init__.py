"""jaxlib, adapted: the only room that imports it."""

"""Jaxprs as people read them: as text, and in notebooks."""

"""Derivatives of smooth functions of what turns without bound, as limits."""

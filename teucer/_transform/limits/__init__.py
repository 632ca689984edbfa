"""Derivatives, as limits, of smooth functions of results that turn without bound."""

"""Jaxprs to StableHLO text."""

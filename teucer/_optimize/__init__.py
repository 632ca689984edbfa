"""Passes over jaxprs that are right on every platform."""

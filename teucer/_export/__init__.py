"""Exported functions and executables as bytes."""

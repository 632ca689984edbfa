"""Pytrees."""

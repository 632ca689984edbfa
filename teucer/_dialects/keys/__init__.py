"""Typed keys: arrays whose elements are words of a generator."""

"""Sizes that are symbols."""

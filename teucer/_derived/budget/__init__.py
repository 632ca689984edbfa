"""Rematerialisation by a budget: what to keep for the backward pass, so that memory suffices.

docs/remat.md says how it works.
"""

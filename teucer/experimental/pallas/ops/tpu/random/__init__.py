"""Generators of random numbers as kernels."""

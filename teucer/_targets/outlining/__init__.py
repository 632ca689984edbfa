"""Outlining: repeated equations become functions and loops, and these become pieces."""

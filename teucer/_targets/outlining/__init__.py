"""Outlining: what a program repeats becomes functions and loops, and those become pieces."""

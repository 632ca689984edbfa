"""The rules: one function each, from a program to findings."""

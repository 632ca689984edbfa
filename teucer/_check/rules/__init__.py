"""The rules: one function each, from a program to what it finds."""

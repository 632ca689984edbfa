"""Formulas of elementary and special functions: series, sums of two numbers, parts."""

"""Dialects: what few programs use. Each is loaded with the first program that needs it."""

"""Dialects: features that few programs use. Each is loaded with the first program that needs it."""

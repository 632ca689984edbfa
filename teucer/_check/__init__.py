"""`teucer check`: faults of a program that show before it runs (docs/check.md)."""

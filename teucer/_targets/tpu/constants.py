"""Limits for programs that TPUs run."""

# Places in a window: a larger one would make a long program.
MOST_PLACES = 64

"""References to arrays that change.

Their type, their effects, and what the transformations do with them.
"""

"""References to arrays that change: their type, their effects, and what the transformations do with them."""

"""Programs that are given references."""

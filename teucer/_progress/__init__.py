"""Progress of loops that are compiled, while they run."""

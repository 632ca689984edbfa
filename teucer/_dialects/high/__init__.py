"""High types: those of libraries, whose values are made of arrays and references."""

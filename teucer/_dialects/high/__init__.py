"""High types: types of libraries, whose values are made of arrays and references."""

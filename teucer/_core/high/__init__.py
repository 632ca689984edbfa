"""Types of libraries, made of types of arrays, and values that change."""

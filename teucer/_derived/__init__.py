"""What is built on the transformations."""

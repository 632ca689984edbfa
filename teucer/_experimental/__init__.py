"""What single modules of `experimental` are made of."""

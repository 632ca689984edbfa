"""What differs by platform in jaxlib: plugins, the libraries of GPUs, LAPACK."""

"""The parts of jaxlib for single platforms: plugins, the libraries of GPUs, LAPACK."""

"""Two small libraries to read and to write examples with: stax (neural networks) and optimizers."""

"""Rules of primitives by transformation, for libraries that define primitives: `ad`, `batching`, `mlir`."""

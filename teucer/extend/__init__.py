"""What libraries on top of this one build on: `core` has primitives and jaxprs."""

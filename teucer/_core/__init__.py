"""Types, primitives, traces, jaxprs."""

"""Kernels for TPUs: a kernel's jaxpr as text of the tpu dialect (docs/kernels.md)."""

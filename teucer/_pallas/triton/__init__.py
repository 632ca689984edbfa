"""Kernels as Triton IR, in text, for XLA's compiler for NVIDIA GPUs (docs/kernels.md)."""

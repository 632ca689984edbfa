"""Operations that JAX has as kernels for TPUs. They run on every platform."""

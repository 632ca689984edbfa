"""jaxlib's kernel of products of sparse matrices on the CPU."""

from __future__ import annotations

import functools

# data, starts of rows, columns, dense vector or matrix -> product.
CSR_PRODUCT = "cpu_csr_sparse_dense_ffi"


def register_if_called(program: str | bytes) -> None:
    """Make the kernel known to XLA if a program, as text or compiled, calls it."""
    if CSR_PRODUCT in program if isinstance(program, str) else CSR_PRODUCT.encode() in program:
        _register()


@functools.cache
def _register() -> None:
    from jaxlib import cpu_sparse, xla_client  # for programs with such products only

    for platform, targets in cpu_sparse.registrations().items():
        for name, function, api_version in targets:
            xla_client.register_custom_call_target(name, function, platform, api_version)

"""What factorizations become on each platform, and how they are divided among devices."""

import numpy as np
import pytest

from teucer._core.stage import stage_flat
from teucer._core.types import ShapedArray
from teucer._lower.context import Argument, lower_module
from teucer.lax import linalg


def lowered(f, shape, platform):
    """The module of f, of one float32 argument."""
    aval = ShapedArray(shape, np.dtype(np.float32))
    jaxpr, _ = stage_flat(lambda x: (f(x),), [aval])
    return lower_module("f", jaxpr, [Argument(aval)], (platform,))[0]


def test_batches_may_be_divided_among_devices():
    text = lowered(linalg.cholesky, (4, 3, 3), "cpu")
    assert "lapack_spotrf_ffi" in text
    assert 'num_batch_dims = "1"' in text
    assert "#sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i]) {i=4, j=3, k=3, l=3, m=3}, custom>" in text
    assert "sharding_rule" not in lowered(linalg.cholesky, (3, 3), "cpu")


@pytest.mark.parametrize(("f", "op"), [
    (linalg.cholesky, "stablehlo.cholesky"),
    (lambda x: linalg.triangular_solve(x, x, transpose_a=True), "stablehlo.triangular_solve")])
def test_other_platforms_use_stablehlos_operations(f, op):
    text = lowered(f, (3, 3), "cuda")
    assert op in text
    assert "lapack" not in text


@pytest.mark.parametrize(("f", "routine"), [
    (lambda x: linalg.lu(x)[0], "lu: .*lapack_sgetrf_ffi"), (lambda x: linalg.svd(x)[1], "svd: .*lapack_sgesdd_ffi"),
    (lambda x: linalg.eigh(x)[1], "eigh: .*lapack_ssyevd_ffi"), (lambda x: linalg.qr(x)[0], "qr: .*lapack_sgeqrf_ffi")])
def test_what_other_platforms_lack_is_said(f, routine):
    with pytest.raises(NotImplementedError, match=f"{routine}.*\n  Move the matrix to a CPU device"):
        lowered(f, (3, 3), "cuda")

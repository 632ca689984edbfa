"""What factorizations become on each platform, and how they are divided among devices."""

import re

import numpy as np
import pytest

from teucer._core.stage import stage_flat
from teucer._core.types import ShapedArray
from teucer._lower.context import Argument, lower_module
from teucer.lax import linalg
from teucer.lax.linalg import EighImplementation, EigImplementation, SvdAlgorithm


def lowered(f, shape, platform, dtype=np.float32):
    """The module of f, of one argument, for one platform or several."""
    aval = ShapedArray(shape, np.dtype(dtype))

    def flat(x):
        out = f(x)
        return tuple(out) if isinstance(out, tuple | list) else (out,)

    jaxpr, _ = stage_flat(flat, [aval])
    return lower_module(
        "f", jaxpr, [Argument(aval)], (platform,) if isinstance(platform, str) else platform
    )[0]


def calls(text):
    """The kernels that a module calls: their names, attributes, and types of operands and
    results."""
    found = []
    for line in text.splitlines():
        if "custom_call" in line:
            name, attributes = re.search(
                r'call_target_name = "(\w+)".*?backend_config = {(.*?)}', line
            ).groups()
            types = (
                line.rpartition(" : ")[2]
                .replace("tensor<", "")
                .replace("complex<f32>", "c64")
                .replace(">", "")
            )
            found.append(
                (name, attributes, types.replace(" - ", " -> ").replace("(", "").replace(")", ""))
            )
    return found


def test_batches_may_be_divided_among_devices():
    text = lowered(linalg.cholesky, (4, 5, 5), "cpu")
    assert "lapack_spotrf_ffi" in text
    assert 'num_batch_dims = "1"' in text
    assert (
        "#sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i]) {i=4, j=5, k=5, l=5, m=5}, custom>"
        in text
    )
    assert "sharding_rule" not in lowered(linalg.cholesky, (5, 5), "cpu")


def test_small_matrices_need_no_kernel_on_any_platform():
    for platform in ("cpu", "cuda", "rocm", "tpu"):
        for f in (linalg.cholesky, linalg.lu, lambda x: linalg.triangular_solve(x, x)):
            text = lowered(f, (2, 3, 3), platform)
            assert "custom_call" not in text
            assert "stablehlo.cholesky" not in text
            assert "stablehlo.triangular_solve" not in text


def eig_left(x):
    return linalg.eig(x, compute_right_eigenvectors=False)


def eig_right(x):
    return linalg.eig(x, compute_left_eigenvectors=False)


def svd(x, algorithm=None, *, full_matrices=False, **options):
    return linalg.svd(x, full_matrices=full_matrices, algorithm=algorithm, **options)


def tridiagonal_solve(x, **options):
    return linalg.tridiagonal_solve(x, x, x, x[..., None], **options)


# As JAX 0.10.2 and 0.11.2 lower them.
GPU_CALLS = [
    (
        linalg.cholesky,
        (2, 5, 5),
        "cusolver_potrf_ffi",
        "lower = true",
        "2x5x5xf32 -> 2x5x5xf32, 2xi32",
    ),
    (linalg.lu, (5, 3), "cusolver_getrf_ffi", "", "5x3xf32 -> 5x3xf32, 3xi32, i32"),
    (linalg.lu, (2, 5, 3), "cu_lu_pivots_to_permutation", "", "2x3xi32 -> 2x5xi32"),
    (linalg.qr, (2, 5, 3), "cusolver_geqrf_ffi", "", "2x5x3xf32 -> 2x5x3xf32, 2x3xf32"),
    (linalg.qr, (2, 5, 3), "cusolver_orgqr_ffi", "", "2x5x5xf32, 2x3xf32 -> 2x5x5xf32"),
    (
        lambda x: linalg.qr(x, pivoting=True),
        (5, 3),
        "cuhybrid_geqp3",
        'magma = "auto"',
        "5x3xf32, 3xi32 -> 5x3xf32, 3xi32, 3xf32",
    ),
    (
        lambda x: linalg.qr(x, pivoting=True, use_magma=False),
        (5, 3),
        "cuhybrid_geqp3",
        'magma = "off"',
        "5x3xf32, 3xi32 -> 5x3xf32, 3xi32, 3xf32",
    ),
    (
        lambda x: linalg.ormqr(x, x[0], x, transpose=True),
        (5, 3),
        "cusolver_ormqr_ffi",
        "left = true, transpose = true",
        "5x3xf32, 3xf32, 5x3xf32 -> 5x3xf32",
    ),
    (
        linalg.eigh,
        (2, 3, 3),
        "cusolver_syevd_ffi",
        "algorithm = 0 : ui8, lower = true",
        "2x3x3xf32 -> 2x3x3xf32, 2x3xf32, 2xi32",
    ),
    (
        lambda x: linalg.eigh(x, lower=False, implementation=EighImplementation.JACOBI),
        (3, 3),
        "cusolver_syevd_ffi",
        "algorithm = 2 : ui8, lower = false",
        "3x3xf32 -> 3x3xf32, 3xf32, i32",
    ),
    (
        lambda x: linalg.eigh(x, implementation=EighImplementation.QR),
        (3, 3),
        "cusolver_syevd_ffi",
        "algorithm = 1 : ui8, lower = true",
        "3x3xf32 -> 3x3xf32, 3xf32, i32",
    ),
    (
        eig_right,
        (2, 3, 3),
        "cusolver_geev_ffi",
        "left = false, right = true",
        "2x3x3xf32 -> 2x3x3xf32, 2x3xc64, 2x3x3xf32, 2x3x3xf32, 2xi32",
    ),
    (
        eig_left,
        (3, 3),
        "cuhybrid_eig_real",
        'left = true, magma = "auto", right = false',
        "3x3xf32 -> 3xf32, 3xf32, 3x3xc64, 3x3xc64, i32",
    ),
    (
        lambda x: linalg.eig(x, implementation=EigImplementation.MAGMA),
        (3, 3),
        "cuhybrid_eig_real",
        'left = true, magma = "on", right = true',
        "3x3xf32 -> 3xf32, 3xf32, 3x3xc64, 3x3xc64, i32",
    ),
    (
        svd,
        (5, 3),
        "cusolver_gesvdj_ffi",
        "compute_uv = true, full_matrices = true",
        "5x3xf32 -> 5x3xf32, 3xf32, 5x5xf32, 3x3xf32, i32",
    ),
    (
        svd,
        (2, 33, 40),
        "cusolver_gesvdj_ffi",
        "compute_uv = true, full_matrices = false",
        "2x33x40xf32 -> 2x33x40xf32, 2x33xf32, 2x33x33xf32, 2x40x33xf32, 2xi32",
    ),
    (
        svd,
        (1025, 3),
        "cusolver_gesvd_ffi",
        "compute_uv = true, full_matrices = false, transposed = false",
        "1025x3xf32 -> 1025x3xf32, 3xf32, 1025x3xf32, 3x3xf32, i32",
    ),
    (
        svd,
        (3, 1025),
        "cusolver_gesvd_ffi",
        "compute_uv = true, full_matrices = false, transposed = true",
        "3x1025xf32 -> 3x1025xf32, 3xf32, 3x1025xf32, 3x3xf32, i32",
    ),
    (
        lambda x: svd(x, SvdAlgorithm.QR, compute_uv=False),
        (2, 5, 3),
        "cusolver_gesvd_ffi",
        "compute_uv = false, full_matrices = false, transposed = false",
        "2x5x3xf32 -> 2x5x3xf32, 2x3xf32, f32, f32, 2xi32",
    ),
    (
        lambda x: svd(x, SvdAlgorithm.POLAR),
        (3, 5),
        "cusolver_gesvdp_ffi",
        "compute_uv = true, full_matrices = false",
        "3x5xf32 -> 3x5xf32, 3xf32, 3x3xf32, 5x3xf32, i32",
    ),
    (
        linalg.tridiagonal,
        (3, 3),
        "cusolver_sytrd_ffi",
        "lower = true",
        "3x3xf32 -> 3x3xf32, 3xf32, 2xf32, 2xf32, i32",
    ),
    (
        tridiagonal_solve,
        (2, 4),
        "cusparse_gtsv2_ffi",
        "",
        "2x4xf32, 2x4xf32, 2x4xf32, 2x4x1xf32 -> 2x4x1xf32",
    ),
    (tridiagonal_solve, (2,), "cusparse_gtsv2_ffi", "", "3xf32, 3xf32, 3xf32, 3x1xf32 -> 3x1xf32"),
    (
        lambda x: tridiagonal_solve(x, perturb_singular=True),
        (2,),
        "cu_tridiagonal_solve_perturbed",
        "",
        "2xf32, 2xf32, 2xf32, 2x1xf32 -> 2x1xf32",
    ),
    (
        lambda x: linalg.cholesky_update(x, x[0]),
        (3, 3),
        "cu_cholesky_update_ffi",
        "",
        "3x3xf32, 3xf32 -> 3x3xf32, 3xf32",
    ),
]


@pytest.mark.parametrize(("f", "shape", "name", "attributes", "types"), GPU_CALLS)
def test_kernels_on_nvidia_gpus(f, shape, name, attributes, types):
    assert (name, attributes, types) in calls(lowered(f, shape, "cuda"))


def test_complex_matrices_have_a_hybrid_kernel_of_their_own():
    text = lowered(linalg.eig, (3, 3), "cuda", np.complex64)
    assert calls(text) == [
        (
            "cuhybrid_eig_comp",
            'left = true, magma = "auto", right = true',
            "3x3xc64 -> 3xc64, 3x3xc64, 3x3xc64, i32",
        )
    ]


@pytest.mark.parametrize(
    ("f", "names"),
    [
        (linalg.lu, ["hipsolver_getrf_ffi", "hip_lu_pivots_to_permutation"]),
        (eig_right, ["hiphybrid_eig_real"]),
        (lambda x: svd(x, SvdAlgorithm.DIVIDE_AND_CONQUER), ["hipsolver_gesdd_ffi"]),
        (lambda x: linalg.cholesky_update(x, x[0]), []),
    ],
)
def test_kernels_on_amd_gpus(f, names):
    assert [name for name, *_ in calls(lowered(f, (5, 5), "rocm"))] == names


def test_one_module_for_cpu_and_gpu():
    assert [name for name, *_ in calls(lowered(linalg.lu, (5, 5), ("cpu", "cuda")))] == [
        "lapack_sgetrf_ffi",
        "cusolver_getrf_ffi",
        "cu_lu_pivots_to_permutation",
    ]


@pytest.mark.parametrize(
    ("algorithm", "shape", "order"),
    [
        (SvdAlgorithm.QR, (2, 3, 5), "2, 1, 0"),
        (SvdAlgorithm.QR, (2, 5, 3), "1, 2, 0"),
        (SvdAlgorithm.POLAR, (2, 3, 5), "1, 2, 0"),
    ],
)
def test_only_wide_matrices_of_gesvd_lie_row_by_row(algorithm, shape, order):
    text = lowered(lambda x: svd(x, algorithm), shape, "cuda")
    assert f"operand_layouts = [dense<[{order}]>" in text
    assert set(re.findall(r"dense<\[(\d, \d, \d)\]> : tensor<3xindex>", text)) == {order}


def test_results_that_are_not_computed_are_not_divided():
    text = lowered(lambda x: svd(x, SvdAlgorithm.QR, compute_uv=False), (2, 5, 3), "cuda")
    assert (
        "#sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i, n], [], [], [i]) {i=2, j=5, k=3, l=5, "
        "m=3, n=3}, custom>"
    ) in text


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 3, 3)])
@pytest.mark.parametrize(
    "f",
    [linalg.qr, lambda x: linalg.qr(x, pivoting=True), svd, lambda x: svd(x, full_matrices=True)],
)
def test_empty_matrices_need_no_kernel(f, shape):
    assert calls(lowered(f, shape, "cuda")) == []


@pytest.mark.parametrize(
    ("f", "op"),
    [
        (linalg.cholesky, "stablehlo.cholesky"),
        (lambda x: linalg.triangular_solve(x, x, transpose_a=True), "stablehlo.triangular_solve"),
    ],
)
def test_other_platforms_use_stablehlos_operations(f, op):
    text = lowered(f, (5, 5), "tpu")
    assert op in text
    assert calls(text) == []


@pytest.mark.parametrize(
    ("f", "platform", "routine"),
    [
        (linalg.eig, "tpu", "eig: .*lapack_sgeev_ffi"),
        (lambda x: linalg.qr(x, pivoting=True), "tpu", "qr: .*lapack_sgeqp3_ffi"),
        (linalg.schur, "tpu", "schur: .*lapack_sgees_ffi"),
        (linalg.tridiagonal, "tpu", "tridiagonal: .*lapack_ssytrd_ffi"),
        (linalg.schur, "cuda", "schur: .*lapack_sgees_ffi"),
        (linalg.hessenberg, "cuda", "hessenberg: .*lapack_sgehrd_ffi"),
    ],
)
def test_what_platforms_lack_is_said(f, platform, routine):
    with pytest.raises(
        NotImplementedError, match=f"{routine}.*\n  Move the matrix to a CPU device"
    ):
        lowered(f, (3, 3), platform)


@pytest.mark.parametrize(
    ("f", "platform", "message"),
    [
        (
            lambda x: linalg.eig(x, implementation=EigImplementation.CUSOLVER),
            "cuda",
            "Left eigenvectors are not supported by cusolver",
        ),
        (
            lambda x: linalg.eig(x, implementation=EigImplementation.CUSOLVER),
            "rocm",
            "cuSOLVER is for platform 'cuda', not for 'rocm'",
        ),
        (
            lambda x: svd(x, SvdAlgorithm.DIVIDE_AND_CONQUER),
            "cuda",
            "only supported on AMD .ROCm. GPUs, not on NVIDIA CUDA",
        ),
        (
            lambda x: linalg.eigh(x, implementation=EighImplementation.QDWH),
            "cuda",
            "QDWH implementation is only supported on TPU",
        ),
        (
            lambda x: linalg.eigh(x, implementation=EighImplementation.QDWH),
            "tpu",
            "QDWH implementation is not supported on TPU",
        ),
    ],
)
def test_what_a_library_lacks_is_said(f, platform, message):
    with pytest.raises(NotImplementedError, match=message):
        lowered(f, (3, 3), platform)

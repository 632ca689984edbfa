"""The operation table compiled for devices that are not there; `make targets` runs all of it."""

import re

import pytest
from targets.compiled_rows import OPS, TARGETS, compile_row, is_installed, rows

# What is refused, and why: by row, of some targets, for values or derivatives.
NO_KERNEL = "there is no kernel for platform 'tpu'"
NO_RULE = "Differentiation rule for '.*' not implemented"
ON_TPU = {
    "geqp3": NO_KERNEL,
    "qr_pivoted": NO_KERNEL,
    "eig": NO_KERNEL,
    "eig_values": NO_KERNEL,
    "schur": NO_KERNEL,
    "hessenberg": NO_KERNEL,
    "tridiagonal": NO_KERNEL,
    # libtpu takes complex numbers apart, and knows no such layouts of the parts.
    "layout_constraint": r"X\{64\|128\} element types.*custom-call",
}
NOT_DIFFERENTIATED = {
    "select_and_scatter": NO_RULE,
    "scaled_dot": NO_RULE,
    "rng_uniform": NO_RULE,
}
ON_GPU = {
    "schur": "there is no kernel for platform 'cuda'",
    "hessenberg": "there is no kernel for platform 'cuda'",
    "conv": "integer convolutions to idioms supported by CuDNN",
}
REAL = sorted(name for name, op in OPS.items() if "float32" in op.dtypes)
QUICK = REAL[:: len(REAL) // 20][:20]


def check(name, dtype, target, *, derivatives=False):
    if not is_installed(target):
        pytest.skip(f"{target} needs a plugin")
    known = ON_GPU if target == "H100" else ON_TPU
    known = {**known, **NOT_DIFFERENTIATED} if derivatives else known
    try:
        compile_row(name, dtype, target, derivatives=derivatives)
    except Exception as err:
        reason = next((why for row, why in known.items() if name.startswith(row)), None)
        if reason is None or not re.search(reason, str(err), re.DOTALL):
            raise


@pytest.mark.parametrize("name", QUICK)
def test_a_sample_for_v5e(name):
    check(name, "float32", "v5e")


TARGETS_OF_MAKE = ["v5e", "v6e", "v5p", "H100"]
assert set(TARGETS_OF_MAKE) <= set(TARGETS)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS_OF_MAKE)
@pytest.mark.parametrize(("name", "dtype"), rows())
def test_all_of_it(name, dtype, target):
    check(name, dtype, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS_OF_MAKE)
@pytest.mark.parametrize(("name", "dtype"), rows(derivatives=True))
def test_derivatives(name, dtype, target):
    check(name, dtype, target, derivatives=True)

"""The laws of structural operations, on every sample: values, jit, vmap and derivatives."""

import numpy as np
import pytest
from lax import laws, samples_reductions, samples_shapes, samples_slicing, samples_sorting

SAMPLES = [s for m in (samples_reductions, samples_shapes, samples_slicing, samples_sorting) for s in m.SAMPLES]
CASES = [pytest.param(s, d, id=f"{s.name}-{d}") for s in SAMPLES for d in s.dtypes]
NAMES = [pytest.param(s, id=s.name) for s in SAMPLES]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(("sample", "dtype"), CASES)
def test_value(sample, dtype, rng):
    laws.check_value(sample, rng, dtype)


@pytest.mark.parametrize("sample", NAMES)
def test_jit_and_vmap(sample, rng):
    laws.check_jit(sample, rng, sample.dtypes[0])
    laws.check_vmap(sample, rng, sample.dtypes[0])


@pytest.mark.parametrize("sample", [p for p in NAMES if p.values[0].differentiable])
def test_derivatives(sample, rng):
    laws.check_derivatives(sample, rng)

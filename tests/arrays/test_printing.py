"""How arrays print: as recorded in tests/data/printing.json, and as NumPy's print options say."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

DATA = Path(__file__).parents[1] / "data"
_spec = importlib.util.spec_from_file_location("make_printing", DATA / "make_printing.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)
GOLDEN = json.loads((DATA / "printing.json").read_text())


@pytest.mark.parametrize("dtype", make.DTYPES)
def test_arrays(dtype):
    recorded = [case for case in GOLDEN["arrays"] if case[0] == dtype]
    assert len(recorded) == len(make.SHAPES) + 2 * len(make.OPTIONS)
    for _, shape, options, as_repr, as_str in recorded:
        x = jnp.asarray(make.values(dtype, shape)).astype(dtype)
        with np.printoptions(**options):
            assert repr(x) == as_repr
            assert str(x) == as_str and (x.ndim == 0 or f"{x}" == as_str)


@pytest.mark.filterwarnings("ignore:.*ComplexWarning")
@pytest.mark.parametrize("what", ["weak", "integers", "formats", "others"])
def test_widths_formats_and_containers(what):
    assert json.loads(json.dumps(make.printed(jax)[what])) == GOLDEN[what]


def test_a_format_of_several_elements():
    for spec in (".2f", ">10"):
        with pytest.raises(TypeError, match="unsupported format string"):
            format(jnp.ones(2), spec)


def test_keys():
    key = jax.random.key(0)
    assert repr(key) == str(key) == f"{key}" == "Array((), dtype=key<fry>) overlaying:\n[0 0]"

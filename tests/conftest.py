"""Settings of the whole suite.

Eight CPU devices, jaxprs checked, quickly compiled, random tests repeatable, no jax.
"""

import gc
import os
import sys
from pathlib import Path

# Options are read when teucer is imported, so before any test module; workers and child processes
# inherit them. tests/test_as_users.py starts a process in which all are as users have them.
if os.environ.get("TEUCER_TESTS") != "as users":
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
    os.environ.setdefault("JAX_ENABLE_CHECKS", "1")
    os.environ.setdefault(
        "TEUCER_CACHE_DIR", str(Path(__file__).parent.parent / ".cache" / "teucer")
    )
    os.environ.setdefault(
        "JAX_DISABLE_MOST_OPTIMIZATIONS", "1"
    )  # programs that run once; `make test-all` optimises
    # Some thousand programs in memory, and others let go, as in long runs.
    os.environ.setdefault("TEUCER_MAX_MEMORY_MAPS", "4000")
os.environ.setdefault("TEUCER_RATES", "committed")  # whatever this machine was measured to be
os.environ.setdefault("MPLBACKEND", "agg")

import hypothesis
import pytest

collect_ignore = ["data"]  # golden data, and the programs that made it with other software

hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=50, print_blob=True
)
hypothesis.settings.register_profile(
    "thorough", parent=hypothesis.settings.get_profile("repeatable"), max_examples=1000
)
hypothesis.settings.load_profile(os.environ.get("TEUCER_HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config):
    """Leave out files that change the process they are imported in, also where they are named.

    `--ignore` (pyproject.toml) holds for folders that pytest walks through, not for its arguments.
    """
    ignored = [config.rootpath / path for path in config.getoption("ignore") or ()]
    config.args = [
        arg
        for arg in config.args
        if not any((config.rootpath / arg).is_relative_to(path) for path in ignored)
    ]


def pytest_collection_finish(session):
    """Take what stands after collection out of the garbage collector's sight: some million objects
    of 25,000 tests, half a second in each full collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_jax():
    """After all tests of a process no module of jax is loaded, which some paths of jaxlib do where
    jax is installed."""
    yield
    loaded = sorted(name for name in sys.modules if name == "jax" or name.startswith("jax."))
    assert not loaded, f"modules of jax were loaded: {loaded[:5]}"


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """After each module its programs are let go: each takes a hundred KiB."""
    yield
    import teucer

    teucer.clear_caches()


@pytest.fixture(scope="module")
def only_new_objects():
    """Searches for leaks go through all objects: not through those of earlier modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def optimised():
    """Programs as users compile them: for tests of last bits, which XLA's quicker ways to compile
    tanh and others change."""
    from teucer._base import config

    with config.disable_most_optimizations(False):
        yield

"""Passes that users give the compiler."""

import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._executables import disk_cache
from teucer.extend import xla


@pytest.fixture
def seen():
    modules = []
    xla.register_hlo_module_transformation(modules.append, name="watch", platforms="cpu")
    yield modules
    xla.clear_hlo_module_transformation("watch", platforms="cpu")


def test_a_pass_sees_each_program(seen):
    assert jax.jit(lambda x: jnp.sin(x) + 3)(0.0) == 3.0
    assert seen and all(isinstance(module, bytes) for module in seen)
    # What such a program does has no name in the cache.
    assert disk_cache.cache_dir() is None


def test_a_pass_is_taken_back(seen):
    assert xla.clear_hlo_module_transformation("watch") and not xla.clear_hlo_module_transformation(
        "watch"
    )
    assert jax.jit(lambda x: jnp.sin(x) + 4)(0.0) == 4.0 and seen == []
    assert not xla.clear_hlo_module_transformation("watch", xla.PipelineStage.POST_SCHEDULER)


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="stage must be a PipelineStage, got 0"):
        xla.register_hlo_module_transformation(len, name="a", stage=0)
    with pytest.raises(TypeError, match="callback must be a function"):
        xla.register_hlo_module_transformation(None, name="a")
    with pytest.raises(RuntimeError, match="nowhere"):
        xla.register_hlo_module_transformation(len, name="a", platforms="nowhere")


def test_a_pass_for_a_platform_that_is_not_there():
    """Nothing comes of it, here; an unknown name is refused."""
    seen = []
    xla.register_hlo_module_transformation(seen.append, name="elsewhere", platforms=("tpu", "rocm"))
    assert jax.jit(lambda x: x + 17)(1.0) == 18.0
    assert not seen
    assert not xla.clear_hlo_module_transformation("elsewhere", platforms=("tpu", "rocm"))

"""Backends, places in programs, and values that processes share, as libraries ask for them."""

import numpy as np
import pytest

import teucer as jax
from teucer.experimental import multihost_utils, pjit
from teucer.extend import backend, source_info_util
from teucer.sharding import PartitionSpec as P


def test_backends():
    assert set(backend.backends()) >= {"cpu"} and backend.get_backend().platform == jax.default_backend()
    assert backend.get_default_device() == jax.devices()[0]
    with jax.default_device(jax.devices()[0]):
        assert backend.get_default_device() == jax.devices()[0]
    with pytest.raises(RuntimeError, match="nowhere"):
        backend.get_backend("nowhere")


def test_scopes():
    assert str(source_info_util.current_name_stack()) == ""
    with jax.named_scope("a"), source_info_util.extend_name_stack("b") as scopes:
        assert str(scopes) == str(source_info_util.current_name_stack()) == "a/b" and len(scopes) == 2
        with source_info_util.reset_name_stack():
            assert str(source_info_util.current().name_stack) == ""
        with source_info_util.set_name_stack(source_info_util.new_name_stack("c").extend("d")):
            assert str(source_info_util.current_name_stack()) == "c/d"
        assert str(source_info_util.current_name_stack()) == "a/b"
    assert "test_places.py" in source_info_util.summarize(source_info_util.current())


def test_one_process():
    tree = {"a": jax.numpy.arange(4.0), "b": 3}
    assert multihost_utils.broadcast_one_to_all(tree)["a"].tolist() == [0, 1, 2, 3]
    assert multihost_utils.process_allgather(tree)["b"].shape == (1,)
    assert multihost_utils.process_allgather(tree, tiled=True)["a"].shape == (4,)
    multihost_utils.sync_global_devices("here")
    multihost_utils.assert_equal(tree)
    mesh = jax.make_mesh((1,), ("x",))
    laid = multihost_utils.host_local_array_to_global_array((np.arange(8.0), np.ones(4)), mesh, P("x"))
    assert laid[0].sharding.spec == P("x") and laid[1].shape == (4,)
    back = multihost_utils.global_array_to_host_local_array(laid, mesh, (P("x"), None))
    assert back[0].tolist() == list(range(8)) and back[1].sharding.spec == P()
    with multihost_utils.live_devices(jax.devices()) as devices:
        assert devices == jax.devices()
    with pytest.raises(RuntimeError, match="Distributed JAX not initialized"):
        multihost_utils.reached_preemption_sync_point(1)


def test_pjit_is_jit():
    assert pjit.pjit is jax.jit

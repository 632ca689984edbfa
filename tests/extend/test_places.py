"""Backends and places in programs, as libraries ask for them."""

import pytest

import teucer as jax
from teucer.experimental import pjit
from teucer.extend import backend, source_info_util


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


def test_pjit_is_jit():
    assert pjit.pjit is jax.jit

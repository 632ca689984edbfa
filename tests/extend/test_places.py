"""Backends and places in programs, as libraries ask for them."""

import functools

import pytest

import teucer as jax
from teucer._devices import backends as places
from teucer.experimental import pjit
from teucer.extend import backend, lowering, source_info_util


def test_backends():
    assert (
        set(backend.backends()) >= {"cpu"}
        and backend.get_backend().platform == jax.default_backend()
    )
    assert backend.get_default_device() == jax.devices()[0]
    with jax.default_device(jax.devices()[0]):
        assert backend.get_default_device() == jax.devices()[0]
    with pytest.raises(RuntimeError, match="nowhere"):
        backend.get_backend("nowhere")


@pytest.fixture
def no_clients(monkeypatch):
    """As in a new process that says nothing of platforms."""
    chosen = jax.config.jax_platforms
    monkeypatch.setattr(places, "_clients", {})
    jax.config.update("jax_platforms", None)
    yield
    jax.config.update("jax_platforms", chosen)


def test_platforms_of_users(monkeypatch, no_clients):
    monkeypatch.setattr(places, "_factories", {})
    client = object()
    backend.register_backend_factory("mine", lambda: client, priority=500)
    backend.register_backend_factory("lacking", lambda: None)
    backend.register_backend_factory("broken", lambda: 1 / 0)
    backend.register_backend_factory("last", lambda: client, priority=-5)
    monkeypatch.setattr(places, "_cpu", lambda: client)
    made = places._make_clients()
    assert made.get("mine") is client and next(iter(made)) == "mine" and list(made)[-1] == "last"
    assert (
        places._failures["broken"] == "division by zero"
        and "no such hardware" in places._failures["lacking"]
    )
    backend.register_backend_factory("broken", lambda: 1 / 0, fail_quietly=False)
    with pytest.raises(
        RuntimeError, match="Unable to initialize backend 'broken': division by zero"
    ):
        places._make_clients()
    with pytest.raises(TypeError, match="must be a function"):
        backend.register_backend_factory("x", None)


def test_options_of_the_compiler():
    options = backend.get_compile_options(
        1, 1, device_assignment=[[0]], env_options_overrides={"xla_dump_to": ""}
    )
    assert options.num_replicas == options.executable_build_options.num_partitions == 1
    assert backend.get_compile_options(2, 1, device_assignment=[0, 1]).num_replicas == 2
    with pytest.raises(ValueError, match="device_assignment does not match"):
        backend.get_compile_options(1, 2, device_assignment=[[0]])


def test_caches_of_users_are_forgotten():
    cached = functools.lru_cache(lambda x: x)
    cached(1)
    backend.register_backend_cache(cached, "a test")
    jax.clear_caches()
    assert cached.cache_info().currsize == 0
    with pytest.raises(TypeError, match="'a test' has no method cache_clear"):
        backend.register_backend_cache(3, "a test")
    assert backend.backend_xla_version("cpu") is None
    backend.clear_in_memory_compilation_cache()


def test_contexts_of_mlir():
    with lowering.JaxIrContext() as context:
        context.append_dialect_registry(lowering.upstream_dialects)
        context.load_all_available_dialects()
        assert context.is_registered_operation("func.func")


def test_scopes():
    assert str(source_info_util.current_name_stack()) == ""
    with jax.named_scope("a"), source_info_util.extend_name_stack("b") as scopes:
        assert (
            str(scopes) == str(source_info_util.current_name_stack()) == "a/b" and len(scopes) == 2
        )
        with source_info_util.reset_name_stack():
            assert str(source_info_util.current().name_stack) == ""
        with source_info_util.set_name_stack(source_info_util.new_name_stack("c").extend("d")):
            assert str(source_info_util.current_name_stack()) == "c/d"
        assert str(source_info_util.current_name_stack()) == "a/b"
    assert "test_places.py" in source_info_util.summarize(source_info_util.current())


def test_pjit_outside_of_a_block_is_jit():
    """What it does within `with mesh:` is in tests/sharding/test_meshes.py."""
    f = pjit.pjit(lambda x, n: x * n, static_argnums=1)
    assert f(2.0, 3) == jax.jit(lambda x, n: x * n, static_argnums=1)(2.0, 3)
    assert "multiply" in f.lower(2.0, 3).as_text()

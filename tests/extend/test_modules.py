"""Modules of `extend` that hand on what jaxlib has."""

import importlib

import numpy as np

import teucer as jax
from teucer.extend import mlir, sharding
from teucer.extend.mlir.dialects import stablehlo


def test_bindings_of_mlir():
    assert importlib.import_module("teucer.extend.mlir.dialects.stablehlo") is stablehlo
    assert importlib.import_module("teucer.extend.mlir.ir") is mlir.ir
    artifact = jax.export.export(jax.jit(lambda x: x + 1))(np.float32(1)).mlir_module_serialized
    context = jax.interpreters.mlir.make_ir_context()
    assert "stablehlo.add" in str(mlir.deserialize_portable_artifact(artifact, context))


def test_programs_of_ifrt():
    assert hasattr(
        importlib.import_module("teucer.extend.ifrt_programs").ifrt_programs, "make_plugin_program"
    )
    assert importlib.import_module("teucer.interpreters.pxla").__doc__


def test_shardings_as_bytes():
    device = jax.devices()[0]
    op = sharding.get_op_sharding_from_serialized_proto(b"")
    made = sharding.GSPMDSharding((device,), op)
    assert made.is_fully_replicated and made.device_set == {device}


def test_debug_info_of_libraries():
    """As kfac-jax makes it, of what a jaxpr says, with other results."""
    info = jax.make_jaxpr(lambda x: x + 1)(1.0).jaxpr.debug_info
    made = jax.extend.core.DebugInfo(info.traced_for, info.func_src_info, info.arg_names, ("0",))
    assert isinstance(info, jax.extend.core.DebugInfo) and isinstance(made, type(info))
    assert (made.func_name, made.func_filename, made.func_lineno) == (
        info.func_name,
        info.func_filename,
        info.func_lineno,
    )
    assert (
        made.arg_names == tuple(info.arg_names)
        and made.safe_result_paths(1) == ("0",)
        and made.safe_result_paths(2) == ("", "")
    )
    plain = jax.extend.core.DebugInfo("vmap", "f", None, lambda: ("result",))
    assert (
        plain.func_filename is None
        and plain.result_paths == ("result",)
        and plain.traced_for == "vmap"
    )
    assert not isinstance("f", jax.extend.core.DebugInfo)

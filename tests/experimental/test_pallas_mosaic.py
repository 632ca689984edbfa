"""Kernels as the tpu dialect: the texts, what is refused, and with libtpu installed, that it
compiles them."""

import importlib.util

import numpy as np
import pytest
from kernels import ways

import teucer as jax
import teucer.numpy as jnp
from teucer._core.trace import typeof
from teucer._pallas.mosaic.kernel import module_of
from teucer.experimental import pallas as pl
from teucer.experimental import topologies
from teucer.experimental.pallas import tpu as pltpu

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason='needs pip install "teucer[tpu]"'
)


def like(*shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def text_of(f, *args):
    """The module of the first kernel that f calls."""
    found = []

    def keep(kernel, operands):
        found.append(module_of(kernel, [typeof(x) for x in operands]))
        return tuple(jnp.zeros(b.array.shape, b.array.dtype) for b in kernel.outs)

    with ways.evaluating(keep):
        f(*args)
    return found[0].text


def refused(f, *args):
    with pytest.raises(NotImplementedError) as caught:
        jax.jit(f).trace(*args).lower(lowering_platforms=("tpu",))
    return str(caught.value)


def add(x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    rows = pl.BlockSpec((128, 512), lambda i: (i, 0))
    options = pltpu.CompilerParams(dimension_semantics=("parallel",))
    return pl.pallas_call(
        kernel,
        like(1024, 512),
        grid=(8,),
        in_specs=[rows, rows],
        out_specs=rows,
        compiler_params=options,
        name="add",
    )(x, y)


ADD = """module @add {
  func.func @add(%1: i32, %2: memref<128x512xf32, #tpu.memory_space<vmem>>, %3: memref<128x512xf32, #tpu.memory_space<vmem>>, %4: memref<128x512xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>], iteration_bounds = array<i64: 8>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 128, 512>}, {transform_indices = @transform_1, window_bounds = array<i64: 128, 512>}, {transform_indices = @transform_2, window_bounds = array<i64: 128, 512>}]} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 0 : index
    %5 = vector.load %2[%c1, %c1] : memref<128x512xf32, #tpu.memory_space<vmem>>, vector<128x512xf32>
    %6 = vector.load %3[%c1, %c1] : memref<128x512xf32, #tpu.memory_space<vmem>>, vector<128x512xf32>
    %7 = arith.addf %5, %6 : vector<128x512xf32>
    tpu.vector_store %4[%c1, %c1], %7 {strides = array<i32>} : memref<128x512xf32, #tpu.memory_space<vmem>>, vector<128x512xf32>, 
    return
  }
  func.func @transform_0(%1: i32) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    return %1, %c0 : i32, i32
  }
"""  # noqa: E501, W291


def without_places(text):
    return "\n".join(line.partition(" loc(")[0] for line in text.split("\n"))


def test_the_text_of_an_addition():
    text = text_of(add, jnp.ones((1024, 512)), jnp.ones((1024, 512)))
    assert without_places(text).startswith(ADD)
    assert "test_pallas_mosaic.py" in text.partition("arith.addf")[2].partition("\n")[0]


def test_the_call_in_a_program():
    xs = jnp.ones((1024, 512))
    text = jax.jit(add).trace(xs, xs).lower(lowering_platforms=("tpu",)).as_text()
    for said in (
        "stablehlo.custom_call @tpu_custom_call(%arg0, %arg1)",
        'kernel_name = "add"',
        r"\22needs_layout_passes\22: true",
        r"\22flops\22: 524288, \22transcendentals\22: 0, \22bytes_accessed\22: 6291456",
    ):
        assert said in text


@needs_libtpu
@pytest.mark.parametrize("chip", ["v5e:2x2", "v6e:2x2", "tpu7x:2x2x1"])
def test_an_addition_compiles(chip):
    device = topologies.get_topology_desc(chip, "tpu").devices[0]
    where = jax.sharding.SingleDeviceSharding(device)
    x = jax.ShapeDtypeStruct((1024, 512), np.float32, sharding=where)
    compiled = jax.jit(add).lower(x, x).compile()
    assert "tpu_custom_call" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] == 524288


def blocks(shape, block):
    """A kernel that copies blocks of an array."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec(block, lambda i: (i,) + (0,) * (len(shape) - 1))
    return lambda x: pl.pallas_call(kernel, x, grid=2, in_specs=[spec], out_specs=spec)(x)


def test_blocks_that_cut_tiles():
    text = refused(blocks((24, 128), (12, 128)), jnp.ones((24, 128)))
    assert "input 0: blocks of [12, 128] of an array of [24, 128] float32" in text
    assert "12 along axis 0 is no multiple of 8, nor all 24" in text
    assert "take 16 there, or all of the axis" in text
    text = refused(blocks((256,), (100,)), jnp.ones(256))
    assert "no multiple of 128" in text


def test_more_vmem_than_there_is():
    text = refused(blocks((16384, 4096), (8192, 4096)), jnp.ones((16384, 4096)))
    assert "512.0 MiB of VMEM, more than 128.0 MiB" in text
    assert "256.00 MiB  input 0: float32[8192, 4096] x 2 buffers" in text


def test_what_has_no_rule_is_named_with_its_line():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sort(x_ref[...])

    text = refused(pl.pallas_call(kernel, like(8, 128)), jnp.ones((8, 128)))
    assert "Mosaic has no rule for sort" in text
    assert "test_pallas_mosaic.py" in text
    assert "jnp.sort" in text


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.complex64, np.float16])
def test_types_that_chips_lack(dtype):
    with jax.enable_x64(True):
        text = refused(blocks((16, 128), (8, 128)), jnp.ones((16, 128), dtype))
    assert f"TPU kernels have no elements of type {np.dtype(dtype)}" in text


def test_loads_from_memory_that_kernels_do_not_reach():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, like(8, 128), in_specs=[pl.BlockSpec(memory_space=pl.ANY)])
    text = refused(f, jnp.ones((8, 128)))
    assert "a load from memory any" in text
    assert "pltpu.sync_copy" in text

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


# --- Values: the module in NumPy ------------------------------------------------------------------


def numbers(*shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if jnp.issubdtype(dtype, np.integer):
        return rng.integers(1, 8, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def of_values(f, *xs):
    """f of whole arrays, as a kernel."""
    out = jax.eval_shape(f, *xs)

    def kernel(*refs):
        refs[-1][...] = f(*(r[...] for r in refs[:-1]))

    return pl.pallas_call(kernel, out)


def agrees(f, *xs, tolerance=1e-5):
    """That the module for TPUs computes what the kernel does on the CPU."""
    found, wanted = jax.tree.leaves(ways.on_tpu(f, *xs)), jax.tree.leaves(jax.jit(f)(*xs))
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        a, b = (np.asarray(x).astype(np.float64) for x in (a, b))
        np.testing.assert_allclose(a, b, tolerance, tolerance)


F = {
    "transposed": lambda x: x.T,
    "parts": lambda x: jnp.concatenate([x[8:], x[:8] * 2], 0),
    "halves": lambda x: x.reshape(2, 8, 128).sum(0),
    "every other": lambda x: x[1::2, ::2],
    "rolled": lambda x: pltpu.roll(x, 3, 1, stride=2, stride_axis=0),
    "sums": lambda x: jnp.cumsum(x, 1),
    "greatest": lambda x: jnp.argmax(x, 1, keepdims=True),
    "product": lambda x: jnp.prod(x, 0, keepdims=True),
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "column": lambda x: x[:, 3:4] + x[5],
    "masked": lambda x: jnp.where(x > 0, x, jnp.nan),
    "moved": lambda x: jax.lax.dynamic_slice(x, (jnp.int32(x[0, 0]) * 0 + 4, 0), (8, 128)),
    "turned": lambda x: x[::-1],
    "padded": lambda x: jnp.pad(x, ((3, 5), (0, 0)), constant_values=2),
    "functions": lambda x: jnp.expm1(x) + jnp.arctan(x) + jnp.sinh(x) + jax.lax.erf(x),
    "not equal": lambda x: jnp.where(jnp.log(x) != jnp.log(x), 1, 0),
}


@pytest.mark.parametrize("name", F)
def test_values(name):
    agrees(of_values(F[name], numbers(16, 128)), numbers(16, 128))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.int8, np.uint8, jnp.int4, np.int32, np.uint32])
def test_values_of_narrow_numbers(dtype):
    def f(x):
        return jnp.maximum(x * x - x, x) + (x // jnp.asarray(3, x.dtype))

    x = numbers(64, 128, dtype=dtype)
    agrees(of_values(f, x), x, tolerance=2e-2)
    agrees(of_values(lambda x: (-x).astype(np.float32), x), x)
    agrees(of_values(lambda y: (y * 50).astype(dtype), numbers(64, 128)), numbers(64, 128))


@pytest.mark.parametrize(
    "said", ["ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "bij,bkj->bik", "bij,jk->bik"]
)
def test_values_of_products(said):
    left, right = said.partition("->")[0].split(",")
    sizes = {"b": 2, "i": 16, "j": 128, "k": 32}
    x, y = (numbers(*(sizes[a] for a in names)) for names in (left, right))
    agrees(of_values(lambda x, y: jnp.einsum(said, x, y), x, y), x, y, tolerance=1e-4)


def test_values_of_a_grid_with_scratch_memory_prefetch_and_edges():
    def kernel(order, scale, x_ref, o_ref, total):
        @pl.when(pl.program_id(1) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += x_ref[...] * scale[0] + order[pl.program_id(0)]

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            o_ref[...] = total[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(3, 2),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j, order, scale: (order[i], j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, order, scale: (order[i], 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), np.float32)],
    )
    f = pl.pallas_call(kernel, like(20, 128), grid_spec=spec)
    agrees(f, np.array([2, 0, 1], np.int32), np.array([3.0], np.float32), numbers(20, 256))


def test_values_of_control_flow():
    def kernel(n_ref, x_ref, o_ref):
        n = n_ref[0]
        x = jax.lax.fori_loop(0, n, lambda i, c: c + x_ref[pl.ds(i, 1)], x_ref[...])
        x, mask = jax.lax.while_loop(
            lambda c: jnp.max(c[0]) > 1, lambda c: (c[0] * 0.5, ~c[1]), (x, x > 0)
        )
        x = jax.lax.switch(n, [lambda: x, lambda: -x, lambda: x * 2, lambda: x * 3])
        o_ref[...] = jnp.where(mask, x, jnp.tanh(x))

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()]
    f = pl.pallas_call(kernel, like(16, 128), in_specs=specs)
    for n in (0, 1, 2, 7):
        agrees(f, np.array([n], np.int32), numbers(16, 128))


def test_values_of_copies():
    def kernel(x_ref, o_ref, buffer, sems):
        for k in range(2):
            part = pl.ds(8 * k, 8)
            copy = pltpu.make_async_copy(x_ref.at[part], buffer.at[k], sems.at[k])
            copy.start()
            copy.wait()
            buffer[k] *= 2
            pltpu.sync_copy(buffer.at[k], o_ref.at[part])

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    f = pl.pallas_call(
        kernel,
        like(16, 128),
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=[pltpu.VMEM((2, 8, 128), np.float32), pltpu.SemaphoreType.DMA((2,))],
    )
    agrees(f, numbers(16, 128))


def anywhere(f, out, n=1):
    spec = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(f, out, in_specs=[spec] * n, out_specs=spec)


def test_values_of_a_pipeline():
    """Blocks that come again are not copied again; a result is given when its block ends."""

    def kernel(x_ref, y_ref, o_ref):
        def body(x_ref, y_ref, o_ref):
            @pl.when(pl.program_id(1) == 0)
            def _():
                o_ref[...] = jnp.zeros_like(o_ref)

            o_ref[...] += x_ref[...] * y_ref[...]

        block = pl.BlockSpec((8, 128), lambda i, j: (i, j))
        row = pl.BlockSpec((8, 128), lambda i, j: (0, j))
        result = pl.BlockSpec((8, 128), lambda i, j: (i, 0))
        pltpu.emit_pipeline(body, grid=(5, 3), in_specs=[block, row], out_specs=[result])(
            x_ref, y_ref, o_ref
        )

    agrees(anywhere(kernel, like(40, 128), 2), numbers(40, 384), numbers(8, 384, seed=1))


CORES = pltpu.create_tensorcore_mesh("core", num_cores=2)
OWN = [pltpu.VMEM((8, 128), np.float32), pltpu.SemaphoreType.DMA]


def test_values_of_cores():
    def kernel(x_ref, o_ref, buffer, sem):
        core = jax.lax.axis_index("core")
        rows = pl.ds(core * 8, 8)
        pltpu.async_copy(x_ref.at[rows], buffer, sem).wait()
        buffer[...] = buffer[...] * 2 + core
        pltpu.async_copy(buffer, o_ref.at[rows], sem).wait()

    agrees(pl.kernel(kernel, like(16, 128), mesh=CORES, scratch_types=OWN), numbers(16, 128))

    def mapped(x):
        ref = jax.new_ref(x)
        pl.core_map(CORES, scratch_shapes=OWN)(lambda *own: kernel(ref, ref, *own))
        return ref[...]

    agrees(mapped, numbers(16, 128))
    text = text_of(mapped, jnp.ones((16, 128)))
    assert "iteration_bounds = array<i64: 2>" in text
    assert "#tpu.dimension_semantics<parallel>" in text


def test_values_of_packed_numbers():
    x = numbers(16, 128)

    def packed(x):
        words = pltpu.pack_elementwise([x, -x], packed_dtype=jnp.bfloat16)
        return pltpu.unpack_elementwise(
            words, index=1, packed_dtype=jnp.bfloat16, unpacked_dtype=np.float32
        )

    np.testing.assert_array_equal(packed(x), (-x).astype(jnp.bfloat16).astype(np.float32))
    text = text_of(of_values(packed, x), x)
    assert "tpu.pack_elementwise" in text
    assert "tpu.unpack_elementwise" in text
    with pytest.raises(ValueError, match="2 arrays of bfloat16 fit in 32 bits, got 1"):
        pltpu.pack_elementwise([x], packed_dtype=jnp.bfloat16)
    with pytest.raises(ValueError, match="index is 2, and 2 arrays"):
        pltpu.unpack_elementwise(x, index=2, packed_dtype=jnp.bfloat16, unpacked_dtype=np.float32)


def test_stochastic_rounding():
    x = jnp.full((64, 128), 1 + 2**-9, np.float32)  # a quarter of the way to the next bfloat16
    bits = jax.random.bits(jax.random.key(0), x.shape, np.uint32)
    rounded = np.asarray(pltpu.stochastic_round(x, bits, target_dtype=jnp.bfloat16), np.float32)
    assert set(np.unique(rounded)) == {1, 1 + 2**-7}
    assert abs(rounded.mean() - (1 + 2**-9)) < 2e-4
    with pytest.raises(NotImplementedError, match="from float32 to bfloat16"):
        pltpu.stochastic_round(x, bits, target_dtype=np.float16)


def test_values_of_parts_of_arrays_that_are_not_copied():
    """The batch of vmap is an axis of the grid: each step sees its part."""

    def kernel(x_ref, o_ref, buffer):
        pltpu.sync_copy(x_ref.at[pl.ds(8, 8)], buffer)
        buffer[...] *= 2
        pltpu.sync_copy(buffer, o_ref)

    def one(x):
        spec = pl.BlockSpec(memory_space=pl.ANY)
        memory = [pltpu.VMEM((8, 128), np.float32)]
        return pl.pallas_call(
            kernel, like(8, 128), in_specs=[spec], out_specs=spec, scratch_shapes=memory
        )(x)

    agrees(jax.vmap(one), numbers(3, 16, 128))

"""What kernels are written with beside blocks.

Prints, checks, costs, cores, semaphores, copies, pipelines.
"""

import functools

import numpy as np
import pytest
from kernels import ways

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import mosaic_gpu
from teucer.experimental.pallas import tpu as pltpu


def like(shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def test_debug_print(capfd):
    def kernel(x_ref, o_ref):
        pl.debug_print("x is {}", x_ref[0])
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, like((2,)))
    f(jnp.ones(2))
    jax.effects_barrier()
    assert "x is 1.0" in capfd.readouterr().out
    text = ways.module(kernel, like((2,)), np.ones(2, np.float32)).text
    assert 'tt.print "x is: " {hex = false, isSigned = array<i32: 0>} : %' in text


def test_debug_check():
    def kernel(x_ref, o_ref):
        pl.debug_check(x_ref[0] > 0, "x is negative")
        o_ref[...] = x_ref[...]

    def run(x):
        jax.block_until_ready(pl.pallas_call(kernel, like((2,)))(x))
        jax.effects_barrier()

    run(-jnp.ones(2))
    with pl.enable_debug_checks(True):
        assert pl.debug_checks_enabled()
        run(jnp.ones(2))
        with pytest.raises(Exception, match="x is negative"):
            run(-jnp.ones(2))
    with pytest.raises(TypeError, match=r"a boolean scalar, got bool\[2\]"):
        pl.debug_check(jnp.ones(2, bool), "")


@pytest.mark.parametrize(
    "f, args, expected",
    [
        (lambda x, y: jnp.exp(x @ y), (like((4, 8)), like((8, 2))), (128, 8, 224)),
        (lambda x: jnp.sin(x) + 1, (like((4, 8)),), (32, 32, 256)),
        (jnp.sum, (like((4, 8)),), (0, 0, 132)),
        (lambda x: jax.lax.fori_loop(0, 5, lambda i, a: a * 2, x), (like((4, 8)),), (165, 0, 256)),
    ],
)
def test_costs(f, args, expected):
    found = pl.estimate_cost(f, *args)
    assert (found.flops, found.transcendentals, found.bytes_accessed) == expected
    assert pl.CostEstimate(1, 2, 3).to_json() == (
        b'{"flops": 1, "transcendentals": 2, "bytes_accessed": 3, "remote_bytes_transferred": 0}'
    )


def test_copies_and_semaphores():
    def kernel(x_ref, o_ref, buffer, sems):
        first = pltpu.make_async_copy(x_ref.at[pl.ds(0, 2)], buffer, sems.at[0])
        first.start()
        first.wait()
        buffer[...] *= 2
        pltpu.async_copy(buffer, o_ref.at[pl.ds(2, 2)], sems.at[1]).wait()
        pl.semaphore_signal(sems.at[0], 3)
        o_ref[0] = pl.semaphore_read(sems.at[0]).astype(np.float32)
        pl.semaphore_wait(sems.at[0], 2)
        o_ref[1] = pl.semaphore_read(sems.at[0]).astype(np.float32)

    f = pl.pallas_call(
        kernel,
        like((4,)),
        scratch_shapes=[pltpu.VMEM((2,), np.float32), pltpu.SemaphoreType.DMA((2,))],
    )
    for way in (f, jax.jit(f)):
        assert way(jnp.array([5.0, 7, 0, 0])).tolist() == [3, 1, 10, 14]


def test_what_waits_for_ever():
    sem = jax.new_ref(jnp.int32(1))
    pl.semaphore_wait(sem)
    with pytest.raises(RuntimeError, match="the count is 0, and nobody is left to make it 1"):
        pl.semaphore_wait(sem)


def test_sync_copy_of_trees():
    a, b = jax.new_ref(jnp.arange(3)), jax.new_ref(jnp.zeros(3, jnp.int32))
    pltpu.sync_copy({"a": a}, {"a": b})
    pltpu.sync_copy(a, b, add=True)
    assert b[...].tolist() == [0, 2, 4]
    with pytest.raises(
        ValueError, match=r"different types: from Ref\{int32\[3\]\}|different types"
    ):
        pltpu.sync_copy(a, b.at[1:])
    c = jax.new_ref(jnp.arange(4))
    for way in (lambda f: f, jax.jit):
        way(lambda i: pltpu.sync_copy({"a": c.at[pl.ds(i, 2)]}, {"a": b.at[1:]}))(2)
        assert b[...].tolist() == [0, 2, 3]


def test_cores():
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)

    @functools.partial(
        pl.kernel, out_type=like((2, 4)), mesh=mesh, scratch_types=[pltpu.VMEM((4,), np.float32)]
    )
    def double(x_ref, o_ref, scratch):
        core = jax.lax.axis_index("core")
        pltpu.sync_copy(x_ref.at[core], scratch)
        o_ref[core] = scratch[...] * 2 + core

        @pltpu.run_on_first_core("core")
        def _():
            o_ref[0, 0] = -1.0

    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    expected = x * 2 + np.arange(2)[:, None]
    expected[0, 0] = -1
    for way in (double, jax.jit(double)):
        np.testing.assert_array_equal(way(x), expected)


def test_parts_of_references_are_arguments_of_kernels_on_cores():
    @functools.partial(
        pl.kernel, out_type=like((4,)), mesh=pltpu.create_tensorcore_mesh("core", num_cores=1)
    )
    def twice(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    x = jax.new_ref(jnp.arange(8.0).reshape(2, 4))
    for way in (lambda f: f, jax.jit):
        for i in (1, jnp.int32(1)):
            assert way(lambda i: twice(x.at[i]))(i).tolist() == [8, 10, 12, 14]


def test_core_map_changes_references():
    total = jax.new_ref(jnp.zeros(3))

    @pl.core_map(pltpu.create_tensorcore_mesh("core", num_cores=3))
    def _():
        total[jax.lax.axis_index("core")] = 1.0

    assert total[...].tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="mesh is a mesh of cores"):
        pl.core_map(3)
    with pytest.raises(NameError, match="core"):
        jax.lax.axis_index("core")


def test_pipelines():
    def kernel(x_ref, o_ref):
        def body(x_block, o_block):
            o_block[...] = x_block[...] + pl.program_id(0) * 10 + pl.program_id(1)

        block = pl.BlockSpec((2, 4), lambda i, j: (i, j))
        pltpu.emit_pipeline(body, grid=(2, 2), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    x = np.zeros((4, 8), np.float32)
    found = pl.pallas_call(kernel, like((4, 8)))(x)
    assert np.asarray(found)[::2, ::4].tolist() == [[0, 1], [10, 11]]
    with pytest.raises(ValueError, match="blocks of 2 do not divide an axis of 3"):
        pl.pallas_call(kernel, like((3, 8)))(x[:3])


@pytest.mark.parametrize("stride", [None, 2])
def test_roll(stride):
    x = np.arange(12).reshape(3, 4)
    expected = np.stack([np.roll(row, 1 + (stride or 0) * i) for i, row in enumerate(x)])
    options = {} if stride is None else {"stride": stride, "stride_axis": 0}
    np.testing.assert_array_equal(pltpu.roll(jnp.asarray(x), 1, 1, **options), expected)


def test_interpretation_by_context():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[3] + 0 * o_ref[...]

    f = pl.pallas_call(kernel, like(()), out_specs=pl.BlockSpec())
    with pltpu.force_tpu_interpret_mode():
        assert jax.make_jaxpr(f)(jnp.ones(4)).eqns[0].params["interpret"] is True
    with (
        pltpu.force_tpu_interpret_mode(pl.InterpretParams()),
        pytest.raises(pl.KernelError, match="nobody has written"),
    ):
        f(jnp.ones(4))
    assert jax.make_jaxpr(f)(jnp.ones(4)).eqns[0].params["interpret"] is False


@pytest.mark.parametrize(
    "call",
    [
        lambda: pltpu.get_barrier_semaphore(),
        lambda: pltpu.prng_seed(0),
        lambda: pltpu.get_tpu_info(),
        lambda: pltpu.make_async_remote_copy(None, None, None, None, 0),
    ],
)
def test_what_is_only_on_devices(call):
    with pytest.raises(
        NotImplementedError, match=r"outside of a kernel|in kernels only|only where there is"
    ):
        call()


def test_names_of_mosaic_gpu():
    assert str(mosaic_gpu.SMEM((2,), np.float32).memory_space) == "smem"
    with pytest.raises(NotImplementedError, match="tensor memory are not compiled yet"):
        mosaic_gpu.wgmma(None, None, None)


def test_checked_kernels_with_masks_and_atomic_operations():
    def kernel(x_ref, zero_ref, o_ref, sum_ref):
        i = pl.program_id(0) * 2 + jnp.arange(2)
        x = pltpu.load(x_ref.at[pl.ds(pl.program_id(0) * 2, 2)], mask=i < 3)
        pltpu.store(o_ref.at[pl.ds(pl.program_id(0) * 2, 2)], x + 1, mask=i < 3)
        pl.atomic_add(sum_ref, 0, x.sum())

    f = pl.pallas_call(
        kernel,
        [like((3,)), like((1,))],
        grid=2,
        input_output_aliases={1: 1},
        interpret=pl.InterpretParams(detect_races=True),
    )
    y, total = f(jnp.arange(3.0), jnp.zeros(1))
    assert (y.tolist(), total.tolist()) == ([1, 2, 3], [3])


def test_descriptions_of_arrays_stand_for_shape_and_dtype():
    ref = jax.new_ref(jnp.ones((3, 4), jnp.int32))
    assert jnp.zeros_like(ref.at[1]).aval.str_short() == "int32[4]"
    assert jnp.ones_like(like((2,), np.int8)).tolist() == [1, 1]
    assert jax.lax.bitcast_convert_type(np.float32([1]), like((1,), np.int32)).tolist() == [
        0x3F800000
    ]
    with pytest.raises(
        ValueError, match="Passing an array as a dtype argument is no longer supported"
    ):
        jnp.zeros(2, jnp.ones(2))


@pytest.mark.parametrize(
    "equation, sizes, match",
    [
        ("ab(cd)->cab", {}, "each letter must stand once on both sides"),
        ("ab->ba", {}, "the left side has 2 axes, the array 3"),
        ("ab(cd)->abcd", {}, r"Ambiguous split of an axis of 6 into \(cd\)"),
        ("a[b]c->abc", {}, "an axis is a letter"),
        ("ab(cd)->abcd", {"c": 4}, r"Cannot split size 6 into \(cd\)"),
    ],
)
def test_equations_that_do_not_fit(equation, sizes, match):
    with pytest.raises(ValueError, match=match):
        pltpu.einshape(equation, jnp.zeros((2, 3, 6)), **sizes)


def test_einshape():
    x = np.arange(36).reshape(2, 3, 6)
    np.testing.assert_array_equal(
        pltpu.einshape("ab(cd)->(cb)ad", jnp.asarray(x), c=2),
        x.reshape(2, 3, 2, 3).transpose(2, 1, 0, 3).reshape(6, 2, 3),
    )
    assert not pltpu.is_tpu_device()


def test_slices_say_what_they_take():
    assert pl.Slice.from_slice(slice(1, 5, 2), 10) == pl.Slice(1, 2, 2)
    assert not pl.ds(1, 3).is_dynamic_start and not pl.ds(1, 3).is_dynamic_size
    jax.make_jaxpr(lambda i: jnp.arange(5)[(s := pl.ds(i, 3))] * s.is_dynamic_start)(1)


@pytest.mark.parametrize(
    "module, name, match",
    [
        (pl, "get_global", "input_output_aliases"),
        (pl, "Indirect", "sparse cores"),
        (pl, "lower_as_mlir", "as_text"),
        (pl, "pallas_export_experimental", "jax.export.export"),
    ],
)
def test_what_compiled_kernels_alone_have_says_so(module, name, match):
    with pytest.raises(AttributeError, match=match):
        getattr(module, name)


@pytest.mark.parametrize(
    "module, name, match",
    [
        (pltpu, "TpuInfo", "it is not built yet"),
        (pltpu, "BufferedRef", "emit_pipeline"),
        (mosaic_gpu, "wgmma", "Write the kernel for Triton"),
    ],
)
def test_names_of_other_machines_say_so_on_use(module, name, match):
    value = getattr(module, name)
    with pytest.raises(NotImplementedError, match=match):
        value()


def test_memory_that_nobody_has_written_is_nan_if_asked_for():
    def kernel(o_ref):
        pl.run_scoped(lambda s: o_ref.__setitem__(..., s[...]), pltpu.VMEM((2,), jnp.float32))

    with pl.enable_poison_buffers(True):
        assert jnp.isnan(pl.pallas_call(kernel, jax.ShapeDtypeStruct((2,), jnp.float32))()).all()

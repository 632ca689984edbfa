"""Kernels interpreted with checks: right ones give what they give, wrong ones say the line."""

import functools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu

ROWS = pl.BlockSpec((2, 3), lambda i: (i, 0))
OUT = jax.ShapeDtypeStruct((4, 3), jnp.float32)
X = np.arange(12, dtype=np.float32).reshape(4, 3)


def run(kernel, out_specs=ROWS, out=OUT, scratch=(), **checks):
    return pl.pallas_call(
        kernel,
        out,
        grid=2,
        in_specs=[ROWS],
        out_specs=out_specs,
        scratch_shapes=scratch,
        interpret=pl.InterpretParams(**checks),
    )(X)


def test_right_kernels_pass():
    def kernel(x_ref, o_ref, memory):
        memory[...] = x_ref[...]

        @pl.when(pl.program_id(0) == 1)
        def _():
            memory[0] += 1.0

        @pl.loop(0, 2)
        def _(i):
            o_ref[i] = memory[i] * 2

    expected = 2 * X
    expected[2] += 2
    np.testing.assert_array_equal(
        run(kernel, scratch=[pltpu.VMEM((2, 3), jnp.float32)], detect_races=True), expected
    )


def test_blocks_over_the_end():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    spec = pl.BlockSpec((3, 3), lambda i: (i, 0))
    found = pl.pallas_call(
        kernel, OUT, grid=2, in_specs=[spec], out_specs=spec, interpret=pl.InterpretParams()
    )(X)
    np.testing.assert_array_equal(found, X + 1)


def add_up(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.sum(x_ref[...], axis=0)


def test_sums_in_order_race_only_if_asked():
    one, shape = pl.BlockSpec(), jax.ShapeDtypeStruct((3,), jnp.float32)
    np.testing.assert_array_equal(run(add_up, one, shape), X.sum(0))
    with pytest.raises(
        RuntimeError,
        match=r"(?s)a race: elements were written by step 0.*output 0.*test_pallas_checks.py:\d+",
    ):
        run(add_up, one, shape, detect_races=True)


def unwritten(x_ref, o_ref):
    o_ref[...] += x_ref[...]


def outside(x_ref, o_ref):
    o_ref[...] = x_ref[...]
    o_ref[pl.program_id(0) + 1] = x_ref[0]


@pytest.mark.parametrize(
    "kernel, text",
    [(unwritten, "nobody has written"), (outside, "out of bounds: 2 to 2 for an axis of 2")],
)
def test_wrong_kernels_say_the_line(kernel, text):
    with pytest.raises(
        RuntimeError, match=rf"(?s){text}.*output 0.*test_pallas_checks.py:\d+.*{kernel.__name__}"
    ):
        run(kernel)


def test_not_under_jit():
    with pytest.raises(NotImplementedError, match="outside of jit only"):
        jax.jit(lambda: run(unwritten))()


@pytest.mark.parametrize(
    "index_map, found",
    [
        (
            lambda i: (i + 1, 0),
            (
                r"block 2 of 2 along axis 0[\s\S]*input 0[\s\S]*at \(1,\) of the "
                r"grid[\s\S]*test_pallas_checks\.py:\d+"
            ),
        ),
        (lambda i: (i - 1, 0), r"block -1 of 2 along axis 0[\s\S]*at \(0,\)"),
    ],
    ids=["behind", "before"],
)
def test_blocks_outside_of_the_array(index_map, found):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    call = functools.partial(
        pl.pallas_call,
        kernel,
        jax.ShapeDtypeStruct((4, 4), jnp.float32),
        grid=2,
        in_specs=[pl.BlockSpec((2, 4), index_map)],
        out_specs=pl.BlockSpec((2, 4), lambda i: (i, 0)),
    )
    with pytest.raises(pl.KernelError, match=found):
        call(interpret=pl.InterpretParams())(jnp.ones((4, 4)))
    call(interpret=pl.InterpretParams(detect_out_of_bounds=False))(jnp.ones((4, 4)))


def test_blocks_of_elements_may_begin_in_the_padding():
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[1]

    found = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((3,), jnp.float32),
        grid=3,
        in_specs=[pl.BlockSpec((pl.Element(3, (1, 1)),), lambda i: (i,))],
        out_specs=pl.BlockSpec((1,), lambda i: (i,)),
        interpret=pl.InterpretParams(),
    )(jnp.arange(3.0))
    assert found.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "start", [lambda i: 4 * i, lambda i: jnp.where(i == 0, 0, 4)], ids=["product", "choice"]
)
@pytest.mark.parametrize(
    "interpret", [False, True, pl.InterpretParams()], ids=["compiled", "interpreted", "checked"]
)
def test_blocks_of_elements_that_reach_over_the_end_hold_nan_there(interpret, start):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[1:5]

    found = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((8,), jnp.float32),
        grid=2,
        in_specs=[pl.BlockSpec((pl.Element(6),), lambda i: (start(i),))],
        out_specs=pl.BlockSpec((4,), lambda i: (i,)),
        interpret=interpret,
    )(jnp.arange(8.0))
    np.testing.assert_array_equal(found, [1, 2, 3, 4, 5, 6, 7, np.nan])


def test_mistakes_of_beginners_are_told_as_such():
    def call(kernel, index_map=lambda i: (i, 0)):
        pl.pallas_call(
            kernel, OUT, grid=2, in_specs=[pl.BlockSpec((2, 3), index_map)], out_specs=ROWS
        )(X)

    def copy(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    with pytest.raises(
        TypeError,
        match=r"input 0: index_map does not take[\s\S]*grid of 1 axes[\s\S]*: 'j'[\s\S]*\.py:\d+",
    ):
        call(copy, lambda i, j: (i, 0))
    with pytest.raises(
        jax.errors.TracerBoolConversionError, match=r"the argument pl\.program_id\(0\)"
    ):
        call(lambda x_ref, o_ref: copy(x_ref, o_ref) if pl.program_id(0) == 0 else None)
    with pytest.raises(jax.errors.TracerBoolConversionError, match=r"the argument x_ref\."):
        call(lambda x_ref, o_ref: copy(x_ref, o_ref) if x_ref[0, 0] == 0 else None)
    with pytest.raises(
        TypeError,
        match=r"the kernel does not take its 2 references \(inputs: 1, outputs: 1[\s\S]*\.py:\d+",
    ):
        call(lambda x_ref: None)
    with pytest.raises(IndexError, match=r"jax\.ds\(start, size\)"):
        call(lambda x_ref, o_ref: copy(x_ref.at[: pl.program_id(0)], o_ref))
    with pytest.raises(ValueError, match="a size of the grid is negative: -1"):
        pl.pallas_call(copy, OUT, grid=-1)(X)


def test_races_may_only_be_warned_of():
    """As JAX's parameters of interpreted TPU kernels; each step is recorded."""
    one, shape, seen = pl.BlockSpec(), jax.ShapeDtypeStruct((3,), jnp.float32), []
    params = pltpu.InterpretParams(
        detect_races=True,
        on_race="warn",
        num_cores_or_threads=2,
        grid_point_recorder=lambda place, core: seen.append((*place, core)),
    )
    call = pl.pallas_call(add_up, shape, grid=2, in_specs=[ROWS], out_specs=one, interpret=params)
    with pytest.warns(UserWarning, match="a race: elements were written by step 0"):
        np.testing.assert_array_equal(call(X), X.sum(0))
    assert seen == [(0, 0), (1, 0)]


def test_memory_that_nobody_has_written():
    def kernel(params):
        return pl.pallas_call(
            unwritten, OUT, grid=2, in_specs=[ROWS], out_specs=ROWS, interpret=params
        )(X)

    np.testing.assert_array_equal(kernel(pltpu.InterpretParams(uninitialized_memory="zero")), X)
    assert np.isnan(kernel(pltpu.InterpretParams(detect_uninitialized_reads=False))).all()
    with pytest.raises(RuntimeError, match="nobody has written"):
        kernel(pltpu.InterpretParams())


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"on_race": "stop"}, "on_race is 'raise' or 'warn', not 'stop'"),
        ({"uninitialized_memory": "one"}, "is 'nan' or 'zero', not 'one'"),
        ({"num_cores_or_threads": 0}, "at least 1, but got 0"),
    ],
)
def test_parameters_that_are_not_known(wrong, text):
    with pytest.raises(ValueError, match=text):
        pltpu.InterpretParams(**wrong)
    with pytest.raises(NotImplementedError, match="skip_floating_point_ops would give others"):
        pltpu.InterpretParams(skip_floating_point_ops=True)


def test_indices_outside_are_passed_over_where_it_is_said():
    params = pltpu.InterpretParams(out_of_bounds_reads="uninitialized")
    call = pl.pallas_call(outside, OUT, grid=2, in_specs=[ROWS], out_specs=ROWS, interpret=params)
    assert call(X).shape == (4, 3)


# --- Copies, semaphores, random bits --------------------------------------------------------------

COPIED = np.arange(32, dtype=np.float32).reshape(4, 8)
ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
MODES = pytest.mark.parametrize("mode", ["on_wait", "eager"])


def copying(kernel, **checks):
    return pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((4, 8), jnp.float32),
        in_specs=[ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[pltpu.VMEM((2, 8), np.float32), pltpu.SemaphoreType.DMA((2,))],
        interpret=pltpu.InterpretParams(**checks),
    )(COPIED)


@MODES
def test_right_copies(mode):
    def kernel(x_ref, o_ref, buffer, sems):
        for k in range(2):
            rows = pl.ds(2 * k, 2)
            copy = pltpu.async_copy(x_ref.at[rows], buffer, sems.at[k])
            copy.wait()
            buffer[...] *= 2
            pltpu.sync_copy(buffer, o_ref.at[rows])

    found = copying(kernel, detect_races=True, dma_execution_mode=mode)
    np.testing.assert_array_equal(found, 2 * COPIED)


def test_copies_that_one_semaphore_tells_end_in_any_order():
    """Two copies to one place: which is there after both depends on the seed."""

    def kernel(x_ref, o_ref, buffer, sems):
        one = pltpu.async_copy(x_ref.at[0:2], buffer, sems.at[0])
        two = pltpu.async_copy(x_ref.at[2:4], buffer, sems.at[0])
        one.wait()
        two.wait()
        o_ref[0:2] = o_ref[2:4] = buffer[...]

    found = {float(copying(kernel, random_seed=seed)[0, 0]) for seed in range(16)}
    assert found == {0.0, 16.0}
    assert float(copying(kernel)[0, 0]) == 16


def read_early(x_ref, o_ref, buffer, sems):
    copy = pltpu.async_copy(x_ref.at[0:2], buffer, sems.at[0])
    o_ref[0:2] = buffer[...]
    copy.wait()
    o_ref[2:4] = buffer[...]


def write_the_source(x_ref, o_ref, buffer, sems):
    buffer[...] = x_ref[0:2]
    copy = pltpu.async_copy(buffer, o_ref.at[0:2], sems.at[0])
    buffer[...] = x_ref[2:4]
    copy.wait()
    pltpu.sync_copy(buffer, o_ref.at[2:4])


def never_started(x_ref, o_ref, buffer, sems):
    pltpu.make_async_copy(x_ref.at[0:2], buffer, sems.at[0]).wait()


def never_waited_for(x_ref, o_ref, buffer, sems):
    pltpu.async_copy(x_ref.at[0:2], buffer, sems.at[0])


@MODES
@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (read_early, "elements are touched that a copy is about to write"),
        (write_the_source, "elements are touched that a copy is about to read"),
        (never_started, "waits for ever: the semaphore is 0, and nobody is left to make it 1"),
        (never_waited_for, "the kernel ends before a copy does"),
    ],
)
def test_wrong_copies(kernel, says, mode):
    with pytest.raises(pl.KernelError, match=rf"{says}(.|\n)*test_pallas_checks.py"):
        copying(kernel, detect_races=True, dma_execution_mode=mode)


def test_what_is_copied_is_not_there_before_it_is_waited_for():
    with pytest.raises(pl.KernelError, match="elements are read that nobody has written"):
        copying(read_early)


def test_random_bits_of_a_core():
    def kernel(seed):
        def draw(x_ref, o_ref, buffer, sems):
            pltpu.prng_seed(seed, 1)
            o_ref[...] = pltpu.prng_random_bits((4, 8)).astype(np.float32)

        return draw

    one, again, other = (np.asarray(copying(kernel(seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert len(np.unique(np.concatenate([one, other]))) > 60


# --- Several cores ------------------------------------------------------------------------------

CORES = pltpu.create_tensorcore_mesh("core", num_cores=2)


def on_cores(kernel, **checks):
    return pl.kernel(
        kernel,
        jax.ShapeDtypeStruct((2, 8), np.float32),
        mesh=CORES,
        scratch_types=[pltpu.SemaphoreType.REGULAR] * 2,
        interpret=pltpu.InterpretParams(num_cores_or_threads=2, **checks),
    )(np.arange(16, dtype=np.float32).reshape(2, 8))


def test_cores_that_wait_for_one_another():
    def kernel(x_ref, o_ref, sem, done):
        if int(jax.lax.axis_index("core")) == 0:
            pl.semaphore_wait(sem)
            o_ref[0] = o_ref[1] * 2 + x_ref[0]
            pl.semaphore_signal(done, core_index=1)
        else:
            o_ref[1] = x_ref[1] + 1
            pl.semaphore_signal(sem, core_index=0)
            pl.semaphore_wait(done)
        pltpu.core_barrier(sem, core_axis_name="core")

    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    found = on_cores(kernel)
    np.testing.assert_array_equal(found, np.stack([2 * (x[1] + 1) + x[0], x[1] + 1]))


def test_cores_that_wait_for_ever():
    def kernel(x_ref, o_ref, sem, done):
        pl.semaphore_wait(sem)

    with pytest.raises(pl.KernelError, match=r"waits for ever(.|\n)*test_pallas_checks.py"):
        on_cores(kernel)


def test_a_core_that_is_not_there():
    def kernel(x_ref, o_ref, sem, done):
        pl.semaphore_signal(sem, core_index=2)

    with pytest.raises(pl.KernelError, match="core 2 is told, of 2"):
        on_cores(kernel)


def test_cores_share_a_parallel_axis():
    seen = []
    spec = pl.BlockSpec((2, 8), lambda i, j: (i, j))
    params = pltpu.InterpretParams(
        num_cores_or_threads=2,
        grid_point_recorder=lambda place, core: seen.append((*map(int, place), int(core))),
    )

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    found = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((8, 16), np.float32),
        grid=(4, 2),
        in_specs=[spec],
        out_specs=spec,
        interpret=params,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(np.zeros((8, 16), np.float32))
    assert (np.asarray(found) == 1).all()
    assert seen == [(i, j, i // 2) for i in range(4) for j in range(2)]

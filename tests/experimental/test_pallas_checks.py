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

"""The law of shardings.

Over several devices an operation gives what it gives on one, however its operands are laid out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optable.compare import assert_ulp
from optable.table import Op, all_ops, precision_of
from optable.trees import flat_call

import teucer as jax
from teucer._base.errors import ShardingTypeError
from teucer.sharding import AxisType, Mesh, NamedSharding


def mesh(columns: int = 3) -> Mesh:
    devices = np.array(jax.devices()[: 2 * columns]).reshape(2, columns)
    return Mesh(devices, ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def laid_out(value: Any, first: int, columns: int = 3) -> Any:
    """A value over the mesh: its axes, from the `first` on, over the mesh axes that divide them."""
    value = np.asarray(value)
    free = {"x": 2, "y": columns}
    spec: list[Any] = [None] * value.ndim
    for i in range(value.ndim):
        axis = (i + first) % value.ndim
        for name, size in free.items():
            if value.shape[axis] and value.shape[axis] % size == 0:
                spec[axis] = name
                del free[name]
                break
    return jax.device_put(value, NamedSharding(mesh(columns), jax.P(*spec)))


def laid_out_over_four(value: Any, first: int) -> Any:
    """As above, over 2 x 2 devices, which divide other axes."""
    return laid_out(value, first, 2)


def laid_out_over_all(value: Any, first: int) -> Any:
    """A value over the mesh: the first axis, from `first` on, that all devices divide, over both
    mesh axes."""
    value = np.asarray(value)
    spec: list[Any] = [None] * value.ndim
    for i in range(value.ndim):
        axis = (i + first) % value.ndim
        if value.shape[axis] and value.shape[axis] % 6 == 0:
            spec[axis] = ("x", "y")
            break
    return jax.device_put(value, NamedSharding(mesh(), jax.P(*spec)))


def check(op: Op, dtype: str, first: int, laid_out: Any = laid_out) -> None:
    with precision_of(dtype):
        flat = [flat_call(op, call) for call in op.calls(dtype)[: op.vmap_calls]]
        inputs = [leaves for leaves, _ in flat]
        f = jax.jit(lambda inputs: [f(*xs) for (_, f), xs in zip(flat, inputs, strict=True)])
        spread = [[laid_out(x, first) for x in leaves] for leaves in inputs]
        if not any(not x.is_fully_replicated for leaves in spread for x in leaves):
            return
        # Parts are summed apart, and other instructions are chosen for them.
        ulp = max(op.ulp_of.get(dtype, op.ulp), 16)
        for i, (found, expected) in enumerate(zip(f(spread), f(inputs), strict=True)):
            for j, (y, z) in enumerate(zip(found, expected, strict=True)):
                assert len(y.devices()) > 1
                assert_ulp(y, z, ulp, f"{op} of {dtype}, call {i}, result {j}", each=False)


LONG_AXES = ("pad", "conv_general_dilated")  # what the compiler once aborted for
OPS = [op for op in all_ops().values() if "sharding" not in op.exceptions]


@pytest.mark.parametrize("op", [pytest.param(op, id=str(op), marks=op.marks()) for op in OPS])
def test_sharded_is_unsharded(op: Op) -> None:
    """Operands laid out over 2 x 3 devices along their first axes that divide."""
    check(op, op.vmap_dtype, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "dtype"), [pytest.param(op, d, id=f"{op}-{d}") for op in OPS for d in op.quick_dtypes]
)
def test_sharded_is_unsharded_along_other_axes(op: Op, dtype: str) -> None:
    """As above, along their second axes first."""
    check(op, dtype, 1)


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, id=str(op), marks=() if str(op) in LONG_AXES else pytest.mark.slow)
        for op in OPS
    ],
)
def test_sharded_over_four_is_unsharded(op: Op) -> None:
    """As above, over 2 x 2 devices: axes of four elements are divided, too."""
    check(op, op.vmap_dtype, 0, laid_out_over_four)


def divisible(op: Op) -> bool:
    """Whether an operand of a tested call has an axis that six devices divide."""
    calls = op.calls(op.vmap_dtype)[: op.vmap_calls]
    return any(
        n and n % 6 == 0 for call in calls for x in flat_call(op, call)[0] for n in np.shape(x)
    )


@pytest.mark.parametrize(
    "op", [pytest.param(op, id=str(op), marks=op.marks()) for op in OPS if divisible(op)]
)
def test_sharded_over_two_mesh_axes_is_unsharded(op: Op) -> None:
    """As above, one axis over both mesh axes, the last ones first."""
    check(op, op.vmap_dtype, 0, laid_out_over_all)
    check(op, op.vmap_dtype, -1, laid_out_over_all)


# --- By types, and by hand ------------------------------------------------------------------------


def eight(kind: AxisType) -> Mesh:
    return jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind,) * 2)


def over_explicit_axes(value: Any, first: int) -> Any:
    """A value whose type says how it lies over 2 x 4 devices, along axes that these divide."""
    value = np.asarray(value)
    free, spec = {"x": 2, "y": 4}, [None] * value.ndim
    for i in range(value.ndim):
        axis = (i + first) % value.ndim
        name = next(
            (n for n, size in free.items() if value.shape[axis] and value.shape[axis] % size == 0),
            None,
        )
        if name is not None:
            del free[name]
            spec[axis] = name
    return jax.device_put(value, NamedSharding(eight(AxisType.Explicit), jax.P(*spec)))


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("op", [pytest.param(op, id=str(op)) for op in OPS])
def test_partitioned_by_types_is_unsharded(op: Op, first: int) -> None:
    """Over Explicit mesh axes an operation gives what it gives on one device, or says how to lay
    out its operands."""
    dtype = op.vmap_dtype
    with precision_of(dtype):
        for call in op.calls(dtype)[: op.vmap_calls]:
            leaves, f = flat_call(op, call)
            spread = [over_explicit_axes(x, first) for x in leaves]
            try:
                found = jax.jit(lambda xs: f(*xs))(spread)
            except ShardingTypeError:
                continue
            except ValueError as refusal:  # of scan, as in JAX
                if "Lay xs out otherwise with jax.reshard" in str(refusal):
                    continue
                raise
            for y, z in zip(found, jax.jit(lambda xs: f(*xs))(leaves), strict=True):
                assert_ulp(
                    y, z, max(op.ulp_of.get(dtype, op.ulp), 16), f"{op} of {dtype}", each=False
                )


@pytest.mark.slow
@pytest.mark.parametrize("op", [pytest.param(op, id=str(op)) for op in OPS])
def test_on_each_device_is_unsharded(op: Op) -> None:
    """By hand: within shard_map each of 2 x 4 devices gets what an operation gives on one."""
    dtype = op.vmap_dtype
    with precision_of(dtype):
        flat = [flat_call(op, call) for call in op.calls(dtype)[: op.vmap_calls]]
        inputs = [leaves for leaves, _ in flat]

        def calls(inputs: Any) -> Any:
            return [f(*xs) for (_, f), xs in zip(flat, inputs, strict=True)]

        def part(inputs: Any) -> Any:
            return jax.tree.map(lambda y: y[None], calls(jax.tree.map(lambda x: x[0], inputs)))

        over = jax.P(("x", "y"))
        # The loop in the row of custom_root begins with a constant, which does not vary over
        # devices as its result does.
        each = jax.shard_map(
            part,
            mesh=eight(AxisType.Auto),
            in_specs=over,
            out_specs=over,
            check_vma=str(op) != "custom_root",
        )
        stacked = [[np.stack([np.asarray(x)] * 8) for x in leaves] for leaves in inputs]
        for found, wanted in zip(jax.jit(each)(stacked), jax.jit(calls)(inputs), strict=True):
            for y, z in zip(found, wanted, strict=True):
                for shard in y:
                    assert_ulp(
                        shard,
                        z,
                        max(op.ulp_of.get(dtype, op.ulp), 16),
                        f"{op} of {dtype}",
                        each=False,
                    )

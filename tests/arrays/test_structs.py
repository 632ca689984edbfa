"""ShapeDtypeStruct: each of its fields counts, wherever it goes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.sharding import ManualAxisType, NamedSharding
from teucer.sharding import PartitionSpec as P

BASE: dict[str, Any] = {"shape": (4, 2), "dtype": np.dtype("float32")}


def mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))


# One field of another value than it has by default.
OTHER: dict[str, Any] = {
    "shape": lambda: (4, 3),
    "dtype": lambda: np.dtype("int32"),
    "sharding": lambda: NamedSharding(mesh(), P("x")),
    "weak_type": lambda: True,
    "vma": lambda: frozenset({"i"}),
    "is_ref": lambda: True,
    "manual_axis_type": lambda: ManualAxisType(varying={"i"}),
}


@pytest.mark.parametrize("field", OTHER)
def test_each_field_counts(field: str) -> None:
    value = OTHER[field]()
    base, other = jax.ShapeDtypeStruct(**BASE), jax.ShapeDtypeStruct(**{**BASE, field: value})
    assert base == jax.ShapeDtypeStruct(**BASE)
    assert hash(base) == hash(jax.ShapeDtypeStruct(**BASE))
    assert other != base
    assert getattr(other, field) == value
    assert base.update(**{field: value}) == other
    # An update of something else leaves it.
    kept = other.update(dtype=np.float16) if field != "dtype" else other.update(shape=(1,))
    assert getattr(kept, field) == value
    assert kept != other
    assert jax.typeof(other) is not jax.typeof(base)
    with pytest.raises(RuntimeError, match=f"Cannot reassign attributes \\({field}\\)"):
        setattr(other, field, value)


# References are no results, and nothing varies outside of shard_map.
@pytest.mark.parametrize("field", ["shape", "dtype", "sharding", "weak_type"])
def test_each_field_comes_back_from_eval_shape(field: str) -> None:
    """The identity gives the type that the struct stands for."""
    other = jax.ShapeDtypeStruct(**{**BASE, field: OTHER[field]()})
    found = jax.eval_shape(lambda x: x, other)
    assert (found.shape, found.dtype, found.weak_type) == (
        other.shape,
        other.dtype,
        other.weak_type,
    )
    assert jax.typeof(found) is jax.typeof(other)


def test_axes_that_vary_are_said_in_either_way() -> None:
    said = jax.ShapeDtypeStruct(**BASE, manual_axis_type=ManualAxisType(varying={"i"}))
    assert said.vma == frozenset({"i"})
    assert jax.typeof(said).vma == frozenset({"i"})
    assert jax.typeof(said) is jax.typeof(jax.ShapeDtypeStruct(**BASE, vma={"i"}))


class Half:
    """An object with some of what a struct has."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


@pytest.mark.parametrize("missing", BASE)
def test_what_has_no_shape_or_dtype_is_no_struct(missing: str) -> None:
    whole = Half(**BASE)
    assert jax.eval_shape(jnp.sin, whole) == jax.ShapeDtypeStruct(**BASE)
    half = Half(**{name: value for name, value in BASE.items() if name != missing})
    with pytest.raises(TypeError, match="Error interpreting argument to function sin"):
        jax.eval_shape(jnp.sin, half)


def test_a_pickled_struct_is_equal() -> None:
    for field in ("shape", "dtype", "weak_type", "vma", "is_ref"):
        other = jax.ShapeDtypeStruct(**{**BASE, field: OTHER[field]()})
        assert pickle.loads(pickle.dumps(other)) == other


def test_a_struct_of_a_type_has_all_that_the_type_says() -> None:
    """As eval_shape gives it, within shard_map too."""
    mesh = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4])
    found: list[Any] = []

    def within(part: Any, weak: Any) -> Any:
        for value in (part, part.sum(), weak, weak * 2):
            found.append((jax.eval_shape(lambda x: x, value), jax.typeof(value)))
        return part

    with jax.set_mesh(mesh):
        x = jax.reshard(np.ones((4, 4), np.float32), P("x", "y"))
        for names in ({"x"}, {"x", "y"}):
            spec = P("x", "y" if "y" in names else None)
            f = jax.shard_map(within, in_specs=(spec, P()), out_specs=spec, axis_names=names)
            jax.jit(f).trace(x, 2.0)
    assert {len(aval.vma) for _, aval in found} == {0, 1, 2}
    for struct, aval in found:
        assert (struct.shape, struct.dtype, struct.weak_type) == (
            aval.shape,
            aval.dtype,
            aval.weak_type,
        )
        assert (struct.vma or frozenset()) == aval.vma

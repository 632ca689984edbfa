"""Types of arrays: each of their fields counts, and each change keeps the others."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer._core.jaxpr import Literal
from teucer._core.memory import MemorySpace
from teucer._core.reference_types import RefType
from teucer._core.stage import DebugInfo
from teucer._core.types import ShapedArray
from teucer._printing.printer import literal_text
from teucer.sharding import AxisType, ManualAxisType, NamedSharding
from teucer.sharding import PartitionSpec as P

MESH = jax.sharding.AbstractMesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
FIELDS: dict[str, Any] = {
    "shape": (4, 6),
    "dtype": np.dtype("float32"),
    "weak_type": False,
    "sharding": None,
    "vma": frozenset(),
    "memory_space": MemorySpace.Device,
}
OTHER: dict[str, Any] = {
    "shape": (4, 2),
    "dtype": np.dtype("float64"),
    "weak_type": True,
    "sharding": NamedSharding(MESH, P("x", None)),
    "vma": frozenset({"i"}),
    "memory_space": MemorySpace.Host,
}
# Each field by itself, and all at once.
CHANGES = {**{name: {name: value} for name, value in OTHER.items()}, "all": OTHER, "none": {}}


def fields(aval: ShapedArray) -> tuple[Any, ...]:
    return (
        aval.shape,
        aval.dtype,
        aval.weak_type,
        aval.partition and aval.partition.spec,
        aval.vma,
        aval.memory_space,
    )


@pytest.fixture(params=CHANGES)
def aval(request: pytest.FixtureRequest) -> ShapedArray:
    return ShapedArray(**{**FIELDS, **CHANGES[request.param]})


def test_each_field_counts() -> None:
    avals = [ShapedArray(**{**FIELDS, **change}) for change in CHANGES.values()]
    assert len(set(avals)) == len(set(map(fields, avals))) == len(avals)
    assert len({repr(a) for a in avals}) == len(avals)


def test_equal_types_are_one_object(aval: ShapedArray) -> None:
    assert pickle.loads(pickle.dumps(aval)) is aval
    assert aval.update() is aval
    assert ShapedArray(*fields(aval)[:3], sharding=aval.partition, vma=aval.vma,
                       memory_space=aval.memory_space) is aval  # fmt: skip
    assert aval.size == np.prod(aval.shape)
    assert aval.ndim == len(aval.shape)


@pytest.mark.parametrize("name", OTHER)
def test_an_update_keeps_the_other_fields(aval: ShapedArray, name: str) -> None:
    new = aval.update(**{name: OTHER[name]})
    i = list(FIELDS).index(name)
    before, after = list(fields(aval)), list(fields(new))
    assert after[i] == (OTHER[name].spec if name == "sharding" else OTHER[name])
    if name == "shape" and aval.shape != OTHER["shape"]:
        before[3] = None  # another shape is partitioned as `sharding` says
    assert before[:i] + before[i + 1 :] == after[:i] + after[i + 1 :]


def test_named_updates(aval: ShapedArray) -> None:
    for weak in (True, False):
        assert aval.update_weak_type(weak) is aval.update(weak_type=weak)
    assert aval.strip_weak_type() is aval.strengthen() is aval.update(weak_type=False)
    varying = ManualAxisType(varying={"j", "k"})
    assert aval.update_manual_axis_type(varying) is aval.update(vma=frozenset({"j", "k"}))
    assert fields(aval.tangent_aval())[:2] == fields(aval)[:2]
    assert fields(aval.tangent_aval())[3:] == fields(aval)[3:]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_batch_of_elements(aval: ShapedArray, axis: int) -> None:
    """An axis comes in anywhere, and goes out again; the others stay partitioned as they were."""
    batch = aval.inc_rank(3, axis)
    assert batch.shape == (*aval.shape[:axis], 3, *aval.shape[axis:])
    assert fields(batch)[1:3] == fields(aval)[1:3]
    assert fields(batch)[4:] == fields(aval)[4:]
    if aval.partition is not None:
        entries = list(aval.partition.spec)
        assert list(batch.partition.spec) == [*entries[:axis], None, *entries[axis:]]
    assert batch.dec_rank(3, axis) is aval
    assert aval.inc_rank(3, None) is aval.dec_rank(3, None) is aval


def test_texts_of_axes() -> None:
    """One name alone, several in brackets, in order."""
    names = [{"i"}, {"j", "i"}, {"k", "j", "i"}]
    texts = [str(ShapedArray((2,), np.dtype("int8"), vma=frozenset(n))) for n in names]
    assert texts == ["int8[2]{V:i}", "int8[2]{V:(i,j)}", "int8[2]{V:(i,j,k)}"]


def test_texts_of_references() -> None:
    for inner in (ShapedArray((2,), np.dtype("float32")), ShapedArray((), np.dtype("int8"))):
        ref = RefType(inner)
        assert ref.str_short() == f"Ref{{{inner.str_short()}}}"
        assert ref.str_short(short_dtypes=True) == f"Ref{{{inner.str_short(short_dtypes=True)}}}"


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float32", "complex64"])
def test_texts_of_literals(dtype: str) -> None:
    """A number of NumPy is written alike as a scalar and as an array."""
    x = np.array(0.1 if dtype[0] in "fc" else 1, dtype)
    aval = ShapedArray((), x.dtype)
    assert repr(Literal(x, aval)) == repr(Literal(x[()], aval)) == f"Literal({x})"
    assert (
        literal_text(Literal(x, aval))
        == literal_text(Literal(x[()], aval))
        == f"{x.item()}:{aval.str_short(True)}"
    )


def test_what_messages_say_of_a_function() -> None:
    def here(x: Any) -> None: ...

    known = DebugInfo(here, ("x",))
    assert known.func_src_info.startswith("here at ")
    assert known.func_filename == __file__
    assert known.func_lineno == here.__code__.co_firstlineno
    # A name alone, and what has no code.
    for fun, name in (("named", "named"), (len, "len")):
        unknown = DebugInfo(fun, ("x",))
        assert unknown.func_src_info == name
        assert (unknown.func_filename, unknown.func_lineno) == (None, None)
        assert unknown.safe_arg_names(1) == ("x",)
        assert unknown.safe_arg_names(2) == ("", "")
        assert unknown.safe_result_paths(2) == ("", "")

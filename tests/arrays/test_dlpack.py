"""DLPack both ways.

Views outlive the arrays they are of, memory is shared where it can be, and every form is
understood.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from tests.data.arrays_of_others import Producer, aligned
from teucer._arrays.dlpack import HOST_KINDS

ENDS = {
    "delete": "x.delete()",
    "drop": "del x",
    "donate": "jax.jit(lambda a: a + 1, donate_argnums=0)(x)",
    "donate in pieces": (
        "f, g = jax.jit(lambda a: jnp.sin(a) + 1, outline=True), jax.jit(lambda a: a * 2, "
        "outline=True)\njax.jit(lambda a: f(g(a)), donate_argnums=0, outline=True)(x)"
    ),
    "two views": "w = np.from_dlpack(x); x.delete(); assert w.tolist() == [0.0, 1.0, 2.0]; del w",
    "delete a part": "x.addressable_data(0).delete(); x.delete()",
}
PROGRAM = """
import gc
import numpy as np
import teucer as jax
import teucer.numpy as jnp
x = jnp.arange(3.0)
view = np.from_dlpack(x)
assert view.ctypes.data == x.unsafe_buffer_pointer()
{end}
gc.collect()
assert view.tolist() == [0.0, 1.0, 2.0]
del view
gc.collect()
"""


@pytest.mark.parametrize("end", ENDS)
def test_a_view_outlives_its_array(end: str) -> None:
    """In a process of its own, since what went wrong aborted it."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(end=ENDS[end])],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_keys_have_no_dlpack_form() -> None:
    key = jax.random.key(0)
    with pytest.raises(TypeError, match="keys have no DLPack form"):
        np.from_dlpack(key)
    np.testing.assert_array_equal(np.from_dlpack(jnp.arange(3)), np.arange(3))


def test_memory_is_shared_where_it_can_be() -> None:
    x = aligned(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert jnp.from_dlpack(x).unsafe_buffer_pointer() == x.ctypes.data
    assert jnp.from_dlpack(x, copy=False).unsafe_buffer_pointer() == x.ctypes.data
    assert jnp.from_dlpack(x, copy=True).unsafe_buffer_pointer() != x.ctypes.data


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (lambda x: x.T, "not in row-major order"),
        (lambda x: x[:, 1:3], "not in row-major order"),
        (lambda x: x[::-1, ::-1], "not in row-major order"),
        (lambda x: x.reshape(-1)[1:], "not aligned"),
        (lambda x: x.astype(np.float64), "its dtype is float64"),
    ],
)
def test_what_cannot_be_shared_is_copied_or_refused(of: Any, reason: str) -> None:
    x = of(aligned(np.arange(12, dtype=np.float32).reshape(3, 4)))
    np.testing.assert_array_equal(jnp.from_dlpack(x), x)
    with pytest.raises(ValueError, match=reason):
        jnp.from_dlpack(x, copy=False)


def test_read_only_memory_is_shared_and_never_written() -> None:
    x = aligned(np.zeros(1000, np.float32))
    x.flags.writeable = False
    y = jnp.from_dlpack(x, copy=False)
    z = jax.jit(lambda a: a + 1, donate_argnums=0)(y)
    assert z[0] == 1 and not x.any()


def test_shared_memory_lives_as_long_as_the_array() -> None:
    class Owner(np.ndarray):
        """NumPy keeps plain arrays for later; it does not keep these."""

    x = aligned(np.arange(64, dtype=np.float32)).view(Owner)
    gone = weakref.ref(x)
    y = jnp.from_dlpack(x, copy=False)
    del x
    gc.collect()
    assert gone() is not None and y[63] == 63
    del y
    jnp.zeros(3).block_until_ready()  # jaxlib lets go of Python objects at a later call
    gc.collect()
    jnp.ones(3).block_until_ready()
    assert gone() is None


DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_of_whole_bytes_goes_out_and_comes_in(dtype: str) -> None:
    x = jnp.asarray([[1, 0, 2], [1, 1, 2]], dtype)
    back = jnp.from_dlpack(Producer(x))
    assert back.dtype == x.dtype
    assert (
        np.asarray(back).tobytes() == np.asarray(x).tobytes()
    )  # NumPy finds NaNs of one-byte floats unequal
    assert jnp.asarray(Producer(x)).dtype == x.dtype  # what is no array to NumPy is read by DLPack


@pytest.mark.parametrize("shape", [(), (0, 3), (1, 0), (2, 1, 3)])
def test_shapes_without_and_with_elements(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    assert jnp.from_dlpack(x).shape == shape
    assert jnp.from_dlpack(Producer(jnp.asarray(x))).shape == shape
    assert np.from_dlpack(jnp.asarray(x)).shape == shape


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "float4_e2m1fn"])
def test_elements_of_less_than_a_byte_have_no_form(dtype: str) -> None:
    with pytest.raises(BufferError, match="less than a byte"):
        np.from_dlpack(jnp.zeros(3, dtype))


def test_what_a_consumer_may_ask_for() -> None:
    x = jnp.arange(3.0)
    assert x.__dlpack_device__() == (1, 0)
    for asked in (
        {"max_version": (0, 8)},
        {"max_version": (1, 3)},
        {"dl_device": (1, 0), "copy": False},
        {"copy": True},
    ):
        np.testing.assert_array_equal(np.from_dlpack(Producer(x, **asked)), [0, 1, 2])
    view = np.from_dlpack(x, copy=True)
    assert view.ctypes.data != x.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="stream must be None on the CPU"):
        x.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="max_version must be a pair"):
        x.__dlpack__(max_version=1)
    with pytest.raises(BufferError, match=r"dl_device is not among the devices"):
        x.__dlpack__(dl_device=(2, 0))


def test_arrays_on_other_devices_of_the_host() -> None:
    first, second, *_ = jax.devices()
    x = aligned(np.arange(3, dtype=np.float32))
    y = jnp.from_dlpack(x, device=second)
    assert (
        y.device == second
        and jnp.from_dlpack(x, device=jax.sharding.SingleDeviceSharding(second)).device == second
    )
    with pytest.raises(ValueError, match="requires a copy since the source device"):
        jnp.from_dlpack(x, device=second, copy=False)
    with pytest.raises(ValueError, match="requires a copy since the source device"):
        jnp.from_dlpack(jnp.zeros(3), device=second, copy=False)
    here = Producer(jnp.zeros(3) + 1, dl_device=(1, second.id))
    np.testing.assert_array_equal(jnp.from_dlpack(here), [1, 1, 1])
    with pytest.raises(ValueError, match="requires a copy since x is on another device"):
        jax.device_put(x, first).__dlpack__(dl_device=(1, second.id), copy=False)
    over_two = jax.device_put(
        jnp.zeros(4), jax.NamedSharding(jax.make_mesh((2,), ("i",)), jax.P("i"))
    )
    with pytest.raises(BufferError, match="only arrays on one device"):
        np.from_dlpack(over_two)


def test_capsules_that_cannot_be_read() -> None:
    class Answers:
        def __init__(self, capsule: Any, device: tuple[int, int] = (1, 0)) -> None:
            self.capsule, self.device = capsule, device

        def __dlpack__(self) -> Any:
            return self.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.device

    used = np.zeros(3, np.float32).__dlpack__()
    jnp.from_dlpack(Answers(used))
    with pytest.raises(ValueError, match="or one that was used"):
        jnp.from_dlpack(Answers(used))
    with pytest.raises(ValueError, match="returned no DLPack capsule"):
        jnp.from_dlpack(Answers("capsule"))
    with pytest.raises(BufferError, match=r"kind 7\."):
        jnp.from_dlpack(Answers(None, (7, 0)))
    with pytest.raises(BufferError, match="on GPU 0 of cuda"):
        jnp.from_dlpack(Answers(None, (2, 0)))
    with pytest.raises(TypeError, match="__dlpack__ and __dlpack_device__ methods"):
        jnp.from_dlpack([1.0])  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="native byte order"):
        jnp.from_dlpack(np.zeros(3, ">f4"))
    with pytest.raises(
        BufferError, match=r"no dtype here is DLPack's type \(code 2, 32 bits, 2 lanes\)"
    ):
        jnp.from_dlpack(Answers(_changed(22, ctypes.c_uint16, 2)))
    # The capsule has the last word on where its memory is.
    for kind in set(range(1, 18)) - HOST_KINDS:
        with pytest.raises(BufferError, match=f"its kind of device is {kind}"):
            jnp.from_dlpack(Answers(_changed(8, ctypes.c_int32, kind)))


def _changed(offset: int, kind: Any, value: int) -> Any:
    """A capsule of NumPy's with another number: of the kind of device, after the address; of lanes,
    after the device, ndim, the code and bits."""
    capsule = np.zeros(4, np.float32).__dlpack__()
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    kind.from_address(pointer(capsule, b"dltensor") + offset).value = value
    return capsule


def test_the_older_protocols() -> None:
    x = jnp.arange(6.0).reshape(2, 3)

    class Described:
        def __init__(self, **kinds: Any) -> None:
            self.__dict__.update(kinds)

    read = np.asarray(Described(__array_interface__=x.__array_interface__))
    np.testing.assert_array_equal(read, x)
    assert not read.flags.writeable
    np.testing.assert_array_equal(
        jnp.asarray(Described(__array_interface__=x.__array_interface__)), x
    )
    for without in (x.astype("bfloat16"), jax.random.key(0)):
        assert not hasattr(without, "__array_interface__")
    assert memoryview(x).readonly and memoryview(x).shape == (2, 3)
    assert np.asarray(x.astype("bfloat16")).dtype == jnp.bfloat16
    gpu = Described(
        __cuda_array_interface__={
            "shape": (3,),
            "typestr": "<f4",
            "data": (4096, False),
            "version": 3,
        }
    )
    with pytest.raises(
        RuntimeError, match="in the memory of a CUDA GPU, and no CUDA device is here"
    ):
        jnp.asarray(gpu)

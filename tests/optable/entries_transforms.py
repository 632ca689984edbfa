"""Entries of the primitives of transformations and of random bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from optable.table import Draw, Op, sample

from teucer import lax
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._derived.checkpoint import checkpoint
from teucer._derived.custom_batching import custom_vmap
from teucer._derived.custom_jvp import custom_jvp
from teucer._derived.custom_vjp import custom_vjp
from teucer._derived.moves import device_put
from teucer._derived.remat import checkpoint_name
from teucer._transform.jit import jit
from teucer._transform.vmap import vmap
from teucer.lax import _random, _random_keys
from teucer.lax._callbacks import pure_callback
from teucer.random._threefry import threefry as threefry_keys

FLOATS = ("float32", "float64")


def body(x: Any, y: Any) -> Any:
    return lax.mul(lax.sin(checkpoint_name(x, "x")), y)


def expected(x: Any, y: Any) -> Any:
    return np.sin(x) * y


@custom_jvp
def with_jvp(x: Any, y: Any) -> Any:
    return lax.mul(lax.sin(x), y)


@with_jvp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, y), (t, u) = primals, tangents
    return with_jvp(x, y), lax.add(lax.mul(lax.mul(lax.cos(x), y), t), lax.mul(lax.sin(x), u))


@custom_vjp
def with_vjp(x: Any, y: Any) -> Any:
    return lax.mul(lax.sin(x), y)


with_vjp.defvjp(
    lambda x, y: (with_vjp(x, y), (x, y)),
    lambda saved, ct: (
        lax.mul(ct, lax.mul(lax.cos(saved[0]), saved[1])),
        lax.mul(ct, lax.sin(saved[0])),
    ),
)


@custom_vmap
def with_vmap(x: Any, y: Any) -> Any:
    return lax.mul(lax.sin(x), y)


@with_vmap.def_vmap
def _(size: int, batched: Any, x: Any, y: Any) -> Any:
    axes = tuple(0 if b else None for b in batched)
    return vmap(lambda x, y: lax.mul(lax.sin(x), y), in_axes=axes)(x, y), True


def pairs(draw: Draw) -> Any:
    return [sample(draw(3), draw(3)), sample(draw(), draw())]


def entry(name: str, fn: Any, **options: Any) -> Op:
    return Op(name, fn, pairs, FLOATS, reference=expected, **options)


def threefry(k1: Any, k2: Any, x1: Any, x2: Any) -> Any:
    """Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011:
    Threefry-2x32-20."""
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    keys = (k1, k2, k1 ^ k2 ^ np.uint32(0x1BD11BDA))
    x, y = x1 + keys[0], x2 + keys[1]
    for i in range(5):
        for r in rotations[i % 2]:
            x = x + y
            y = ((y << np.uint32(r)) | (y >> np.uint32(32 - r))) ^ x
        x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + np.uint32(i + 1)
    return [x, y]


BITS: dict[str, Any] = {"dtypes": ("uint32",), "quick": ("uint32",), "gradients": ()}
KEYS = {"value": "bits of keys are compared with JAX's in tests of random"}

OPS = [
    entry("jit", lambda x, y: jit(body)(x, y)),
    entry("checkpoint", lambda x, y: checkpoint(body)(x, y)),
    entry("custom_jvp", with_jvp),
    entry(
        "custom_vjp",
        lambda x, y: with_vjp(x, y),
        exceptions={"forward": "custom_vjp has no forward mode"},
    ),
    entry("custom_vmap", with_vmap),
    entry("device_put", lambda x, y: device_put(lax.mul(lax.sin(x), y))),
    Op(
        "pure_callback",
        lambda x: pure_callback(
            np.sin, ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential"
        ),
        lambda draw: [sample(draw(3))],
        FLOATS,
        reference=np.sin,
        exceptions={
            "gradient": "the derivative of a function of the host is not known",
            "dynamic": "a callback would see the buffer",
        },
    ),
    Op(
        "threefry2x32",
        lambda *xs: tuple(_random.threefry2x32_p.call(*xs)),
        lambda draw: [sample(*(draw(3, low=0, high=2**32 - 1) for _ in range(4)))],
        reference=threefry,
        **BITS,
    ),
    Op(
        "random_bits",
        lambda k: _random_keys.random_bits_p.call(as_key(k), bit_width=32, shape=(3,))[0],
        lambda draw: [sample(draw(2, high=9))],
        exceptions=KEYS,
        **BITS,
    ),
    Op(
        "random_split",
        lambda k: as_bits(_random_keys.random_split_p.call(as_key(k), shape=(3,))[0]),
        lambda draw: [sample(draw(2, high=9))],
        exceptions=KEYS,
        **BITS,
    ),
    Op(
        "random_fold_in",
        lambda k, n: as_bits(_random_keys.random_fold_in_p.call(as_key(k), n)[0]),
        lambda draw: [sample(draw(2, high=9), np.uint32(7))],
        exceptions=KEYS,
        **BITS,
    ),
    Op(
        "random_clone",
        lambda k: as_bits(_random_keys.random_clone_p.call(as_key(k))[0]),
        lambda draw: [sample(draw(2, high=9))],
        reference=lambda k: k,
        **BITS,
    ),
    Op(
        "random_seed",
        lambda seed: as_bits(_random_keys.random_seed_p.call(seed, impl=threefry_keys)[0]),
        lambda draw: [sample(np.int32(7)), sample(draw(2, high=9))],
        reference=lambda seed: np.stack([0 * seed, seed], -1),
        **BITS,
    ),
    Op(
        "rng_uniform",
        lambda a, b: lax.convert_element_type(
            lax.lt(lax.rng_uniform(a, b, (3,)), b), np.dtype(np.int32)
        ),
        lambda draw: [sample(np.asarray(0, draw.dtype), np.asarray(1, draw.dtype))],
        FLOATS,
        reference=lambda a, b: np.ones(3),
        gradients=(),
        exceptions={"vmap": "has no batch rule: it has a state of its own, as in JAX"},
    ),
    Op(
        "rng_bit_generator",
        lambda k: lax.rng_bit_generator(k, (4,), np.dtype(np.uint32)),
        lambda draw: [sample(draw(4, high=9))],
        exceptions=KEYS
        | {
            "vmap": "a batch of keys gives other bits, as in JAX",
            "dynamic": "its numbers depend on how many are drawn",
        },
        **BITS,
    ),
]


def as_key(data: Any) -> Any:
    return _random_keys.random_wrap_p.call(data, impl=threefry_keys)[0]


def as_bits(key: Any) -> Any:
    return _random_keys.random_unwrap_p.call(key)[0]

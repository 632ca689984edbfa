"""Random keys: made from seeds, split, folded with numbers, cloned, and seen as words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NewType

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import config, dtypes
from teucer._base.source import warn
from teucer._core.provided import provided
from teucer._core.trace import typeof
from teucer._core.types import is_valid_type
from teucer._core.typing import Array, ArrayLike
from teucer.lax import _random_keys as random_keys
from teucer.lax import _structure
from teucer.random._counter import philox2, philox4, threefry4
from teucer.random._rbg import rbg, unsafe_rbg
from teucer.random._threefry import threefry

if TYPE_CHECKING:
    from teucer._core.jaxpr import Jaxpr
    from teucer._core.typing import DTypeLike, Value


# The type of typed keys, for annotations.
Key = NewType("Key", ArrayImpl)

UINT32 = np.dtype("uint32")
_GENERATORS: dict[str, random_keys.Generator] = {}


def define(impl: random_keys.Generator) -> random_keys.Generator:
    """Let a generator be chosen by name: `key(0, impl=name)`."""
    _GENERATORS[impl.name] = impl
    return impl


for _generator in (threefry, rbg, unsafe_rbg, threefry4, philox2, philox4):
    define(_generator)


def generator_of(spec: object) -> random_keys.Generator:
    """The generator that a name, a dtype of keys or a generator means; None means the option
    jax_default_prng_impl.

    Raises ValueError for an unknown name, TypeError for another object.
    """
    if spec is None:
        spec = config.default_prng_impl.value
    if isinstance(spec, random_keys.Generator):
        return spec
    if isinstance(spec, random_keys.KeyDType):
        return spec._impl
    if isinstance(spec, str):
        found = _GENERATORS.get(spec)
        if found is None:
            names = ", ".join(f'"{name}"' for name in _GENERATORS)
            raise ValueError(
                f'unrecognized PRNG implementation "{spec}". Did you mean one of: {names}?'
            )
        return found
    raise TypeError(f"unrecognized type {type(spec)} for specifying PRNG implementation.")


def _chosen(op: str, impl: Any, dtype: Any) -> random_keys.Generator:
    if impl is not None and dtype is not None:
        raise ValueError(f"Cannot specify both `impl` and `dtype` arguments to jax.random.{op}")
    return generator_of(impl if dtype is None else dtype)


def _portable(dtype: random_keys.KeyDType) -> Any:
    """A dtype of keys as `pickle` writes it: the name of its generator, or the generator."""
    named = _GENERATORS.get(dtype._impl.name) is dtype._impl
    return key_dtype, (dtype._impl.name if named else dtype._impl,)


random_keys.KeyDType.portable = staticmethod(_portable)


def is_key(x: Any) -> bool:
    """Whether a value is an array of typed keys."""
    return isinstance(getattr(x, "dtype", None), random_keys.KeyDType)


def key(seed: int | ArrayLike, *, impl: object = None, dtype: DTypeLike | None = None) -> Array:
    """A random key from an integer.

    seed: an integer, or integer scalar array. All its 64 bits count if 64-bit types are on, else
    the lower 32.
    impl: the generator by name: threefry2x32, threefry4x32, philox2x32, philox4x32, rbg or
    unsafe_rbg.
    dtype: the generator by the dtype of its keys.
    Raises TypeError for a seed that is no integer scalar, OverflowError for one beyond 64 bits.

    >>> key(0)
    Array((), dtype=key<fry>) overlaying:
    [0 0]
    """
    return _seeded("key", seed, _chosen("key", impl, dtype))


def PRNGKey(seed: int | ArrayLike, *, impl: object = None) -> Array:
    """A random key from an integer, as an array of its words: the older form of `key`.

    Functions of random keys take both forms, and `split` and `fold_in` return the form that they
    were given.

    >>> PRNGKey(0)
    Array([0, 0], dtype=uint32)
    """
    found = _seeded("PRNGKey", seed, generator_of(impl))
    return found if config.enable_custom_prng.value else random_keys.random_unwrap_p.call(found)[0]


def _seeded(op: str, seed: object, impl: random_keys.Generator) -> Any:
    if is_key(seed):
        raise TypeError(f"{op} accepts a scalar seed, but was given a PRNG key.")
    if isinstance(seed, bool | int | np.integer):
        # As C's long, and then as the widest integer that arrays have now.
        wide: Any = np.int64(seed) if isinstance(seed, int) else seed
        if config.random_seed_offset.value:  # in the seed's dtype; overflow wraps around
            wide = np.add(
                np.asarray(wide), np.asarray(config.random_seed_offset.value).astype(wide.dtype)
            )[()]
        if not config.enable_x64.value and wide.dtype.itemsize == 8:
            wide = np.uint32(int(wide) & 0xFFFFFFFF).view(np.int32)
        return random_keys.random_seed_p.call(wide, impl=impl)[0]
    if not is_valid_type(seed):
        raise TypeError(f"PRNG key seed must be an integer; got {seed!r:.100}")
    aval = typeof(seed)
    if aval.shape:
        raise TypeError(
            f"{op} accepts a scalar seed, but was given an array of shape {aval.shape} != (). Use "
            "jax.vmap for batching"
        )
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"PRNG key seed must be an integer; got {aval}")
    if config.random_seed_offset.value:
        seed = seed + np.asarray(config.random_seed_offset.value).astype(aval.dtype)
    return random_keys.random_seed_p.call(seed, impl=impl)[0]


def as_keys(keys: ArrayLike) -> tuple[Any, bool]:
    """An argument as typed keys, and whether it was an array of words.

    Raises TypeError for anything else.
    """
    if is_key(keys):
        return keys, False
    if keys is None or isinstance(keys, str | list | tuple | dict):
        raise TypeError(
            f"unexpected PRNG key type {type(keys)}\n    key: {keys!r:.100}\n"
            "  The first argument of functions of jax.random is a key: jax.random.key(0) makes "
            "one of a seed."
        )
    _check_words(keys, generator_of(None))
    if config.legacy_prng_key.value != "allow":
        _refuse_words()
    return random_keys.random_wrap_p.call(keys, impl=generator_of(None))[0], True


def _refuse_words() -> None:
    what = (
        "Legacy uint32 key array passed as key to jax.random function. Please create keys using "
        "jax.random.key(). If use of a raw key array was intended, set "
        "jax_legacy_prng_key='allow'."
    )
    if config.legacy_prng_key.value == "error":
        raise ValueError(what)
    warn(what)


def _check_words(words: Any, impl: random_keys.Generator) -> None:
    what = "JAX encountered invalid PRNG key data"
    if not all(hasattr(words, name) for name in ("ndim", "shape", "dtype")):
        raise TypeError(
            f"{what}: expected key_data to have ndim, shape, and dtype attributes. Got "
            f"{words!r:.100}\n  jax.random.key(0) makes a key of a seed."
        )
    n = len(impl.key_shape)
    if words.ndim < n:
        raise TypeError(f"{what}: expected key_data.ndim >= {n}; got ndim={words.ndim}")
    if tuple(words.shape[words.ndim - n :]) != impl.key_shape:
        raise TypeError(
            f"{what}: expected key_data.shape to end with {impl.key_shape}; got "
            f"shape={tuple(words.shape)} for impl={impl.name}"
        )
    if words.dtype != UINT32:
        raise TypeError(f"{what}: expected key_data.dtype = uint32; got dtype={words.dtype}")


def one_key(op: str, keys: Any) -> tuple[Any, bool]:
    """`as_keys` for functions that take a single key.

    Raises ValueError for an array of several.
    """
    typed, was_words = as_keys(keys)
    if typed.ndim:
        raise ValueError(
            f"{op} accepts a single key, but was given a key array of shape {tuple(keys.shape)} "
            "!= (). Use jax.vmap for batching."
        )
    return typed, was_words


def _note_keys(jaxpr: Jaxpr, args: Sequence[Value], what: str) -> None:
    from teucer.random._reuse import note_use  # for programs that are run with jax_debug_key_reuse

    note_use(jaxpr, args, what)


provided.fill(note_keys=_note_keys)


def _as_given(keys: Array, was_words: bool) -> Any:
    return random_keys.random_unwrap_p.call(keys)[0] if was_words else keys


def split(key: Any, num: int | Sequence[int] = 2) -> Array:
    """New keys from one; the one given is then not to be used again.

    num: how many, an integer or a shape.
    Raises ValueError for an array of keys.

    >>> split(globals()["key"](0)).shape
    (2,)
    """
    typed, was_words = one_key("split", key)
    shape = tuple(num) if isinstance(num, Sequence) else (num,)
    return _as_given(
        random_keys.random_split_p.call(
            typed, shape=_structure.canonical_shape(shape, "split"), **random_keys.as_drawn()
        )[0],
        was_words,
    )


def fold_in(key: Array, data: ArrayLike) -> Array:
    """A new key from a key and an integer, such as the number of a step.

    data: an integer scalar that fits into 32 bits, taken as uint32.
    Raises ValueError for an array of keys, TypeError for an array of numbers, OverflowError for a
    Python integer that is negative or larger than 32 bits.

    >>> fold_in(globals()["key"](0), 1)
    Array((), dtype=key<fry>) overlaying:
    [ 928981903 3453687069]
    """
    typed, was_words = one_key("fold_in", key)
    if isinstance(data, int | float):
        data = np.uint32(int(data))
    shape = typeof(data).shape
    if shape:
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {shape} != (). Use "
            "jax.vmap for batching."
        )
    return _as_given(
        random_keys.random_fold_in_p.call(
            typed, _structure.convert_element_type(data, UINT32), **random_keys.as_drawn()
        )[0],
        was_words,
    )


def clone(key: Array) -> Array:
    """The same key, which `jax_debug_key_reuse` takes for an unused one.

    >>> clone(globals()["key"](0)) == globals()["key"](0)
    Array(True, dtype=bool)
    """
    typed, was_words = as_keys(key)
    return _as_given(random_keys.random_clone_p.call(typed)[0], was_words)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys, uint32, in trailing axes; words are returned as they are.

    >>> key_data(key(0))
    Array([0, 0], dtype=uint32)
    """
    typed, _ = as_keys(keys)
    return random_keys.random_unwrap_p.call(typed)[0]


def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: object = None, dtype: DTypeLike | None = None
) -> Array:
    """Typed keys from their words, the inverse of `key_data`.

    key_bits_array: uint32[..., words of a key].
    Raises TypeError for other data.

    >>> wrap_key_data(np.zeros((3, 2), "uint32")).shape
    (3,)
    """
    chosen = _chosen("wrap_key_data", impl, dtype)
    _check_words(key_bits_array, chosen)
    return random_keys.random_wrap_p.call(key_bits_array, impl=chosen)[0]


def key_impl(keys: ArrayLike) -> Any:
    """The name of the generator of keys, as for `key(seed, impl=...)`.

    >>> key_impl(key(0))
    'threefry2x32'
    """
    typed, _ = as_keys(keys)
    impl: random_keys.Generator = typed.dtype._impl
    return impl.name if _GENERATORS.get(impl.name) is impl else impl


def key_dtype(impl_spec: object = None) -> Any:
    """The dtype of the keys of a generator, by default of jax_default_prng_impl.

    >>> key_dtype("rbg")
    key<rbg>
    """
    return random_keys.key_dtype_of(generator_of(impl_spec))

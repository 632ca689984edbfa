"""Typed random keys.

Their dtypes, and the primitives that make, split and use them, whatever the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from teucer._arrays.arrays import ArrayImpl, retyped
from teucer._base import config, dtypes
from teucer._core import array_ops, dialects
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._devices import partition
from teucer._devices.partition import leading
from teucer._dimensions.dimensions import is_constant
from teucer._lower.context import Value
from teucer._transform.vmap import vmap
from teucer.lax._costs import LONG
from teucer.lax._slicing import index_in_dim
from teucer.lax._structure import reshape_p

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, ArrayLike, Arrays, Dims, Params, Size
    from teucer._lower.context import Context


UINT32 = np.dtype("uint32")


@final
@dataclass(frozen=True)
class Generator:
    """A random number generator: functions of the uint32 words of one key, an array of shape
    `key_shape`.

    seed(integer) -> key; split(key, shape) -> keys, shape + key_shape; fold_in(key, uint32) -> key;
    random_bits(key, bit_width, shape) -> unsigned integers of 8, 16, 32 or 64 bits.
    """

    key_shape: tuple[int, ...]
    seed: Callable[..., Any]
    split: Callable[..., Any]
    random_bits: Callable[..., Any]
    fold_in: Callable[..., Any]
    name: str = "<unnamed>"
    tag: str = "?"
    # Whether element i of what is drawn does not depend on how many are drawn.
    counts: Callable[[], bool] = lambda: False

    @property
    def _impl(self) -> Generator:
        """The generator itself. In JAX a PRNGSpec stands for a generator, and libraries ask it for
        this member."""
        return self

    def __repr__(self) -> str:
        return f"PRNGSpec({self.name!r})"

    def __str__(self) -> str:
        return self.tag


@final
class KeyDType(dtypes.ExtendedDType):
    """The dtype of keys of one generator; one object a generator.

    >>> import teucer as jax
    >>> jax.random.key(0).dtype
    key<fry>
    """

    __slots__ = ("_impl", "name", "itemsize", "physical", "number")
    type = dtypes.prng_key
    _interned: ClassVar[dict[Generator, KeyDType]] = {}
    # How to find the dtype in another process, as a function and its arguments; `teucer.random`
    # knows generators by name.
    portable: ClassVar[Callable[[KeyDType], Any]] = staticmethod(
        lambda dtype: (key_dtype_of, (dtype._impl,))
    )

    def __init__(self, impl: Generator) -> None:
        self._impl = impl
        self.name = f"key<{impl.tag}>"
        self.itemsize = 4 * prod(impl.key_shape)
        self.physical = ShapedArray(impl.key_shape, UINT32)
        self.number = len(self._interned)

    def __reduce__(self) -> Any:
        return KeyDType.portable(self)

    # Pickles of JAX make another object of a dtype that is there.
    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is KeyDType and other._impl == self._impl)

    def __hash__(self) -> int:
        return hash(self._impl)

    def of_words(self, words: Array) -> Array:
        """Keys from their words."""
        (keys,) = random_wrap_p.call(words, impl=self._impl)
        return keys


def key_dtype_of(impl: Generator) -> KeyDType:
    """The dtype of the keys of a generator."""
    found = KeyDType._interned.get(impl)
    if found is None:
        found = KeyDType._interned[impl] = KeyDType(impl)
    return found


def as_drawn() -> dict[str, bool]:
    """The options in force that an equation which draws records: only that
    `jax_threefry_partitionable` is off."""
    return {} if config.threefry_partitionable.value else {"partitionable": False}


def over_keys(f: Callable[..., object], ndim: int) -> Callable[..., Any]:
    """A function of the words of one key as one of an array of keys, of `ndim` axes."""
    for _ in range(ndim):
        f = vmap(f)
    return f


def key_impl(aval: ShapedArray, name: str) -> Any:
    """The generator of a type of keys.

    Raises TypeError if it is another type.
    """
    if not isinstance(aval.dtype, KeyDType):
        raise TypeError(
            f"{name} requires typed random keys, got {aval.str_short(short_dtypes=True)}."
        )
    return aval.dtype._impl


def _traced(
    ctx: Context, f: Callable[..., object], *values: Value, partitionable: bool = True
) -> Any:
    """Write f of the words behind keys; its result has the type that the equation says.

    partitionable: the option that was in force when the equation was made.
    """
    (aval,) = ctx.avals_out
    words = [Value(v.name, v.aval.physical) for v in values]
    with config.threefry_partitionable(partitionable):
        (out,) = ctx.trace(lambda *xs: (f(*xs),), *words)
    return (Value(out.name, aval),)


class KeyPrimitive(Primitive):
    """A primitive whose operands have one shape and which acts on each element: batched by adding a
    leading axis."""

    __slots__ = ()

    shard = partition.aligned

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        outs = self.call(*primals, **params)
        return outs, tuple(typeof(y).zero for y in outs)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        xs = [array_ops.to_axis(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)]
        return self.call(*xs, **params), (0,)

    padded = dialects.through


def _padded_draw(
    primitive: Primitive, sizes: Any, args: Arrays, outs: Any, shape: Sequence[Size], params: Params
) -> Any:
    """The bits of a key for an array of dynamic shape: element i is drawn by its number i, whatever
    the size."""
    (keys,) = args
    if is_constant(shape):
        return primitive.call(keys, shape=shape, **params)
    if not params.get("partitionable", True) or not typeof(keys).dtype._impl.counts():
        sizes.refuse("the generator's numbers depend on how many are drawn")
    (aval,) = outs
    batch = aval.shape[: aval.ndim - len(shape)]
    count = prod(shape)
    flat = primitive.call(keys, shape=(sizes.bounded(count),), **params)
    return reshape_p.padded(
        sizes,
        flat,
        [aval.update(shape=(*batch, count))],
        outs,
        new_sizes=aval.shape,
        dimensions=None,
        sharding=None,
    )


@final
class RandomSeed(KeyPrimitive):
    """Keys from integers.  (C1) the seeds are integers."""

    __slots__ = ()
    name = "random_seed"

    def types(self, seeds: ShapedArray, *, impl: Generator) -> Any:
        if not dtypes.issubdtype(seeds.dtype, np.integer):
            raise TypeError(f"PRNG key seed must be an integer; got {seeds}")
        return (ShapedArray(seeds.shape, key_dtype_of(impl)),)

    @dialects.on_keys.rule
    def on_keys(self, ctx: Context, seeds: Any, *, impl: Generator) -> Any:
        return _traced(ctx, over_keys(impl.seed, seeds.aval.ndim), seeds)


@final
class RandomSplit(KeyPrimitive):
    """An array of `shape` new keys from each key."""

    __slots__ = ()
    name = "random_split"
    cost = LONG

    def types(self, keys: ShapedArray, *, shape: Sequence[Size], partitionable: bool = True) -> Any:
        key_impl(keys, "random_split")
        return (ShapedArray((*keys.shape, *shape), keys.dtype),)

    @dialects.on_keys.rule
    def on_keys(
        self, ctx: Context, keys: Value, *, shape: Sequence[Size], partitionable: bool = True
    ) -> Any:
        impl = keys.aval.dtype._impl
        return _traced(
            ctx,
            over_keys(lambda k: impl.split(k, shape), keys.aval.ndim),
            keys,
            partitionable=partitionable,
        )

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sequence[Size],
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[Array],
        *,
        shape: Sequence[Size],
        **params: bool,
    ) -> Any:
        return _padded_draw(self, sizes, args, outs, shape, params)


@final
class RandomFoldIn(KeyPrimitive):
    """A new key from each key and number.

    (C1) keys and msgs have as many axes; each axis of one has the size of the other's, or 1.
    (C2) msgs are uint32.
    """

    __slots__ = ()
    name = "random_fold_in"
    cost = LONG

    def types(self, keys: ShapedArray, msgs: ShapedArray, *, partitionable: bool = True) -> Any:
        key_impl(keys, "random_fold_in")
        if keys.ndim != msgs.ndim or any(
            a != b and 1 not in (a, b) for a, b in zip(keys.shape, msgs.shape, strict=True)
        ):
            raise TypeError(
                "random_fold_in: keys and numbers must have as many axes, of one size or 1, got "
                f"{keys} and {msgs} (C1)."
            )
        if msgs.dtype != UINT32:
            raise TypeError(f"random_fold_in: numbers must be uint32, got {msgs}.")
        shape = tuple(b if a == 1 else a for a, b in zip(keys.shape, msgs.shape, strict=True))
        return (ShapedArray(shape, keys.dtype),)

    @dialects.on_keys.rule
    def on_keys(self, ctx: Context, keys: Value, msgs: Any, *, partitionable: bool = True) -> Any:
        f = keys.aval.dtype._impl.fold_in
        for a, b in zip(reversed(keys.aval.shape), reversed(msgs.aval.shape), strict=True):
            f = _over_both(f, shared_key=a == 1 != b, shared_message=b == 1 != a)
        return _traced(ctx, f, keys, msgs, partitionable=partitionable)

    def batch(self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, **params: object) -> Any:
        # A number that all share stays one element: `unsafe_rbg` draws once for it.
        return self.call(
            *(
                array_ops.to_axis(x, d, 1 if d is None else axis.size, 0)
                for x, d in zip(args, dims, strict=True)
            ),
            **params,
        ), (0,)


def _over_both(
    f: Callable[..., object], *, shared_key: bool, shared_message: bool
) -> Callable[..., Any]:
    """A function of keys and numbers, mapped over the first axis of both; an axis that is shared
    has one element."""

    def g(keys: ArrayLike, msgs: Any) -> Any:
        keys = index_in_dim(keys, 0, 0, False) if shared_key else keys
        msgs = index_in_dim(msgs, 0, 0, False) if shared_message else msgs
        return vmap(f, in_axes=(None if shared_key else 0, None if shared_message else 0))(
            keys, msgs
        )

    return g


@final
class RandomBits(KeyPrimitive):
    """Uniformly random unsigned integers, of `shape`, from each key.  (C1) bit_width is 8, 16, 32
    or 64."""

    __slots__ = ()
    name = "random_bits"
    cost = LONG

    def types(
        self,
        keys: ShapedArray,
        *,
        bit_width: int,
        shape: Sequence[Size],
        partitionable: bool = True,
    ) -> Any:
        key_impl(keys, "random_bits")
        if bit_width not in (8, 16, 32, 64):
            raise TypeError(
                f"random_bits: requires 8-, 16-, 32- or 64-bit field width, got {bit_width}."
            )
        return (ShapedArray((*keys.shape, *shape), np.dtype(f"uint{bit_width}")),)

    @dialects.on_keys.rule
    def on_keys(
        self,
        ctx: Context,
        keys: Value,
        *,
        bit_width: int,
        shape: Sequence[Size],
        partitionable: bool = True,
    ) -> Any:
        impl = keys.aval.dtype._impl
        return _traced(
            ctx,
            over_keys(lambda k: impl.random_bits(k, bit_width, shape), keys.aval.ndim),
            keys,
            partitionable=partitionable,
        )

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sequence[Size],
        args: Sequence[Array],
        avals: Sequence[ShapedArray],
        outs: Sequence[Array],
        *,
        bit_width: int,
        shape: Sequence[Size],
        **params: bool,
    ) -> Any:
        return _padded_draw(self, sizes, args, outs, shape, {"bit_width": bit_width, **params})


@final
class RandomWrap(KeyPrimitive):
    """Keys from their words.  (C1) the words are uint32, and their last axes have the shape of a
    key."""

    __slots__ = ()
    name = "random_wrap"

    def types(self, words: ShapedArray, *, impl: Generator) -> Any:
        n = len(impl.key_shape)
        if words.dtype != UINT32 or words.shape[words.ndim - n :] != impl.key_shape:
            raise TypeError(
                f"random_wrap: words of shape (..., {', '.join(map(str, impl.key_shape))}) and "
                f"dtype uint32 are required, got {words}."
            )
        return (ShapedArray(words.shape[: words.ndim - n], key_dtype_of(impl)),)

    def shard(self, words: ShapedArray, *, impl: Generator, **params: object) -> Any:
        n = words.ndim - len(impl.key_shape)
        return leading(n, (words,))

    def evaluate(self, words: object, *, impl: Generator) -> Any:
        if type(words) is ArrayImpl and words._sharding.num_devices == 1:
            (aval,) = self.types(typeof(words), impl=impl)
            return (retyped(words, aval.carrier),)
        return super().evaluate(words, impl=impl)

    @dialects.on_keys.rule
    def on_keys(self, ctx: Context, words: Any, *, impl: Generator) -> Any:
        return (Value(words.name, ctx.avals_out[0]),)


@final
class RandomUnwrap(KeyPrimitive):
    """The words of keys, in trailing axes."""

    __slots__ = ()
    name = "random_unwrap"

    def types(self, keys: ShapedArray) -> Any:
        key_impl(keys, "random_unwrap")
        return (keys.physical,)

    def evaluate(self, keys: Any) -> Any:
        if type(keys) is ArrayImpl and keys._sharding.num_devices == 1:
            (aval,) = self.types(typeof(keys))
            return (retyped(keys, aval),)
        return super().evaluate(keys)

    @dialects.on_keys.rule
    def on_keys(self, ctx: Context, keys: Any) -> Any:
        return (Value(keys.name, keys.aval.physical),)


@final
class RandomClone(KeyPrimitive):
    """The same keys, which count as unused."""

    __slots__ = ()
    name = "random_clone"

    def types(self, keys: ShapedArray) -> Any:
        key_impl(keys, "random_clone")
        return (keys,)

    @dialects.on_keys.rule
    def on_keys(self, ctx: Context, keys: Value) -> Any:
        return (keys,)


random_seed_p = RandomSeed()
random_split_p = RandomSplit()
random_fold_in_p = RandomFoldIn()
random_bits_p = RandomBits()
random_wrap_p = RandomWrap()
random_unwrap_p = RandomUnwrap()
random_clone_p = RandomClone()

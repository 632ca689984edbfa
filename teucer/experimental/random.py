"""Random numbers from a generator that keeps its state, as NumPy's do."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import teucer
from teucer import dtypes, random
from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.trace import EVAL, current_trace
from teucer._transform.batch import BatchTrace, BatchTracer
from teucer._trees.registry import register_dataclass

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, DTypeLike

__all__ = ["StatefulPRNG", "stateful_rng"]
__dir__ = listing(__name__, __all__)


@register_dataclass
@dataclass(frozen=True)
class StatefulPRNG:
    """A generator, made by `stateful_rng`: each draw takes a key from its base key and its counter,
    a reference that it increments.

    It is a pytree: functions that are transformed take it, and draw from it, but do not return it.
    """

    _base_key: Any
    _counter: Any

    def __post_init__(self) -> None:
        # A tree of something else than arrays, such as axes, may stand in this form too.
        if isinstance(self._base_key, jnp.ndarray) and not jnp.issubdtype(
            self._base_key.dtype, dtypes.prng_key
        ):
            raise ValueError(f"Expected base_key to be a typed PRNG key; got {self._base_key!r}")
        if isinstance(self._base_key, jnp.ndarray) and isinstance(self._counter, int | np.ndarray):
            raise ValueError(f"Expected counter to be a scalar integer ref; got {self._counter!r}")

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new key, or an array of keys.

        >>> import teucer as jax
        >>> rng = stateful_rng(0)
        >>> bool((jax.random.key_data(rng.key()) == jax.random.key_data(rng.key())).all())
        False
        """
        if self._base_key.shape:
            raise ValueError(
                "StatefulPRNG.key: this generator is an array of generators, of shape "
                f"{self._base_key.shape}.\n  Draw from it within jax.vmap."
            )
        _refuse_shared(self._counter)
        count = self._counter[...]
        self._counter[...] = count + 1
        key, shape = random.fold_in(self._base_key, count), _shape(shape)
        return key if not shape else random.split(key, math.prod(shape)).reshape(shape)

    def random(self, size: int | Sequence[int] | None = None, dtype: DTypeLike = float) -> Any:
        """Uniform floats from 0, included, to 1, excluded.

        >>> stateful_rng(42).random(3).shape
        (3,)
        """
        return random.uniform(self.key(), _shape(size or ()), dtype)

    def uniform(
        self,
        low: ArrayLike = 0,
        high: ArrayLike = 1,
        size: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike = float,
    ) -> Any:
        """Uniform floats from low, included, to high, excluded.

        >>> stateful_rng(42).uniform()
        Array(0.5302608, dtype=float32)
        """
        return random.uniform(self.key(), _common(size, low, high), dtype, minval=low, maxval=high)

    def normal(
        self,
        loc: ArrayLike = 0,
        scale: ArrayLike = 1,
        size: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike = float,
    ) -> Any:
        """Normal floats of mean loc and standard deviation scale.

        >>> stateful_rng(42).normal(size=(2, 3)).shape
        (2, 3)
        """
        drawn = random.normal(self.key(), _common(size, loc, scale), dtype)
        return jnp.asarray(loc, drawn.dtype) + jnp.asarray(scale, drawn.dtype) * drawn

    def integers(
        self,
        low: ArrayLike,
        high: ArrayLike | None = None,
        size: int | Sequence[int] | None = None,
        *,
        dtype: DTypeLike = int,
    ) -> Any:
        """Integers from low, included, to high, excluded; from 0 to low where high is None.

        >>> bool(stateful_rng(42).integers(5) < 5)
        True
        """
        low, high = (0, low) if high is None else (low, high)
        return random.randint(self.key(), _common(size, low, high), low, high, dtype)

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """New generators, independent of each other.

        >>> len(stateful_rng(1).spawn(2))
        2
        """
        keys = self.key((operator.index(n_children),))
        return [_generator(keys[i]) for i in range(keys.shape[0])]

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """An array of new generators in one object, for `jax.vmap`.

        >>> import teucer as jax
        >>> jax.vmap(lambda rng: rng.uniform())(stateful_rng(1).split(3)).shape
        (3,)
        """
        keys = self.key(_shape(num))
        return StatefulPRNG(keys, teucer.new_ref(jnp.zeros(keys.shape, np.int32)))


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator that keeps its state.

    seed: an integer; None: a random one. impl: the name of the generator, as of `jax.random.key`.
    Raises TypeError without a seed while a function is transformed.

    >>> rng = stateful_rng(42)
    >>> rng.uniform(), rng.uniform()
    (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """
    if seed is None:
        if current_trace() is not EVAL:
            raise TypeError(
                "When used within transformed code, jax.experimental.random.stateful_rng() "
                "requires an explicit seed to be set."
            )
        seed = int(np.random.default_rng().integers(2**31))
    return _generator(random.key(seed, impl=impl))


def _generator(key: object) -> StatefulPRNG:
    return StatefulPRNG(key, teucer.new_ref(0))


def _refuse_shared(counter: object) -> None:
    """Raise ValueError where all elements of a batch would draw the same numbers from one
    generator."""
    trace = current_trace()
    if type(trace) is BatchTrace and not (
        type(counter) is BatchTracer and (counter._trace is trace or trace.continues(counter))
    ):
        raise ValueError(
            "performing an addupdate operation with vmapped value on an unbatched array "
            "reference: each element of the batch would draw the same numbers from one "
            "StatefulPRNG.\n  Map over generators of their own: jax.vmap(f)(rng.split(n), ...)."
        )


def _shape(size: int | Sequence[int]) -> tuple[int, ...]:
    return (
        (operator.index(size),) if hasattr(size, "__index__") else tuple(map(operator.index, size))
    )


def _common(size: int | Sequence[int] | None, *parameters: Any) -> tuple[int, ...]:
    """The shape of a draw: the given one, or the shape of its parameters."""
    return jnp.broadcast_shapes(*map(jnp.shape, parameters)) if size is None else _shape(size)

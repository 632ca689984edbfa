"""Masks of attention: which keys (columns) each query (row) sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teucer import numpy as jnp
from teucer._base.lazy import listing

__all__ = [
    "CausalMask", "ChunkedCausalMask", "FullMask", "LocalMask", "LogicalAnd", "LogicalOr", "Mask",
    "MultiHeadMask", "NumpyMask", "make_causal_mask", "make_chunk_attention_mask",
    "make_local_attention_mask", "make_random_mask",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

# Arrays, of NumPy or traced.
_Places = Any


class Mask:
    """A matrix of truths, (queries, keys). A subclass has `shape` and `__getitem__` of two
    slices."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of queries, and of keys."""
        raise NotImplementedError

    def __getitem__(self, at: tuple[slice, slice]) -> np.ndarray:
        rows, columns = (np.arange(n)[one] for n, one in zip(self.shape, at, strict=True))
        return np.asarray(self.sees(rows[:, None], columns[None]))

    def sees(self, rows: _Places, columns: _Places) -> Any:
        """Whether queries at `rows` see keys at `columns`, int arrays that are broadcast."""
        return jnp.asarray(self[:, :])[rows, columns]

    def __bool__(self) -> bool:
        raise TypeError(
            "A mask is neither true nor false. Combine masks with & and |, not with `and` and `or`."
        )

    def __or__(self, other: Mask) -> Mask:
        return LogicalOr(self, other)

    def __and__(self, other: Mask) -> Mask:
        return LogicalAnd(self, other)


@dataclass(frozen=True)
class _Pair(Mask):
    left: Mask
    right: Mask

    def __post_init__(self) -> None:
        if self.left.shape != self.right.shape:
            raise ValueError(
                f"Masks must have the same shape, got {self.left.shape} and {self.right.shape}."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.left.shape


class LogicalOr(_Pair):
    """The union of two masks."""

    def sees(self, rows: _Places, columns: _Places) -> Any:
        return self.left.sees(rows, columns) | self.right.sees(rows, columns)


class LogicalAnd(_Pair):
    """The intersection of two masks."""

    def sees(self, rows: _Places, columns: _Places) -> Any:
        return self.left.sees(rows, columns) & self.right.sees(rows, columns)


class _Ruled(Mask):
    """A mask by a rule of places. shard_count: in how many parts queries are cut; accepted for
    programs written for JAX."""

    def __init__(self, shape: tuple[int, int], facts: tuple[object, ...]) -> None:
        self._shape, self._facts = tuple(shape), facts

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and other._shape == self._shape
            and other._facts == self._facts
        )

    def __hash__(self) -> int:
        return hash((type(self), self._shape, self._facts))


class _ComputableMask(_Ruled):
    """A mask by a function of the places of queries and keys, for subclasses of libraries
    (AXLearn)."""

    def __init__(
        self, shape: tuple[int, int], mask_function: Callable[..., Any], shard_count: int = 1
    ) -> None:
        super().__init__(shape, (mask_function,))
        self.mask_function = mask_function
        self.q_sequence = np.arange(shape[0], dtype=np.int32)

    def sees(self, rows: _Places, columns: _Places) -> Any:
        return self.mask_function(rows, columns)


class CausalMask(_Ruled):
    """Queries see the keys before and at their own place, and `offset` more."""

    def __init__(self, shape: tuple[int, int], offset: int = 0, shard_count: int = 1) -> None:
        super().__init__(shape, (offset,))

    def sees(self, rows: _Places, columns: _Places) -> Any:
        return rows + self._facts[0] >= columns


class ChunkedCausalMask(_Ruled):
    """Queries see the keys before and at their own place in the same chunk of `chunk_size`."""

    def __init__(self, shape: tuple[int, int], chunk_size: int, shard_count: int = 1) -> None:
        if chunk_size <= 0:
            raise ValueError("chunk_size must be positive")
        super().__init__(shape, (chunk_size,))

    def sees(self, rows: _Places, columns: _Places) -> Any:
        return (rows >= columns) & (rows // self._facts[0] == columns // self._facts[0])


class LocalMask(_Ruled):
    """Queries see so many keys before and behind their own place plus `offset`; None: all."""

    def __init__(
        self,
        shape: tuple[int, int],
        window_size: tuple[int | None, int | None],
        offset: int,
        shard_count: int = 1,
    ) -> None:
        super().__init__(shape, (*window_size, offset))

    def sees(self, rows: _Places, columns: _Places) -> Any:
        before, behind, offset = self._facts
        seen = (rows == rows) & (columns == columns)
        if before is not None:
            seen = seen & (rows + offset - before <= columns)
        return seen if behind is None else seen & (rows + offset + behind >= columns)


@dataclass(frozen=True)
class FullMask(Mask):
    """Queries see all keys."""

    _shape: tuple[int, int]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def sees(self, rows: _Places, columns: _Places) -> Any:
        return (rows == rows) & (columns == columns)


class NumpyMask(Mask):
    """A mask that is an array of bool."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.asarray(array)
        if self.array.ndim != 2 or self.array.dtype != np.bool_:
            raise ValueError(
                f"A mask is a matrix of bool, got {self.array.dtype}{list(self.array.shape)}."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __getitem__(self, at: tuple[slice, slice]) -> np.ndarray:
        return self.array[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumpyMask) and np.array_equal(other.array, self.array)

    def __hash__(self) -> int:
        return hash((NumpyMask, self.array.shape, self.array.tobytes()))


@dataclass
class MultiHeadMask(Mask):
    """A mask for each head: (heads, queries, keys)."""

    masks: Sequence[Mask]

    def __post_init__(self) -> None:
        if not self.masks:
            raise ValueError("Unsupported empty tuple of masks")
        for mask in self.masks[1:]:
            if mask.shape != self.masks[0].shape:
                raise ValueError(
                    f"Unexpected mask shape, got: {mask.shape}, expected: {self.masks[0].shape}"
                )

    @property
    def shape(self) -> tuple[int, ...]:
        """(heads, queries, keys)"""
        return (len(self.masks), *self.masks[0].shape)

    def __getitem__(self, at: Any) -> np.ndarray:
        heads = range(len(self.masks))[at[0]]
        if isinstance(heads, int):
            return self.masks[heads][at[1:]]
        return np.stack([self.masks[head][at[1:]] for head in heads])

    def __hash__(self) -> int:
        return hash((MultiHeadMask, *self.masks))


def make_causal_mask(shape: tuple[int, int], offset: int = 0) -> np.ndarray:
    """`CausalMask` as an array.

    >>> make_causal_mask((2, 3)).tolist()
    [[True, False, False], [True, True, False]]
    """
    return CausalMask(shape, offset)[:, :]


def make_local_attention_mask(
    shape: tuple[int, int], window_size: tuple[int | None, int | None], *, offset: int = 0
) -> np.ndarray:
    """`LocalMask` as an array.

    >>> make_local_attention_mask((2, 3), (0, 1)).tolist()
    [[True, True, False], [False, True, True]]
    """
    return LocalMask(shape, window_size, offset)[:, :]


def make_chunk_attention_mask(shape: tuple[int, int], chunk_size: int) -> np.ndarray:
    """`ChunkedCausalMask` as an array."""
    return ChunkedCausalMask(shape, chunk_size)[:, :]


def make_random_mask(shape: tuple[int, int], sparsity: float, seed: int) -> np.ndarray:
    """A random mask, by NumPy's old generator; a share of `sparsity` of it is False.

    >>> make_random_mask((1, 2), 1.0, 0).tolist()
    [[False, False]]
    """
    return np.random.RandomState(seed).binomial(1, 1.0 - sparsity, shape).astype(np.bool_)

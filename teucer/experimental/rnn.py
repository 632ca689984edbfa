"""Long short-term memory over sequences of different lengths, with weights packed as in cuDNN.

The weights are one vector: for each layer, and each direction within it, W_ih and W_hh; behind
these, in the same order, b_ih and b_hh. Each is the rows of the input, forget, cell and output
gate, one after the other. It runs on every platform, as a loop.
Source: Hochreiter and Schmidhuber, Neural Computation 9 (1997) 1735; with forget gates, Gers et
al., Neural Computation 12 (2000) 2451.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from teucer import lax, random
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer._core.typing import Array, HostArray
from teucer.lax import PrecisionLike

if TYPE_CHECKING:
    from teucer._core.typing import AnyArray

__all__ = [
    "get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref", "swap_lstm_gates",
    "unpack_lstm_weights",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

Weights = TypeVar("Weights", Array, HostArray)
Parts: TypeAlias = dict[int, Weights]
AllParts: TypeAlias = tuple[Parts[Weights], Parts[Weights], Parts[Weights], Parts[Weights]]


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> list[list[tuple[int, ...]]]:
    """The shapes of all W_ih, W_hh, b_ih and b_hh, for each layer and direction."""
    directions, rows = 1 + bool(bidirectional), 4 * hidden_size
    columns = [
        input_size if i < directions else directions * hidden_size
        for i in range(directions * num_layers)
    ]
    biases: list[tuple[int, ...]] = [(rows,) for _ in columns]
    return [[(rows, n) for n in columns], [(rows, hidden_size) for _ in columns], biases, biases]


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """The length of the vector of weights.

    >>> get_num_params_in_lstm(2, 3, 1, False)
    84
    """
    kinds = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(math.prod(shape) for kind in kinds for shape in kind)


def init_lstm_weight(
    rng: object, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Weights uniform in [-k, k) for k = 1 / sqrt(hidden_size), as one vector of float32.

    rng: a key of `jax.random`.

    >>> from teucer import random
    >>> init_lstm_weight(random.key(0), 2, 3, 1, False).shape
    (84,)
    """
    k = math.sqrt(1.0 / hidden_size)
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    return random.uniform(rng, (count,), jnp.float32, minval=-k, maxval=k)


def unpack_lstm_weights(
    weights: Weights, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> AllParts[Weights]:
    """W_ih, W_hh, b_ih and b_hh: a dict each, from the number of layer and direction to an array.

    Layer l has number l; where there are two directions, 2 l and, backwards, 2 l + 1.
    Raises ValueError if the vector has another length than such weights.

    >>> from teucer import numpy as jnp
    >>> [part[0].shape for part in unpack_lstm_weights(jnp.zeros(84), 2, 3, 1, False)]
    [(12, 2), (12, 3), (12,), (12,)]
    """
    kinds = _shapes(input_size, hidden_size, num_layers, bidirectional)
    numbers = range(len(kinds[0]))
    order = [(k, i) for pair in ((0, 1), (2, 3)) for i in numbers for k in pair]
    sizes = [math.prod(kinds[k][i]) for k, i in order]
    if jnp.shape(weights) != (sum(sizes),):
        raise ValueError(
            f"unpack_lstm_weights: weights must have shape ({sum(sizes)},), got "
            f"{jnp.shape(weights)}.\n  get_num_params_in_lstm gives the length."
        )
    parts: AllParts[Weights] = ({}, {}, {}, {})
    for (k, i), end, size in zip(order, itertools.accumulate(sizes), sizes, strict=True):
        parts[k][i] = weights[end - size : end].reshape(kinds[k][i])
    return parts


def swap_lstm_gates(
    weights: Weights, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """The weights with the rows of cell and output gates exchanged, as MIOpen wants them.

    >>> from teucer import numpy as jnp
    >>> swap_lstm_gates(jnp.arange(16), 1, 1, 1, False)
    Array([ 0,  1,  3,  2,  4,  5,  7,  6,  8,  9, 11, 10, 12, 13, 15, 14], dtype=int32)
    """

    def swapped(x: Weights) -> Array:
        i, f, g, o = jnp.split(x, 4)
        return jnp.concatenate([i, f, o, g])

    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return jnp.concatenate(
        [
            swapped(part[i]).ravel()
            for pair in (parts[:2], parts[2:])
            for i in parts[0]
            for part in pair
        ]
    )


def lstm(
    x: AnyArray,
    h_0: AnyArray,
    c_0: AnyArray,
    weights: Weights,
    seq_lengths: AnyArray,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: PrecisionLike = None,
) -> tuple[Array, Array, Array]:
    """Run a network of long short-term memory over a batch of sequences.

    x: T[batch, time, input_size]
    h_0, c_0: T[layers * directions, batch, hidden_size], the state at the start
    weights: T[n], one vector; the module's docstring says in which order
    seq_lengths: int[batch], how many steps of each sequence count
    Result: y of shape (batch, time, directions * hidden_size), zero behind the end of each
    sequence, and the last h and c, of the shape of h_0. A sequence without steps leaves its h and
    c as they were.
    Raises NotImplementedError for a dropout other than 0.

    >>> from teucer import numpy as jnp
    >>> y, h, c = lstm(jnp.ones((5, 7, 2)), jnp.zeros((1, 5, 3)), jnp.zeros((1, 5, 3)),
    ...                jnp.ones(84), jnp.full(5, 7), 2, 3, 1, 0.0, False)
    >>> y.shape, h.shape
    ((5, 7, 3), (1, 5, 3))
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    _check_dropout("lstm", dropout)
    return _run(
        jnp.asarray(x), (h_0, c_0), parts, seq_lengths, num_layers, bidirectional, precision
    )


def lstm_ref(
    x: AnyArray,
    h_0: AnyArray,
    c_0: AnyArray,
    W_ih: Parts[Weights],
    W_hh: Parts[Weights],
    b_ih: Parts[Weights],
    b_hh: Parts[Weights],
    seq_lengths: AnyArray,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Array, Array, Array]:
    """As `lstm`, with the weights that `unpack_lstm_weights` gives."""
    _check_dropout("lstm_ref", dropout)
    parts = (W_ih, W_hh, b_ih, b_hh)
    return _run(jnp.asarray(x), (h_0, c_0), parts, seq_lengths, num_layers, bidirectional, None)


def _check_dropout(name: str, dropout: float) -> None:
    if dropout:
        raise NotImplementedError(
            f"{name}: dropout {dropout} is not supported.\n"
            "  Run the layers one by one, and apply it between them."
        )


def _run(
    x: Array,
    state: tuple[AnyArray, AnyArray],
    parts: AllParts[Weights],
    lengths: AnyArray,
    num_layers: int,
    bidirectional: bool,
    precision: PrecisionLike,
) -> tuple[Array, Array, Array]:
    directions = 1 + bool(bidirectional)
    steps = jnp.arange(x.shape[1])[None]
    within = steps < lengths[:, None]
    # Backwards, each sequence is reversed by itself, and what is behind it stays.
    backwards = jnp.where(within, lengths[:, None] - 1 - steps, steps)[..., None]
    last_h, last_c = [], []
    for layer in range(num_layers):
        outs = []
        for i in range(directions * layer, directions * (layer + 1)):
            reverse = i % directions == 1
            inputs = jnp.take_along_axis(x, backwards, 1) if reverse else x
            start = jnp.asarray(state[0][i]), jnp.asarray(state[1][i])
            y, h, c = _layer(inputs, start, [part[i] for part in parts], within, precision)
            outs.append(jnp.take_along_axis(y, backwards, 1) if reverse else y)
            last_h.append(h)
            last_c.append(c)
        x = jnp.concatenate(outs, axis=-1)
    return x, jnp.stack(last_h), jnp.stack(last_c)


def _layer(
    x: Array,
    start: tuple[Array, Array],
    parts: Sequence[AnyArray],
    within: Array,
    precision: PrecisionLike,
) -> tuple[Array, Array, Array]:
    """One direction of a layer: y of shape (batch, time, hidden_size), and the last h and c."""
    w_ih, w_hh, b_ih, b_hh = parts

    def step(
        state: tuple[Array, Array], inputs: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        h, c = state
        gates, counts = inputs
        i, f, g, o = jnp.split(
            gates + jnp.matmul(h, w_hh.T, precision=precision) + b_hh[None], 4, axis=1
        )
        new_c = lax.logistic(f) * c + lax.logistic(i) * jnp.tanh(g)
        new_h = lax.logistic(o) * jnp.tanh(new_c)
        counts = counts[:, None]
        return (
            (jnp.where(counts, new_h, h), jnp.where(counts, new_c, c)),
            jnp.where(counts, new_h, 0),
        )

    projected = jnp.matmul(x, w_ih.T, precision=precision) + b_ih[None, None]
    (h, c), y = lax.scan(step, start, (projected.swapaxes(0, 1), within.T))
    return y.swapaxes(0, 1), h, c

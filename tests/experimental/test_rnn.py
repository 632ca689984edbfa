"""Long short-term memory: against loops of NumPy, and its weights."""

from functools import partial

import numpy as np
import pytest

import teucer as jax
from teucer.experimental import rnn
from teucer.test_util import check_grads

SIZES = {"input_size": 2, "hidden_size": 3, "num_layers": 2}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_loops(x, h_0, c_0, parts, lengths, bidirectional):
    """One sequence, one layer, one step at a time."""
    directions = 1 + bidirectional
    layers = h_0.shape[0] // directions
    hidden, h_n, c_n = h_0.shape[2], h_0.copy(), c_0.copy()
    for layer in range(layers):
        y = np.zeros((*x.shape[:2], directions * hidden))
        for d in range(directions):
            w_ih, w_hh, b_ih, b_hh = (np.float64(part[directions * layer + d]) for part in parts)
            for b, n in enumerate(lengths):
                h, c = h_n[directions * layer + d, b], c_n[directions * layer + d, b]
                for t in range(n) if d == 0 else reversed(range(n)):
                    i, f, g, o = np.split(w_ih @ x[b, t] + b_ih + w_hh @ h + b_hh, 4)
                    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(c)
                    y[b, t, d * hidden : (d + 1) * hidden] = h
                h_n[directions * layer + d, b], c_n[directions * layer + d, b] = h, c
        x = y
    return x, h_n, c_n


def operands(bidirectional):
    rng, numbers = np.random.default_rng(0), 2 * (1 + bidirectional)
    weights = rnn.init_lstm_weight(jax.random.key(1), **SIZES, bidirectional=bidirectional)
    x, h_0, c_0 = (rng.normal(size=s) for s in ((3, 4, 2), (numbers, 3, 3), (numbers, 3, 3)))
    return weights, x, h_0, c_0, np.array([4, 2, 0], np.int32)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_against_loops(bidirectional):
    weights, x, h_0, c_0, lengths = operands(bidirectional)
    options = {"seq_lengths": lengths, **SIZES, "dropout": 0.0, "bidirectional": bidirectional}
    parts = rnn.unpack_lstm_weights(weights, **SIZES, bidirectional=bidirectional)
    expected = by_loops(x, h_0, c_0, parts, lengths, bidirectional)
    given = [np.float32(v) for v in (x, h_0, c_0)]
    with jax.numpy_rank_promotion("raise"):
        results = rnn.lstm(*given, weights, **options), rnn.lstm_ref(*given, *parts, **options)
    for found in results:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_derivatives():
    weights, x, h_0, c_0, lengths = operands(True)
    with jax.enable_x64(True):
        run = partial(rnn.lstm, **SIZES, dropout=0.0, bidirectional=True)
        f = jax.jit(lambda w, x: run(x, h_0, c_0, w, lengths))
        check_grads(f, (np.float64(weights), x), 1, modes=["rev"], rtol=1e-6, atol=1e-6)


def test_weights():
    """Gates swapped twice are where they were. Wrong lengths and dropout are refused."""
    count = rnn.get_num_params_in_lstm(**SIZES, bidirectional=True)
    weights = np.arange(count, dtype=np.float32)
    swap = lambda w: rnn.swap_lstm_gates(w, **SIZES, bidirectional=True)
    np.testing.assert_array_equal(swap(swap(weights)), weights)
    assert not np.array_equal(swap(weights), weights)
    with pytest.raises(ValueError, match=rf"weights must have shape \({count},\), got \(3,\)"):
        rnn.unpack_lstm_weights(weights[:3], **SIZES, bidirectional=True)
    weights, x, h_0, c_0, lengths = operands(False)
    with pytest.raises(NotImplementedError, match=r"(?s)dropout 0.5 is not supported.*between"):
        rnn.lstm(x, h_0, c_0, weights, lengths, **SIZES, dropout=0.5, bidirectional=False)

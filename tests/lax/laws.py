"""Laws that every structural operation obeys, checked on samples: value, jit, vmap, derivatives, types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import teucer as jax
from teucer._core.trace import typeof
from teucer._trees import pytrees

__all__ = ["check_derivatives", "check_jit", "check_value", "check_vmap", "dtype_of", "numbers", "of"]


def dtype_of(name: str) -> np.dtype:
    """A dtype by name, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def numbers(rng: Any, dtype: str, *shape: int) -> np.ndarray:
    """Different numbers in random order, so that there are no ties."""
    n = int(np.prod(shape))
    kind = dtype_of(dtype)
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        return rng.permutation(np.arange(n) - (n // 2 if kind.kind == "i" else 0)).reshape(shape).astype(kind)
    found = rng.permutation(np.linspace(-2, 2, n)) if n != 1 else np.array([0.7])
    if kind.kind == "c":
        found = found + 1j * rng.permutation(np.linspace(-1, 1, n))
    return found.reshape(shape).astype(kind)


def of(name: str) -> Any:
    """The public function of a name such as 'lax.cumsum'."""
    found: Any = jax
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _leaves(x: Any) -> list[Any]:
    return [y for part in x for y in _leaves(part)] if isinstance(x, list | tuple) else [x]


def _same(got: Any, want: Any, rtol: float = 1e-5) -> None:
    got, want = _leaves(got), _leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        loose = {"bfloat16": 2e-2, "float16": 2e-3}.get(a.dtype.name, rtol)
        exact = a.dtype.kind in "biu"
        wide = a.dtype if exact else np.complex128 if a.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=0 if exact else loose, atol=0 if exact else loose)


def check_value(sample: Any, rng: Any, dtype: str) -> None:
    """The value is the reference's; the type is that of the value."""
    args, kwargs = sample.args(rng, dtype)
    got = of(sample.function)(*args, **kwargs)
    if sample.reference is not None:
        want = sample.reference(*args, **kwargs)
        _same(got, [np.asarray(w, np.asarray(g).dtype) for g, w in zip(_leaves(got), _leaves(want), strict=True)])


def check_jit(sample: Any, rng: Any, dtype: str) -> None:
    """A compiled function gives the same as the eager one, in value and type."""
    args, kwargs = sample.args(rng, dtype)
    f, arrays = closed(sample, args, kwargs)
    eager, compiled = _leaves(f(*arrays)), _leaves(jax.jit(f)(*arrays))
    _same(compiled, eager)
    assert [typeof(y) for y in compiled] == [typeof(y) for y in eager]


def closed(sample: Any, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
    """The operation as a function of its array arguments alone, and these."""
    leaves, tree = pytrees.tree_flatten(args)
    places = [i for i, a in enumerate(leaves) if isinstance(a, np.ndarray)]

    def f(*arrays: Any) -> Any:
        full = list(leaves)
        for i, x in zip(places, arrays, strict=True):
            full[i] = x
        return of(sample.function)(*pytrees.tree_unflatten(tree, full), **kwargs)

    return f, [leaves[i] for i in places]


def check_vmap(sample: Any, rng: Any, dtype: str) -> None:
    """Mapping over a new axis of all arguments, or of one alone, at any place, is a loop."""
    args, kwargs = sample.args(rng, dtype)
    f, arrays = closed(sample, args, kwargs)
    others = closed(sample, *sample.args(rng, dtype))[1]
    n = len(arrays)
    chosen = [range(n)] + ([[i] for i in range(n)] if n > 1 else [])
    for batched in chosen:
        for place in (0, -1):
            axes = [place if i in batched else None for i in range(n)]
            stacked = [np.stack([a, b], place) if i in batched else a
                       for i, (a, b) in enumerate(zip(arrays, others, strict=True))]
            got = _leaves(jax.vmap(f, in_axes=tuple(axes))(*stacked))
            one = _leaves(f(*arrays))
            two = _leaves(f(*[b if i in batched else a for i, (a, b) in enumerate(zip(arrays, others, strict=True))]))
            _same(got, [np.stack([np.asarray(a), np.asarray(b)]) for a, b in zip(one, two, strict=True)])


def check_derivatives(sample: Any, rng: Any) -> None:
    """Forward and reverse derivatives agree with differences, and so do those of the reverse derivative."""
    with jax.enable_x64(True):
        args, kwargs = sample.args(rng, "float64")
        f, arrays = closed(sample, args, kwargs)
        places = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]

        def scalar(*xs: Any) -> Any:
            full = list(arrays)
            for i, x in zip(places, xs, strict=True):
                full[i] = x
            outs = [y for y in _leaves(f(*full)) if np.issubdtype(y.dtype, np.floating)]
            total: Any = None
            for k, y in enumerate(outs):
                weights = np.cos(np.arange(y.size, dtype=np.float64) + k).reshape(y.shape)
                part = jax.lax.reduce_sum(jax.lax.mul(jax.lax.sin(y), weights), range(y.ndim))
                total = part if total is None else jax.lax.add(total, part)
            return total

        xs = [arrays[i] for i in places]
        ts = [rng.standard_normal(x.shape) for x in xs]
        _check_direction(scalar, xs, ts)
        gradient = jax.grad(scalar, argnums=tuple(range(len(xs))))

        def along(*ys: Any) -> Any:
            total: Any = None
            for g, t in zip(gradient(*ys), ts, strict=True):
                part = jax.lax.reduce_sum(jax.lax.mul(g, t), range(t.ndim))
                total = part if total is None else jax.lax.add(total, part)
            return total

        _check_direction(along, xs, [rng.standard_normal(x.shape) for x in xs])


def _check_direction(f: Any, xs: Any, ts: Any, step: float = 1e-5) -> None:
    """The derivative of a scalar function along a direction, in both modes and by differences."""
    f = jax.jit(f)
    difference = (np.asarray(f(*(x + step * t for x, t in zip(xs, ts, strict=True))))
                  - np.asarray(f(*(x - step * t for x, t in zip(xs, ts, strict=True))))) / (2 * step)
    _, forward = jax.jit(lambda xs, ts: jax.jvp(f, xs, ts))(tuple(xs), tuple(ts))
    gradients = jax.jit(jax.grad(f, argnums=tuple(range(len(xs)))))(*xs)
    reverse = sum(np.vdot(t, np.asarray(g)) for g, t in zip(gradients, ts, strict=True))
    np.testing.assert_allclose(forward, difference, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)

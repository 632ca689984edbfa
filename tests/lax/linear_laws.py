"""The laws that every operation of the linear rooms (dot, convolution, fft, linalg) is held to."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from teucer._transform.forward import jvp
from teucer._transform.vjp import vjp
from teucer._transform.vmap import vmap

__all__ = ["assert_derivatives", "assert_vmap_is_stack", "normal", "results"]


def normal(rng: Any, *shape: int, dtype: Any = np.float64) -> Any:
    """Normally distributed numbers of a dtype, complex ones in both parts."""
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def results(out: Any) -> list[Any]:
    """The arrays that a function returned, as NumPy's."""
    return [np.asarray(y) for y in (out if isinstance(out, tuple | list) else (out,))]


def assert_derivatives(
    f: Callable[..., Any], *args: Any, differences: bool = True, tolerance: float = 1e-6
) -> None:
    """The forward rule agrees with differences in float64, and the reverse rule is its
    transpose."""
    rng = np.random.default_rng(1)
    tangents = tuple(normal(rng, *a.shape, dtype=a.dtype) for a in args)
    ys, dys = (results(y) for y in jvp(f, args, tangents))
    smooth = [i for i, y in enumerate(ys) if y.dtype.kind in "fc"]
    if differences:
        eps = 1e-6
        high, low = (
            results(f(*(a + s * t for a, t in zip(args, tangents, strict=True))))
            for s in (eps, -eps)
        )
        for i in smooth:
            scale = 1 + np.abs(dys[i]).max(initial=0)
            np.testing.assert_allclose(
                (high[i] - low[i]) / (2 * eps) / scale, dys[i] / scale, rtol=0, atol=tolerance
            )

    def only_smooth(*xs: Any) -> Any:
        out = f(*xs)
        out = out if isinstance(out, tuple | list) else (out,)
        return tuple(out[i] for i in smooth)

    outs, pullback = vjp(only_smooth, *args)
    cts = tuple(normal(rng, *y.shape, dtype=y.dtype) for y in results(outs))
    back = results(pullback(cts))
    for ct, a in zip(back, args, strict=True):
        assert (ct.shape, ct.dtype) == (a.shape, a.dtype)
    forward = sum(np.sum(c * dys[i]) for c, i in zip(cts, smooth, strict=True))
    reverse = sum(np.sum(c * t) for c, t in zip(back, tangents, strict=True))
    # Cotangents of real arguments are real: of the imaginary part they know nothing.
    np.testing.assert_allclose(np.real(reverse), np.real(forward), rtol=1e-9, atol=1e-9)


def assert_vmap_is_stack(f: Callable[..., Any], *args: Any, tolerance: float = 1e-9) -> None:
    """vmap over each set of arguments and each axis agrees with a loop."""
    rng, size = np.random.default_rng(2), 3
    for chosen in itertools.product([False, True], repeat=len(args)):
        for axis in range(max(a.ndim for a in args) + 1) if any(chosen) else ():
            dims = tuple(
                min(axis, a.ndim) if c else None for c, a in zip(chosen, args, strict=True)
            )
            batches = [
                a if d is None else np.stack([_varied(rng, a) for _ in range(size)], d)
                for a, d in zip(args, dims, strict=True)
            ]
            got = results(vmap(f, in_axes=dims)(*batches))
            loop = [
                results(
                    f(
                        *(
                            x if d is None else np.take(x, i, d)
                            for x, d in zip(batches, dims, strict=True)
                        )
                    )
                )
                for i in range(size)
            ]
            for j, y in enumerate(got):
                np.testing.assert_allclose(
                    y, np.stack([ys[j] for ys in loop]), rtol=0, atol=tolerance
                )


def _varied(rng: Any, a: Any) -> Any:
    return a + 0.1 * normal(rng, *a.shape, dtype=a.dtype) if a.dtype.kind in "fc" else a

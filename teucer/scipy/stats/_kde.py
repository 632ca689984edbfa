"""The estimate of a density by a sum of Gaussians around samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self

from teucer import lax, random
from teucer import numpy as jnp
from teucer._trees.registry import register_pytree_node_class
from teucer.scipy import special
from teucer.scipy._operands import along_last, matrices

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Value


@register_pytree_node_class
class gaussian_kde:
    """The density from which samples are drawn, estimated by Gaussians around them.

    dataset: T[n], or T[d, n], n samples of d numbers. weights: T[n], of the samples; they are made
    to sum to 1.
    bw_method: the width of the Gaussians in units of the samples' width. It is "scott" (as None),
    "silverman", a number, or a function of the estimate. That has `n`, `d` and `neff`, the number
    of samples that weigh as much. Raises ValueError for shapes that do not fit, and
    NotImplementedError for complex samples.

    Its attributes are `dataset`, of shape (d, n), `weights`, the `covariance` of the Gaussians and
    its inverse, `inv_cov`. It is a pytree.

    >>> estimate = gaussian_kde(jnp.array([0.0, 1.0, 3.0]))
    >>> round(float(estimate.integrate_box_1d(-jnp.inf, 1.0)), 3)
    0.448

    Method: D. W. Scott, "Multivariate Density Estimation", Wiley, 1992.
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self,
        dataset: Any,
        bw_method: str | Any | Callable[[Any], Any] | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        (dataset,) = matrices("gaussian_kde", dataset)
        if jnp.iscomplexobj(dataset):
            raise NotImplementedError(
                "gaussian_kde does not support complex data.\n"
                "  Stack the real and imaginary parts as two rows."
            )
        if dataset.ndim > 2:
            raise ValueError(
                f"gaussian_kde: `dataset` must have one or two axes, got shape {dataset.shape}."
            )
        if not dataset.size > 1:
            raise ValueError("gaussian_kde: `dataset` input should have multiple elements.")
        self.dataset = jnp.atleast_2d(dataset)
        self.weights = self._checked_weights(weights)
        self.neff = 1 / jnp.sum(self.weights**2)
        factor = self._factor(bw_method)
        spread = jnp.cov(self.dataset, rowvar=True, bias=False, aweights=self.weights)
        self.covariance = jnp.atleast_2d(spread).astype(self.dataset.dtype) * factor**2
        self.inv_cov = jnp.linalg.inv(self.covariance)

    def _checked_weights(self, weights: Any) -> Any:
        if weights is None:
            return jnp.full(self.n, 1 / self.n, self.dataset.dtype)
        (weights,) = matrices("gaussian_kde", weights)
        if weights.ndim != 1:
            raise ValueError(
                "gaussian_kde: `weights` input should be one-dimensional, got shape "
                f"{weights.shape}."
            )
        if weights.shape[0] != self.n:
            raise ValueError(
                f"gaussian_kde: `weights` input should be of length n = {self.n}, got "
                f"{weights.shape[0]}."
            )
        return (weights / jnp.sum(weights)).astype(self.dataset.dtype)

    def _factor(self, method: object) -> Any:
        """The width of the Gaussians in units of the samples' width."""
        if method is None or (isinstance(method, str) and method == "scott"):
            return self.neff ** (-1 / (self.d + 4))
        if isinstance(method, str) and method == "silverman":
            return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))
        if callable(method):
            return method(self)
        if isinstance(method, str) or jnp.ndim(method):
            raise ValueError(
                "gaussian_kde: `bw_method` should be 'scott', 'silverman', a scalar, or a callable."
                f"\n    bw_method: {method!r}"
            )
        return method

    @property
    def d(self) -> int:
        """How many numbers a sample has."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """How many samples there are."""
        return self.dataset.shape[1]

    def __repr__(self) -> str:
        names = ("neff", "dataset", "weights", "covariance", "inv_cov")
        return f"gaussian_kde({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays of the estimate, and nothing else."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: tuple[object, ...]) -> Self:
        """The estimate of `tree_flatten`."""
        self = object.__new__(cls)
        self.neff, self.dataset, self.weights, self.covariance, self.inv_cov = children
        return self

    def evaluate(self, points: Value) -> Any:
        """The density at points.

        points: T[m], or T[d, m]; of one shape T[d] one point  ->  T[m]
        Raises ValueError for points of another dimension.
        """
        return jnp.exp(self.logpdf(points))

    __call__ = evaluate

    def pdf(self, x: ArrayLike) -> Any:
        """The estimated density at x, as `evaluate` gives it."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Any:
        """The logarithm of `evaluate`."""
        points = self._points("logpdf", x)
        return _log_overlaps(points, self.dataset, self.covariance, self.weights)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the density times a normal density.

        mean: T[d], cov: T[d, d]; numbers where d is 1.
        Raises ValueError for other shapes.
        """
        mean, cov = matrices("integrate_gaussian", mean, cov)
        mean, cov = jnp.atleast_1d(mean.squeeze()), jnp.atleast_2d(cov)
        if mean.shape != (self.d,):
            raise ValueError(
                f"integrate_gaussian: mean does not have dimension {self.d}, got shape "
                f"{mean.shape}."
            )
        if cov.shape != (self.d, self.d):
            raise ValueError(
                f"integrate_gaussian: covariance does not have dimension {self.d}, got shape "
                f"{cov.shape}."
            )
        return jnp.exp(
            _log_overlaps(mean[:, None], self.dataset, self.covariance + cov, self.weights)[0]
        )

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Any:
        """The probability of values from low to high, where d is 1. Raises ValueError where it is
        not."""
        if self.d != 1:
            raise ValueError(f"integrate_box_1d() only handles 1D pdfs, the dimension is {self.d}.")
        low, high = matrices("integrate_box_1d", low, high)
        if low.ndim or high.ndim:
            raise ValueError(
                f"integrate_box_1d: limits must be scalars, got shapes {low.shape} and "
                f"{high.shape}."
            )
        width = jnp.sqrt(self.covariance[0, 0])
        below, above = ((end - self.dataset[0]) / width for end in (low, high))
        return jnp.sum(self.weights * (special.ndtr(above) - special.ndtr(below)))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product of two estimates. Raises ValueError where their dimensions
        differ."""
        if other.d != self.d:
            raise ValueError(
                f"integrate_kde: KDEs are not the same dimensionality: {self.d} and {other.d}."
            )
        overlaps = _log_overlaps(
            other.dataset, self.dataset, self.covariance + other.covariance, self.weights
        )
        return jnp.sum(other.weights * jnp.exp(overlaps))

    def resample(self, key: object, shape: tuple[int, ...] = ()) -> Any:
        """Random points of the estimated density  ->  T[d, *shape]."""
        which, around = random.split(key)
        chosen = random.choice(which, self.n, shape=shape, p=self.weights)
        moved = random.multivariate_normal(
            around,
            jnp.zeros(self.d, self.covariance.dtype),
            self.covariance,
            shape=shape,
            dtype=self.dataset.dtype,
        )
        return self.dataset[:, chosen] + jnp.moveaxis(moved, -1, 0)

    def integrate_box(
        self, low_bounds: object, high_bounds: object, maxpts: int | None = None
    ) -> NoReturn:
        """Raises NotImplementedError: use `integrate_box_1d` for integrals in one dimension."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method: object = None) -> NoReturn:
        """Raises NotImplementedError: an estimate does not change. Make another,
        `gaussian_kde(dataset, bw_method)`."""
        raise NotImplementedError(
            "dynamically changing the bandwidth method is not supported\n"
            "  Make another gaussian_kde."
        )

    def _points(self, op: str, points: Any) -> Any:
        """Points of shape (d, m), in the dtype of the samples."""
        points, _ = matrices(f"gaussian_kde.{op}", points, self.dataset)
        points = jnp.atleast_2d(points)
        if points.ndim == 2 and points.shape[0] == 1 and points.shape[1] == self.d != 1:
            points = points.reshape(self.d, 1)
        if points.ndim != 2 or points.shape[0] != self.d:
            raise ValueError(
                f"points have dimension {points.shape[0]}, dataset has dimension {self.d}"
            )
        return points


def _log_overlaps(points: Array, centres: Array, covariance: Array, weights: Array) -> Array:
    """log(sum_j weights_j N(point_i; centre_j, covariance)) for each point i."""
    d = points.shape[0]
    root = jnp.linalg.cholesky(covariance)
    norm = 0.5 * d * math.log(2 * math.pi) + jnp.sum(jnp.log(jnp.diagonal(root)))
    both = jnp.concatenate([points, centres], axis=1).astype(root.dtype)
    both = lax.linalg.triangular_solve(root, both, left_side=True, lower=True)
    here, there = both[:, : points.shape[1]], both[:, points.shape[1] :]
    distances = jnp.sum(jnp.square(here[:, :, None] - there[:, None, :]), axis=0)
    return special.logsumexp(-0.5 * distances, axis=1, b=along_last(weights, distances)) - norm

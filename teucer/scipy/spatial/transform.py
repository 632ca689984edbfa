"""Rotations in three dimensions, and interpolation between them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax, random
from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer.numpy._library import fast
from teucer.scipy._operands import matrices

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, DTypeLike

__all__ = ["Rotation", "Slerp"]
__dir__ = listing(__name__, __all__)


def _real(op: str, x: Any) -> Array:
    """An operand as floats, of a dtype of its own also where it is a Python number."""
    (x,) = matrices(op, jnp.asarray(x))
    if jnp.iscomplexobj(x):
        raise TypeError(f"{op}: numbers must be real, got dtype {x.dtype}.")
    return lax.convert_element_type(x, x.dtype)


def _shaped(op: str, x: Any, *last: int) -> Any:
    """An operand as floats whose last axes have given sizes."""
    x = _real(op, x)
    if x.shape[x.ndim - len(last) :] != last:
        raise ValueError(
            f"{op}: expected an array of shape (..., {', '.join(map(str, last))}), got {x.shape}."
        )
    return x


class Rotation(NamedTuple):
    """A rotation, or an array of rotations, in three dimensions.

    quat: T[..., 4], unit quaternions (x, y, z, w). Made by the methods `from_...`.
    `p * q` is the rotation q and then p; `p ** n` is n times p. A pytree.

    >>> quarter = Rotation.from_euler("z", 90, degrees=True)
    >>> quarter.apply(jnp.array([1., 0., 0.])).round(3) + 0.
    Array([0., 1., 0.], dtype=float32)
    """

    quat: Any

    # --- Made from --------------------------------------------------------------------------------

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """The rotation of quaternions, which are normalized. quat: real[..., 4], the scalar last;
        nan for 0.

        >>> Rotation.from_quat(jnp.array([0., 0., 2., 0.])).quat.tolist()
        [0.0, 0.0, 1.0, 0.0]
        """
        return cls(_normalized(_shaped("Rotation.from_quat", quat, 4)))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """The rotation of orthogonal matrices. matrix: real[..., 3, 3].

        >>> Rotation.from_matrix(jnp.eye(3)).quat.tolist()
        [0.0, 0.0, 0.0, 1.0]

        Method: S. W. Shepperd, J. Guidance and Control 1 (1978) 223.
        """
        return cls(_from_matrix(_shaped("Rotation.from_matrix", matrix, 3, 3)))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """The rotation about vectors, by angles that are their lengths. rotvec: real[..., 3].

        >>> Rotation.from_rotvec(jnp.array([0., 0., 180.]), degrees=True).quat.round(3)[:3].tolist()
        [0.0, 0.0, 1.0]
        """
        return cls(_from_rotvec(_shaped("Rotation.from_rotvec", rotvec, 3), degrees))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """The rotation of modified Rodrigues parameters: the axis times the tangent of a quarter of
        the angle.

        mrp: real[..., 3].

        >>> Rotation.from_mrp(jnp.array([0., 0., 1.])).quat.tolist()
        [0.0, 0.0, 1.0, 0.0]
        """
        mrp = _shaped("Rotation.from_mrp", mrp, 3)
        square = jnp.sum(mrp * mrp, axis=-1, keepdims=True)
        return cls(jnp.concatenate([2 * mrp, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """The rotation by angles about one to three axes after another.

        seq: axes such as "xyz", fixed, or "XYZ", that turn along. angles: real[..., n]; for one
        axis also a number. Raises ValueError for other axes, equal neighbours, or another number of
        angles.

        >>> Rotation.from_euler("xz", jnp.array([90., 0.]), degrees=True).quat.round(3)
        Array([0.707, 0.   , 0.   , 0.707], dtype=float32)
        """
        axes, is_intrinsic = _axes(seq, 1, 3)
        angles = _real("Rotation.from_euler", angles)
        if len(axes) == 1 and angles.ndim == 0:
            angles = angles[None]
        if angles.ndim == 0 or angles.shape[-1] != len(axes):
            raise ValueError(
                f"Rotation.from_euler: expected {len(axes)} angles in the last axis for seq "
                f"{seq!r}, got shape {angles.shape}."
            )
        return cls(_from_euler(axes, is_intrinsic, angles, degrees))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """The rotation that changes nothing, or num of them.

        >>> Rotation.identity().quat.tolist()
        [0.0, 0.0, 0.0, 1.0]
        """
        return cls(
            jnp.broadcast_to(jnp.array([0, 0, 0, 1], dtype), (4,) if num is None else (num, 4))
        )

    @classmethod
    def random(cls, random_key: object, num: int | None = None) -> Rotation:
        """A random rotation, uniformly distributed, or num of them.

        >>> import teucer as jax
        >>> Rotation.random(jax.random.key(0), 3).quat.shape
        (3, 4)
        """
        return cls(_normalized(random.normal(random_key, (4,) if num is None else (num, 4))))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """The rotations one after another in one array.

        >>> len(Rotation.concatenate([Rotation.identity(), Rotation.identity(2)]))
        3
        """
        return cls(jnp.concatenate([jnp.atleast_2d(rotation.quat) for rotation in rotations]))

    # --- As ---------------------------------------------------------------------------------------

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """Quaternions, T[..., 4]. canonical: of the two the one whose last part that is not 0, from
        w on, is positive."""
        quat = _canonical(self.quat) if canonical else self.quat
        return jnp.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_matrix(self) -> Any:
        """Matrices, T[..., 3, 3]."""
        return _as_matrix(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Vectors along the axes, as long as the angles, which are at most a half turn: T[...,
        3]."""
        return _as_rotvec(self.quat, degrees)

    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters, T[..., 3], of length at most 1."""
        quat = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles about three axes after another, T[..., 3]; where two axes coincide the third angle
        is 0.

        seq: as of `from_euler`. Raises ValueError for others.

        Method: E. Bernardes and S. Viollet, PLoS ONE 17 (2022) e0276302.
        """
        axes, is_intrinsic = _axes(seq, 3, 3)
        angles = _as_euler(axes, is_intrinsic, self.quat)
        return jnp.rad2deg(angles) if degrees else angles

    # --- Used -------------------------------------------------------------------------------------

    @property
    def single(self) -> bool:
        """Whether it is one rotation and not an array."""
        return self.quat.ndim == 1

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Vectors rotated, or rotated back. vectors: real[..., 3], of a shape that broadcasts with
        the rotations'."""
        vectors = _shaped("Rotation.apply", vectors, 3)
        return _apply(self.quat, vectors, inverse)

    def inv(self) -> Rotation:
        """The rotations back."""
        return Rotation(jnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], axis=-1))

    def magnitude(self) -> Any:
        """Angles, from 0 to half a turn, in radians: T[...]."""
        return 2 * jnp.arctan2(
            jnp.linalg.norm(self.quat[..., :3], axis=-1), jnp.abs(self.quat[..., 3])
        )

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation that is nearest to all of an array, by the sum of squares of distances of
        matrices.

        weights: real[m], not negative. Raises ValueError for other shapes.
        """
        quat = jnp.atleast_2d(self.quat)
        if weights is not None:
            weights = _real("Rotation.mean", weights)
            if weights.shape != quat.shape[:1]:
                raise ValueError(
                    f"Rotation.mean: expected {quat.shape[0]} weights, one for each rotation, "
                    f"got shape {weights.shape}."
                )
        return Rotation(_mean(quat, weights))

    def __mul__(self, other: object) -> Any:
        """The rotation `other` and then this one."""
        return (
            Rotation(_product(self.quat, other.quat))
            if isinstance(other, Rotation)
            else NotImplemented
        )

    def __pow__(self, n: ArrayLike) -> Rotation:
        """This rotation n times."""
        return Rotation.from_rotvec(n * self.as_rotvec())

    def __getitem__(self, index: object) -> Rotation:
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[index])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __bool__(self) -> bool:
        return True


class Slerp(NamedTuple):
    """Rotations between given ones, at a steady rate from one to the next. Made by `Slerp.init`; a
    pytree.

    >>> between = Slerp.init(jnp.array([0., 1.]),
    ...     Rotation.from_euler("z", jnp.array([[0.], [90.]]), degrees=True))
    >>> between(0.5).magnitude().round(3)
    Array(0.785, dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """times: real[n], increasing; rotations: n of them, at least 2.

        Raises TypeError for something else than rotations, ValueError if there are less than two,
        or another number of times.
        """
        if not isinstance(rotations, Rotation):
            raise TypeError(
                f"Slerp: `rotations` must be a `Rotation` instance, got {type(rotations).__name__}."
            )
        if rotations.single or len(rotations) <= 1:
            raise ValueError("Slerp: `rotations` must be a sequence of at least 2 rotations.")
        times = _real("Slerp", times)
        if times.ndim != 1:
            raise ValueError(
                "Slerp: expected times to be specified in a 1 dimensional array, got "
                f"{times.ndim} dimensions."
            )
        if times.shape[0] != len(rotations):
            raise ValueError(
                "Slerp: Expected number of rotations to be equal to number of timestamps given, "
                f"got {len(rotations)} rotations and {times.shape[0]} timestamps."
            )
        before = Rotation(rotations.quat[:-1])
        return cls(
            times,
            jnp.diff(times),
            before,
            (before.inv() * Rotation(rotations.quat[1:])).as_rotvec(),
        )

    def __call__(self, times: Any) -> Rotation:
        """The rotations at times, real[] or real[m]; before the first and after the last time at
        the rate of the nearest two.

        Raises ValueError for more axes.
        """
        times = _real("Slerp", times)
        if times.ndim > 1:
            raise ValueError(
                f"Slerp: `times` must be at most 1-dimensional, got {times.ndim} dimensions."
            )
        at = jnp.clip(
            jnp.searchsorted(self.times, times, side="right") - 1, 0, self.times.shape[0] - 2
        )
        share = (times - self.times[at]) / self.timedelta[at]
        return Rotation(self.rotations.quat[at]) * Rotation.from_rotvec(
            self.rotvecs[at] * share[..., None]
        )


def _axes(seq: str, least: int, most: int) -> tuple[tuple[int, ...], bool]:
    """The numbers of the axes of a sequence, and whether they turn along."""
    if not least <= len(seq) <= most:
        count = f"{'up to ' * (least < most)}{most} characters"
        raise ValueError(f"Expected axis specification to be a string of {count}, got {seq!r}.")
    is_intrinsic = re.fullmatch("[XYZ]+", seq) is not None
    if not is_intrinsic and re.fullmatch("[xyz]+", seq) is None:
        raise ValueError(
            f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}"
        )
    axes = tuple("xyz".index(c) for c in seq.lower())
    if any(first == second for first, second in itertools.pairwise(axes)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return axes, is_intrinsic


@fast
def _normalized(quat: ArrayLike) -> Any:
    return quat / jnp.linalg.norm(quat, axis=-1, keepdims=True)


@fast
def _product(p: Any, q: Any) -> Any:
    """The product of quaternions."""
    p, q = matrices("Rotation.__mul__", p, q)
    p, q = jnp.broadcast_arrays(p, q)
    v, a, w, b = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    return jnp.concatenate(
        [a * w + b * v + jnp.cross(v, w), a * b - jnp.sum(v * w, axis=-1, keepdims=True)], axis=-1
    )


@fast
def _canonical(quat: Array) -> Any:
    """The sign of a quaternion fixed: q or -q, so that the first of w, x, y, z that is not 0 is
    positive."""
    ordered = jnp.roll(quat, 1, axis=-1)
    first = jnp.take_along_axis(ordered, jnp.argmax(ordered != 0, axis=-1)[..., None], -1)
    return jnp.where(first < 0, -quat, quat)


@fast
def _as_matrix(quat: Array) -> Any:
    x, y, z, w = (quat[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


@fast
def _from_matrix(matrix: Array) -> Any:
    """For each of the parts of the quaternion the quaternion times four times it; the one of the
    greatest part is exact."""

    def m(i: int, j: int) -> Any:
        return matrix[..., i, j]

    trace = m(0, 0) + m(1, 1) + m(2, 2)
    scaled = [
        [1 - trace + 2 * m(i, i) if j == i else m(i, j) + m(j, i) for j in range(3)]
        for i in range(3)
    ]
    scalar = [m(2, 1) - m(1, 2), m(0, 2) - m(2, 0), m(1, 0) - m(0, 1)]
    rows = [[*row, part] for row, part in zip(scaled, scalar, strict=True)] + [[*scalar, 1 + trace]]
    candidates = jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)
    best = jnp.argmax(jnp.stack([m(0, 0), m(1, 1), m(2, 2), trace], axis=-1), axis=-1)
    return _normalized(jnp.take_along_axis(candidates, best[..., None, None], axis=-2)[..., 0, :])


@fast(static=("degrees",))
def _from_rotvec(rotvec: ArrayLike, degrees: bool) -> Any:
    rotvec = jnp.deg2rad(rotvec) if degrees else rotvec
    square = jnp.sum(rotvec * rotvec, axis=-1, keepdims=True)
    is_small = square <= 1e-6
    angle = jnp.sqrt(jnp.where(is_small, 1.0, square))
    scale = jnp.where(
        is_small, 0.5 - square / 48 + square * square / 3840, jnp.sin(0.5 * angle) / angle
    )
    cosine = jnp.where(is_small, 1 - square / 8 + square * square / 384, jnp.cos(0.5 * angle))
    return jnp.concatenate([scale * rotvec, cosine], axis=-1)


@fast(static=("degrees",))
def _as_rotvec(quat: Array, degrees: bool) -> Any:
    quat = jnp.where(quat[..., 3:] < 0, -quat, quat)
    vector, scalar = quat[..., :3], quat[..., 3:]
    square = jnp.sum(vector * vector, axis=-1, keepdims=True)
    is_small = square <= 2.5e-7
    norm = jnp.sqrt(jnp.where(is_small, 1.0, square))
    # 2 arcsin(s) / s, of the sine s of half the angle, is its series where s is small.
    scale = jnp.where(
        is_small, 2 + square / 3 + 3 * square * square / 20, 2 * jnp.arctan2(norm, scalar) / norm
    )
    result = scale * vector
    return jnp.rad2deg(result) if degrees else result


@fast(static=("axes", "is_intrinsic", "degrees"))
def _from_euler(axes: tuple[int, ...], is_intrinsic: bool, angles: Array, degrees: bool) -> Any:
    angles = jnp.deg2rad(angles) if degrees else angles
    result: Any = None
    for i, axis in enumerate(axes):
        half = 0.5 * angles[..., i]
        zero = jnp.zeros_like(half)
        turn = jnp.stack(
            [*(jnp.sin(half) if j == axis else zero for j in range(3)), jnp.cos(half)], axis=-1
        )
        result = (
            turn
            if result is None
            else _product(result, turn)
            if is_intrinsic
            else _product(turn, result)
        )
    return result


@fast(static=("axes", "is_intrinsic"))
def _as_euler(axes: tuple[int, ...], is_intrinsic: bool, quat: Array) -> Any:
    i, j, k = reversed(axes) if is_intrinsic else axes
    is_symmetric = i == k
    k = 3 - i - j if is_symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    first, middle, last, scalar = (quat[..., at] for at in (i, j, k, 3))
    if is_symmetric:
        a, b, c, d = scalar, first, middle, last * sign
    else:
        a, b, c, d = scalar - middle, first + last * sign, middle + scalar, last * sign - first
    second = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    is_zero, is_half_turn = jnp.abs(second) <= 1e-7, jnp.abs(second - np.pi) <= 1e-7
    is_locked = is_zero | is_half_turn
    # The first and the last angle about fixed axes. About axes that turn along they are in reverse.
    before, after = half_sum - half_difference, half_sum + half_difference
    after = after if is_symmetric else after * sign
    one, three = (after, before) if is_intrinsic else (before, after)
    flip = 1 if is_intrinsic else -1
    alone = jnp.where(is_zero, 2 * half_sum, flip * 2 * half_difference)
    if is_intrinsic and not is_symmetric:
        alone = alone * sign
    second = second if is_symmetric else second - np.pi / 2
    angles = jnp.stack(
        [jnp.where(is_locked, alone, one), second, jnp.where(is_locked, 0.0, three)], axis=-1
    )
    return angles - 2 * np.pi * jnp.round(angles / (2 * np.pi))


@fast(static=("inverse",))
def _apply(quat: Array, vectors: ArrayLike, inverse: bool) -> Any:
    quat, vectors = matrices("Rotation.apply", quat, vectors)
    matrix = _as_matrix(quat)
    matrix = jnp.swapaxes(matrix, -1, -2) if inverse else matrix
    return jnp.sum(jnp.multiply(*jnp.broadcast_arrays(matrix, vectors[..., None, :])), axis=-1)


@fast
def _mean(quat: Array, weights: Array | None) -> Any:
    weighted = quat if weights is None else quat * weights[:, None]
    _, vectors = jnp.linalg.eigh(jnp.matmul(weighted.T, quat, precision="highest"))
    return vectors[:, -1]

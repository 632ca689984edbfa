"""scipy.spatial.transform against SciPy's."""

import itertools

import numpy as np
import pytest
from scipy.spatial import transform as reference

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy.spatial.transform import Rotation, Slerp

R = np.random.default_rng(0)
QUATS = R.normal(size=(20, 4))
SPECIAL = np.array(
    [
        [0, 0, 0, 1],
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, -1],
        [1, 1, 0, 0],
        [0, 1, 0, 1],
        [0, 0, 1, -1],
        [1e-9, 0, 0, 1],
        [1e-5, 2e-5, -1e-5, 1],
    ],
    float,
)
ALL = np.concatenate([QUATS, SPECIAL])
SEQUENCES = [
    "".join(s)
    for letters in ("xyz", "XYZ")
    for s in itertools.product(letters, repeat=3)
    if s[0] != s[1] and s[1] != s[2]
]


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def close(x, y, tolerance=1e-10):
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def both(quat):
    return Rotation.from_quat(quat), reference.Rotation.from_quat(quat)


def same(ours, theirs, tolerance=1e-10):
    close(ours.as_matrix(), theirs.as_matrix(), tolerance)


def test_forms():
    ours, theirs = both(ALL)
    close(ours.as_quat(canonical=True), theirs.as_quat(canonical=True))
    close(ours.as_quat(scalar_first=True), theirs.as_quat(scalar_first=True))
    close(ours.as_matrix(), theirs.as_matrix())
    close(ours.as_rotvec(degrees=True), theirs.as_rotvec(degrees=True), 1e-9)
    close(ours.as_mrp(), theirs.as_mrp())
    close(ours.magnitude(), theirs.magnitude())
    same(ours.inv(), theirs.inv())
    same(ours * ours[::-1], theirs * theirs[::-1])
    same(ours[3] * ours, theirs[3] * theirs)
    same(ours**3, theirs**3, 1e-8)
    for form in ("matrix", "rotvec", "mrp", "quat"):
        back = getattr(Rotation, f"from_{form}")(getattr(ours, f"as_{form}")())
        close(back.as_matrix(), ours.as_matrix(), 1e-9)
        single = getattr(Rotation, f"from_{form}")(getattr(ours[0], f"as_{form}")())
        close(single.as_matrix(), ours[0].as_matrix())


def test_rotations_by_python_numbers_have_a_dtype_of_their_own():
    for rotation in (Rotation.from_euler("z", 0.1), Rotation.from_euler("z", 5, degrees=True)):
        for x in (rotation.as_matrix(), rotation.inv().as_quat(), rotation.as_rotvec()):
            assert not x.weak_type


@pytest.mark.filterwarnings("ignore:Gimbal lock:UserWarning")
@pytest.mark.parametrize("seq", SEQUENCES)
def test_euler_angles(seq):
    ours, theirs = both(ALL)
    close(np.abs(np.exp(1j * ours.as_euler(seq)) - np.exp(1j * theirs.as_euler(seq))), 0, 1e-6)
    close(Rotation.from_euler(seq, ours.as_euler(seq)).as_matrix(), ours.as_matrix(), 1e-6)
    angles = R.uniform(-200, 200, (4, 3))
    same(
        Rotation.from_euler(seq, angles, degrees=True),
        reference.Rotation.from_euler(seq, angles, degrees=True),
    )


@pytest.mark.parametrize(
    ("seq", "angles"),
    [
        ("x", 0.3),
        ("Y", [0.3]),
        ("z", [[0.3], [0.4]]),
        ("xy", [0.3, 0.4]),
        ("ZX", [[0.3, 0.4], [1, 2], [3, 4]]),
        ("xyz", [1, 2, 3]),
    ],
)
def test_from_few_angles(seq, angles):
    found, expected = (
        m.Rotation.from_euler(seq, np.array(angles))
        for m in (jax.scipy.spatial.transform, reference)
    )
    same(found, expected)
    assert found.single == expected.single


@pytest.mark.parametrize("inverse", [False, True])
def test_apply(inverse):
    ours, theirs = both(QUATS)
    vectors = R.normal(size=(20, 3))
    close(ours.apply(vectors, inverse), theirs.apply(vectors, inverse))
    close(ours.apply(vectors[0], inverse), theirs.apply(vectors[0], inverse))
    close(ours[0].apply(vectors, inverse), theirs[0].apply(vectors, inverse))
    assert ours[0].apply(vectors[0]).shape == (3,)


def test_arrays_of_rotations():
    ours, theirs = both(QUATS)
    assert (
        len(ours) == 20
        and not ours.single
        and ours[2].single
        and bool(ours)
        and len(ours[1:4]) == 3
    )
    for weights in (None, R.uniform(0.1, 1.0, 20)):
        same(ours.mean(weights), theirs.mean(weights))
    same(Rotation.concatenate([ours, ours[0]]), reference.Rotation.concatenate([theirs, theirs[0]]))
    assert Rotation.identity().single and len(Rotation.identity(3)) == 3
    assert Rotation.identity(dtype="float32").quat.dtype == "float32"
    drawn = Rotation.random(jax.random.key(0), 2000)
    close(jnp.linalg.norm(drawn.quat, axis=-1), 1)
    assert np.abs(drawn.as_matrix().mean(axis=0)).max() < 0.06
    assert Rotation.from_quat(np.ones((2, 3, 4))).as_matrix().shape == (2, 3, 3, 3)
    assert Rotation.from_rotvec(np.array([1, 0, 0])).quat.dtype == np.float64


def test_transformations():
    ours, _ = both(QUATS)
    close(jax.jit(lambda r, v: (r * r).apply(v))(ours, np.ones(3)), (ours * ours).apply(np.ones(3)))
    close(jax.vmap(lambda r: r.as_rotvec())(ours), ours.as_rotvec())
    vector = np.array([0.3, -0.2, 0.5])
    of = lambda v: Rotation.from_rotvec(v).apply(np.array([1.0, 2.0, 3.0]))
    h = 1e-6
    differences = [
        (np.asarray(of(vector + h * e)) - np.asarray(of(vector - h * e))) / (2 * h)
        for e in np.eye(3)
    ]
    close(jax.jacobian(of)(vector), np.stack(differences, axis=-1), 1e-8)
    close(jax.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())(vector), np.eye(3))
    close(jax.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())(np.zeros(3)), np.eye(3))


def test_slerp():
    times = np.array([0.0, 1.0, 2.5, 4.0])
    ours, theirs = both(QUATS[:4])
    at = R.uniform(0, 4, 9)
    same(Slerp.init(times, ours)(at), reference.Slerp(times, theirs)(at))
    same(Slerp.init(times, ours)(1.3), reference.Slerp(times, theirs)(1.3))
    same(Slerp.init(times, ours)(times), theirs, 1e-9)
    close(
        jax.jit(lambda s, t: s(t).quat)(Slerp.init(times, ours), at),
        Slerp.init(times, ours)(at).quat,
    )


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda r: Rotation.from_quat(np.ones(3)), ValueError, r"shape \(\.\.\., 4\), got \(3,\)"),
        (lambda r: Rotation.from_matrix(np.ones((2, 3))), ValueError, r"shape \(\.\.\., 3, 3\)"),
        (lambda r: Rotation.from_quat(np.ones(4) * 1j), TypeError, "must be real"),
        (
            lambda r: Rotation.from_euler("xx", np.ones(2)),
            ValueError,
            "consecutive axes to be different",
        ),
        (lambda r: Rotation.from_euler("xY", np.ones(2)), ValueError, "Expected axes from `seq`"),
        (lambda r: Rotation.from_euler("xyzx", np.ones(4)), ValueError, "up to 3 characters"),
        (lambda r: Rotation.from_euler("xyz", np.ones(2)), ValueError, "expected 3 angles"),
        (lambda r: r.as_euler("xy"), ValueError, "string of 3 characters"),
        (lambda r: len(r[0]), TypeError, "Single rotation has no len"),
        (lambda r: r[0][0], TypeError, "Single rotation is not subscriptable"),
        (lambda r: r * 2, TypeError, "unsupported operand"),
        (lambda r: r.mean(np.ones(3)), ValueError, "expected 2 weights"),
        (lambda r: Slerp.init(np.arange(2.0), r[0]), ValueError, "at least 2 rotations"),
        (lambda r: Slerp.init(np.arange(2.0), 3), TypeError, "must be a `Rotation` instance"),
        (lambda r: Slerp.init(np.arange(3.0), r), ValueError, "2 rotations and 3 timestamps"),
        (lambda r: Slerp.init(np.ones((2, 1)), r), ValueError, "1 dimensional array"),
        (
            lambda r: Slerp.init(np.arange(2.0), r)(np.ones((2, 2))),
            ValueError,
            "at most 1-dimensional",
        ),
    ],
)
def test_mistakes(call, error, match):
    with pytest.raises(error, match=match):
        call(Rotation.identity(2))

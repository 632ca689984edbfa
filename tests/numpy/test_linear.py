"""Products against NumPy, traced and eager; their derivatives and errors; Fourier transforms."""

import numpy as np
import opt_einsum
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.numpy import _einsum

RNG = np.random.default_rng(0)


def r(*shape, kind="float32"):
    x = RNG.standard_normal(shape)
    return (
        (x + 1j * RNG.standard_normal(shape)).astype(kind)
        if kind.startswith("c")
        else x.astype(kind)
    )


CASES = [
    ("dot", (r(3), r(3)), {}),
    ("dot", (r(2, 3), r(3)), {}),
    ("dot", (r(2, 3), r(3, 4)), {}),
    ("dot", (r(2, 3, 4), r(5, 4, 6)), {}),
    ("dot", (r(2), np.float32(2)), {}),
    ("matmul", (r(2, 3), r(3, 4)), {}),
    ("matmul", (r(3), r(3, 4)), {}),
    ("matmul", (r(2, 3), r(3)), {}),
    ("matmul", (r(5, 2, 3), r(3, 4)), {}),
    ("matmul", (r(2, 3), r(5, 3, 4)), {}),
    ("matmul", (r(5, 1, 2, 3), r(7, 3, 4)), {}),
    ("matmul", (r(5, 2, 3), r(5, 3)[0]), {}),
    ("matmul", (r(3), r(5, 3, 4)), {}),
    ("matmul", (r(1, 2, 3), r(5, 3, 4)), {}),
    ("matmul", (r(4, 5, 2, 3), r(4, 1, 3, 2)), {}),
    ("vdot", (r(2, 3, kind="complex64"), r(2, 3, kind="complex64")), {}),
    ("inner", (r(2, 3), r(4, 3)), {}),
    ("inner", (r(3), np.float32(2)), {}),
    ("outer", (r(2, 2), r(3)), {}),
    ("tensordot", (r(2, 3, 4), r(3, 4, 5)), {}),
    ("tensordot", (r(2, 3, 4), r(4, 3, 5)), {"axes": ((1, 2), (1, 0))}),
    ("tensordot", (r(2, 3), r(4)), {"axes": 0}),
    ("vecdot", (r(2, 3, kind="complex64"), r(3, kind="complex64")), {}),
    ("kron", (r(2, 3), r(4)), {}),
    ("kron", (r(2, 3), r(2, 2)), {}),
    ("cross", (r(4, 3), r(3)), {}),
    ("cross", (r(3, 4), r(3, 4)), {"axis": 0}),
    ("matvec", (r(5, 2, 3), r(3)), {}),
    ("vecmat", (r(3, kind="complex64"), r(3, 4, kind="complex64")), {}),
]
EINSUMS = [
    ("ij,jk->ik", (r(2, 3), r(3, 4))),
    ("ii->i", (r(3, 3),)),
    ("ii", (r(3, 3),)),
    ("ij->ji", (r(2, 3),)),
    ("...ij,...jk", (r(5, 2, 3), r(3, 4))),
    ("i,j", (r(2), r(3))),
    ("ij,ij->", (r(2, 3), r(2, 3))),
    ("ab,bc,cd->ad", (r(2, 3), r(3, 4), r(4, 5))),
    ("bij,bjk->bik", (r(5, 2, 3), r(5, 3, 4))),
    ("iij->j", (r(3, 3, 2),)),
    ("ij,jj,j->i", (r(2, 3), r(3, 3), r(3))),
    ("ba", (r(2, 3),)),
    ("ij,kj", (r(2, 3), r(4, 3))),
    ("i...,i...->...", (r(3, 2), r(3, 1))),
]


def _ids(case):
    return f"{case[0]}{[np.shape(x) for x in case[1]]}"


def _close(got, want, tol=2e-5):
    np.testing.assert_allclose(np.asarray(got), want, rtol=tol, atol=tol)


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_product_is_numpys(case):
    name, xs, kwargs = case
    want = getattr(np, name)(*xs, **kwargs)
    _close(getattr(jnp, name)(*xs, **kwargs), want)
    _close(jax.jit(lambda *v: getattr(jnp, name)(*v, **kwargs))(*xs), want)
    batched = jax.vmap(lambda x: getattr(jnp, name)(x, *xs[1:], **kwargs))(
        np.stack([xs[0], 2 * xs[0]])
    )
    _close(batched, np.stack([want, np.conj(2) * want]), 5e-5)


@pytest.mark.parametrize(
    "optimize", [False, True, "greedy", "optimal", "auto", [(0, 1, 2)], [(1, 2), (0, 1)]], ids=str
)
@pytest.mark.parametrize(
    "names", ["ab,bc,cd->ad", "ab,bc,ca->", "abc,cb,a->ba", "...a,ab,...b->...", "ab,ac,ad->bcd"]
)
def test_einsum_is_the_same_in_any_order(names, optimize):
    sizes = dict(zip("abcd", (2, 3, 4, 5), strict=True))
    terms = names.replace("...", "d").partition("->")[0].split(",")
    xs = [r(*(sizes[letter] for letter in term)) for term in terms]
    _close(jnp.einsum(names, *xs, optimize=optimize), np.einsum(names, *xs))


@pytest.mark.parametrize("case", EINSUMS, ids=_ids)
def test_einsum_is_numpys(case):
    names, xs = case
    want = np.einsum(names, *xs)
    _close(jnp.einsum(names, *xs), want)
    _close(jax.jit(lambda *v: jnp.einsum(names, *v))(*xs), want)
    ct = r(*np.shape(want))
    got = jax.grad(lambda v: jnp.sum(jnp.einsum(names, v, *xs[1:]) * ct))(xs[0])
    d = r(*xs[0].shape)
    f = lambda t: float(np.sum(np.einsum(names, xs[0].astype("f8") + t * d, *xs[1:]) * ct))
    assert float(np.sum(np.asarray(got) * d)) == pytest.approx(
        (f(1e-4) - f(-1e-4)) / 2e-4, rel=2e-3, abs=2e-3
    )


@pytest.mark.parametrize("names", ["bqhd,bkhd->bhqk", "ij,jk->ki", "bij,bjk->bki", "ab,cb->ca"])
def test_einsum_takes_operands_in_the_order_that_needs_no_transposition(names):
    xs = [
        np.zeros([2 + "abcdhijkq".index(c) for c in part])
        for part in names.partition("->")[0].split(",")
    ]
    assert [
        eqn.primitive.name for eqn in jax.make_jaxpr(lambda *v: jnp.einsum(names, *v))(*xs).eqns
    ] == ["dot_general"]


@pytest.mark.parametrize("names", ["ij->i", "ij->", "ij,kl->i", "ij,kj->k", "ij,ij->", "ij,kl->il"])
@pytest.mark.parametrize(
    ("dtype", "value", "preferred"),
    [
        ("int8", 100, "int32"),
        ("int8", 100, "float32"),
        ("bool", 1, "int32"),
        ("float16", 60000, "float32"),
        ("complex64", 1 + 1j, "complex64"),
    ],
)
def test_einsum_sums_in_the_preferred_type(names, dtype, value, preferred):
    xs = [np.full((2, 3), value, dtype)] * (names.count(",") + 1)
    got = jnp.einsum(names, *xs, preferred_element_type=preferred)
    assert got.dtype == preferred
    _close(got, np.einsum(names, *[x.astype(preferred) for x in xs]))


def test_einsum_of_fractions_is_rounded_at_the_end():
    assert jnp.einsum("i->", np.full(4, 0.5, "float32"), preferred_element_type="int32") == 2


PLAIN = [
    "ij,jk->ik",
    "ii->i",
    "ii->",
    "ij->ji",
    "i,j->ij",
    "i,i->",
    "abc,acd->abd",
    "ijk->k",
    "iij,j->i",
    " i j, j -> i ",
]


@pytest.mark.parametrize("names", PLAIN)
def test_einsum_of_two_operands_does_without_a_search(names):
    """Where there is one order of products it is that of opt_einsum, which is not asked."""
    written = names.replace(" ", "")
    xs = [
        r(*["abcdijk".index(c) % 3 + 2 for c in term]) for term in written.split("->")[0].split(",")
    ]
    shapes = [x.shape for x in xs]
    _, steps = opt_einsum.contract_path(written, *shapes, shapes=True, einsum_call=True)
    assert _einsum._parsed(names, xs)[0] == written
    assert _einsum._contractions(written, shapes, "auto") == tuple(
        (tuple(step[0]), step[2]) for step in steps
    )
    np.testing.assert_allclose(jnp.einsum(names, *xs), np.einsum(names, *xs), rtol=1e-4, atol=1e-4)


def test_einsum_other_forms():
    x = r(2, 3)
    _close(jnp.einsum(x, [0, 1], [1, 0]), x.T)
    assert jnp.einsum_path("ab,bc->ac", x, x.T)[0] == [(0, 1)] and bool(
        jnp.einsum("i->", np.array([True, False]))
    )


def test_dtypes():
    i8, h, i = (
        np.array([100, 100], "int8"),
        np.array([1, 2], "float16"),
        np.arange(3, dtype="int32"),
    )
    rows = [
        (jnp.dot(i8, i8), "int8"),
        (jnp.dot(i8, h), "float16"),
        (jnp.dot(i, 2.0), "float32"),
        (jnp.dot(i, i, preferred_element_type="float32"), "float32"),
        (jnp.matmul(np.array([True]), np.array([True])), "bool"),
        (jnp.einsum("i,i", h, h, preferred_element_type="float32"), "float32"),
    ]
    for out, dtype in rows:
        assert out.dtype == dtype


@pytest.mark.parametrize(
    "call, error, match",
    [
        (
            lambda: jnp.ones((2, 3)) @ jnp.ones((2, 3)),
            TypeError,
            "contracting dimensions to have the same shape",
        ),
        (lambda: jnp.matmul(1, jnp.ones(2)), ValueError, "operand 0 must have ndim at least 1"),
        (
            lambda: jnp.matmul(jnp.ones((5, 2, 3)), jnp.ones((4, 3, 4))),
            ValueError,
            "Incompatible types for matmul",
        ),
        (lambda: jnp.dot([1, 2], 1), TypeError, "dot requires ndarray or scalar arguments"),
        (
            lambda: jnp.tensordot(jnp.ones((2, 3)), jnp.ones((2, 3)), 3),
            TypeError,
            "exceeds input ranks",
        ),
        (
            lambda: jnp.tensordot(jnp.ones(2), jnp.ones(2), 1.5),
            TypeError,
            "axes argument must be an int",
        ),
        (lambda: jnp.einsum("ij->k", jnp.ones((2, 2))), ValueError, "did not appear in the input"),
        (
            lambda: jnp.einsum("ij,jk", jnp.ones((2, 3)), jnp.ones((2, 3))),
            ValueError,
            r"Size of label 'j' for operand 1 \(2\) does not match previous terms \(3\)",
        ),
        (
            lambda: jnp.einsum("ij,jkl", jnp.ones((2, 3)), jnp.ones((3, 2))),
            ValueError,
            r"'jkl' does not .* correct number of indices for operand 1, of shape \(3, 2\)",
        ),
        (
            lambda: jnp.einsum("ij,jk,kl", jnp.ones((2, 3)), jnp.ones((3, 2))),
            ValueError,
            "Number of einsum subscripts, 3, must be equal to the number of operands, 2",
        ),
        (lambda: jnp.cross(jnp.ones(4), jnp.ones(4)), ValueError, "either 2 or 3"),
        (lambda: jnp.vecdot(jnp.ones(2), jnp.ones(3)), ValueError, "axes must match"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


FFTS = [
    ("fft", r(6), {}),
    ("fft", r(6), {"n": 4}),
    ("fft", r(3, 5), {"axis": 0, "n": 7, "norm": "ortho"}),
    ("ifft", r(6, kind="complex64"), {"norm": "forward"}),
    ("rfft", r(7), {}),
    ("irfft", r(5, kind="complex64"), {}),
    ("irfft", r(5, kind="complex64"), {"n": 7}),
    ("hfft", r(5, kind="complex64"), {}),
    ("ihfft", r(6), {}),
    ("fft2", r(2, 3, 4), {}),
    ("ifft2", r(3, 4), {}),
    ("rfft2", r(3, 4), {}),
    ("irfft2", r(3, 4, kind="complex64"), {}),
    ("fftn", r(2, 3, 4), {"axes": (0, 2)}),
    ("fftn", r(2, 2, 2, 2), {}),
    ("ifftn", r(2, 3, 2, 3), {"norm": "ortho"}),
    ("rfftn", r(2, 3, 2, 5), {}),
    ("irfftn", r(2, 3, 2, 5, kind="complex64"), {}),
    ("fftn", r(3, 4), {"s": (2, 6), "axes": (0, 1)}),
]


@pytest.mark.parametrize("case", FFTS, ids=lambda c: f"{c[0]}{c[1].shape}{c[2]}")
def test_fft_is_numpys(case):
    name, x, kwargs = case
    _close(getattr(jnp.fft, name)(x, **kwargs), getattr(np.fft, name)(x, **kwargs), 3e-5)
    _close(
        jax.vmap(lambda v: getattr(jnp.fft, name)(v, **kwargs))(np.stack([x, x])),
        np.stack([getattr(np.fft, name)(x, **kwargs)] * 2),
        3e-5,
    )


def test_fft_helpers_and_errors():
    for n in (4, 5):
        _close(jnp.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5))
        _close(jnp.fft.rfftfreq(n), np.fft.rfftfreq(n))
        _close(jnp.fft.fftshift(np.arange(n)), np.fft.fftshift(np.arange(n)))
        _close(
            jnp.fft.ifftshift(r(n, 3) * 0 + np.arange(3), axes=1),
            np.fft.ifftshift(np.zeros((n, 3)) + np.arange(3), axes=1),
        )
    for call, match in [
        (lambda: jnp.fft.fft(r(3), norm="x"), "Invalid norm value"),
        (lambda: jnp.fft.fft(r(3), 0), "Shape should be positive"),
        (lambda: jnp.fft.rfft(1j * r(3)), "only real valued inputs"),
        (lambda: jnp.fft.fftn(r(3), axes=(0, 0)), "repeated axes"),
    ]:
        with pytest.raises(ValueError, match=match):
            call()

"""Sparse arrays.

Every operation agrees with the one on the dense array, for every layout and under every
transformation.
"""

import itertools
import operator

import numpy as np
import pytest
import scipy.sparse

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental import sparse
from teucer.experimental.sparse import bcoo, bcsr

SHAPES = [(5,), (3, 4), (2, 3, 4)]


def layouts(shape):
    return [
        (n_batch, n_dense)
        for n_batch in range(len(shape) + 1)
        for n_dense in range(len(shape) + 1 - n_batch)
    ]


def of_layouts(*shapes):
    return [
        pytest.param(
            shape, *layout, marks=() if shape == (2, 3, 4) and sum(layout) < 3 else pytest.mark.slow
        )
        for shape in shapes
        for layout in layouts(shape)
    ]


LAYOUTS = of_layouts(*SHAPES)


def random_array(rng, shape, n_batch, n_dense, dtype=np.float32, nse=None):
    """Elements at places that may repeat and may be out of bounds."""
    m = len(shape) - n_dense
    sizes = shape[n_batch:m]
    nse = int(np.prod(sizes) * 0.6) + 1 if nse is None else nse
    data = rng.integers(-4, 5, (*shape[:n_batch], nse, *shape[m:])).astype(dtype)
    places = rng.integers(0, np.array(sizes) + 1, (*shape[:n_batch], nse, len(sizes)), np.int32)
    return sparse.BCOO((data, places), shape=shape)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def is_sparse(x):
    return isinstance(x, sparse.JAXSparse)


def check(sparse_fun, dense_fun, *args, gradient=True, eager=False):
    """Both agree on arrays, sparse and dense; so do the derivatives by what is stored, forwards and
    backwards."""

    def dense(*args):
        return dense_fun(*(x.todense() if is_sparse(x) else x for x in args))

    def out(*args):
        return sparse.todense(sparse_fun(*args))

    expected = jax.jit(dense)(*args)
    np.testing.assert_allclose(jax.jit(out)(*args), expected, 1e-5, 1e-5)
    if eager:
        np.testing.assert_allclose(out(*args), expected, 1e-5, 1e-5)
    if not gradient:
        return
    data = [x.data if is_sparse(x) else x for x in args]
    ct = np.cos(np.arange(expected.size).reshape(expected.shape)).astype(expected.dtype)

    def derivatives(f):
        def of_data(*data):
            full = [
                sparse.BCOO((d, x.indices), shape=x.shape) if is_sparse(x) else d
                for x, d in zip(args, data, strict=True)
            ]
            return f(*full)

        return jax.vjp(of_data, *data)[1](ct), jax.jvp(of_data, data, [np.sin(d) for d in data])[1]

    found, wanted = (jax.jit(derivatives, static_argnums=0)(f) for f in (out, dense))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)


@pytest.mark.parametrize(("shape", "n_batch", "n_dense"), LAYOUTS)
def test_dense_and_back(shape, n_batch, n_dense, rng):
    M = rng.integers(-1, 2, shape).astype(np.float32)
    mat = sparse.BCOO.fromdense(M, n_batch=n_batch, n_dense=n_dense)
    assert (mat.n_batch, mat.n_dense, mat.shape) == (n_batch, n_dense, shape)
    assert mat.indices_sorted and mat.unique_indices
    np.testing.assert_array_equal(mat.todense(), M)
    more = jax.jit(
        lambda M: sparse.BCOO.fromdense(M, nse=mat.nse + 2, n_batch=n_batch, n_dense=n_dense)
    )(M)
    assert more.nse == mat.nse + 2
    np.testing.assert_array_equal(more.todense(), M)
    np.testing.assert_array_equal(bcoo.bcoo_extract(mat, M).todense(), M)


@pytest.mark.parametrize(("shape", "n_batch", "n_dense"), LAYOUTS)
def test_order(shape, n_batch, n_dense, rng):
    mat = random_array(rng, shape, n_batch, n_dense)
    identity = lambda x: x
    check(lambda x: x.sort_indices(), identity, mat)
    check(lambda x: x.sum_duplicates(nse=x.nse + 1, remove_zeros=False), identity, mat)
    summed = mat.sum_duplicates()
    assert summed.indices_sorted and summed.unique_indices
    np.testing.assert_array_equal(summed.todense(), mat.todense())
    ordered = np.asarray(mat.sort_indices().indices).reshape(-1, mat.nse, mat.n_sparse)
    for places in ordered:
        inside = [tuple(p) for p in places if all(p < shape[n_batch : len(shape) - n_dense])]
        assert inside == sorted(inside)


@pytest.mark.parametrize(("shape", "n_batch", "n_dense"), LAYOUTS)
def test_shapes(shape, n_batch, n_dense, rng):
    mat = random_array(rng, shape, n_batch, n_dense)
    n = len(shape)
    kinds = [range(n_batch), range(n_batch, n - n_dense), range(n - n_dense, n)]
    order = [int(a) for kind in kinds for a in rng.permutation(list(kind))]
    check(lambda x: x.transpose(order), lambda x: x.transpose(order), mat)
    axes = [a for a in range(n) if a % 2 == 0]
    check(lambda x: bcoo.bcoo_rev(x, axes), lambda x: lax.rev(x, axes), mat)
    for count in range(n + 1):
        for summed in list(itertools.combinations(range(n), count))[:2]:
            check(
                lambda x: bcoo.bcoo_reduce_sum(x, axes=summed),
                lambda x: x.sum(summed),
                mat,
                gradient=False,
            )
    for axis in range(n):
        join = {"dimension": axis}
        check(
            lambda x, y: bcoo.bcoo_concatenate([x, y], **join),
            lambda x, y: lax.concatenate([x, y], axis),
            mat,
            mat,
            gradient=axis == 0,
        )
    check(lambda x: x[None], lambda x: x[None], mat)
    check(lambda x: x[:, None], lambda x: x[:, None], mat)
    target = (2, *shape)
    check(
        lambda x: bcoo.bcoo_broadcast_in_dim(x, shape=target, broadcast_dimensions=range(1, n + 1)),
        lambda x: jnp.broadcast_to(x, target),
        mat,
    )


@pytest.mark.parametrize(("shape", "n_batch", "n_dense"), LAYOUTS)
def test_slices(shape, n_batch, n_dense, rng):
    mat = random_array(rng, shape, n_batch, n_dense)
    start = [n // 3 for n in shape]
    limit = [n - (n > 3) for n in shape]
    given = {"start_indices": start, "limit_indices": limit, "strides": [2] * len(shape)}
    check(lambda x: bcoo.bcoo_slice(x, **given), lambda x: lax.slice(x, **given), mat)
    for at in ([1] * len(shape), [-1] * len(shape)):
        sizes = [max(1, n // 2) for n in shape]
        check(
            lambda x: bcoo.bcoo_dynamic_slice(x, at, sizes),
            lambda x: lax.dynamic_slice(x, at, sizes),
            mat,
        )


@pytest.mark.parametrize(
    "index",
    [
        np.index_exp[1],
        np.index_exp[-1],
        np.index_exp[1:],
        np.index_exp[::2],
        np.index_exp[..., 0],
        np.index_exp[:, 1],
        np.index_exp[np.array([2, 0])],
        np.index_exp[np.array([[1], [2]]), 0],
        np.index_exp[None, 0, np.array([[2]])],
        np.index_exp[:2, np.array([True, False, True, False])],
        np.index_exp[:, np.array([3, 1, 1])],
    ],
)
@pytest.mark.parametrize("n_batch", [0, 1, 2])
def test_indexing(index, n_batch, rng):
    mat = random_array(rng, (3, 4), n_batch, 0)
    check(lambda x: x[index], lambda x: x[index], mat)


def test_iteration(rng):
    mat = random_array(rng, (3, 4), 0, 0)
    for row, expected in zip(mat, mat.todense(), strict=True):
        np.testing.assert_array_equal(row.todense(), expected)


@pytest.mark.parametrize(("shape", "n_batch", "n_dense"), LAYOUTS)
def test_layouts(shape, n_batch, n_dense, rng):
    mat = random_array(rng, shape, n_batch, n_dense)
    for batch, dense in layouts(shape)[::2]:
        wanted = {"n_batch": batch, "n_dense": dense}
        if batch > n_batch or dense > n_dense:
            with pytest.raises(sparse.SparseEfficiencyError, match="stores many zeros"):
                mat.update_layout(**wanted)
            with pytest.warns(sparse.SparseEfficiencyWarning, match="stores many zeros"):
                mat.update_layout(**wanted, on_inefficient="warn")
        found = mat.update_layout(**wanted, on_inefficient=None)
        assert (found.n_batch, found.n_dense) == (batch, dense)
        np.testing.assert_array_equal(found.todense(), mat.todense())


@pytest.mark.parametrize(
    ("old", "new", "n_batch", "n_dense"),
    [
        ((6,), (2, 3), 0, 0),
        ((2, 3, 4), (4, 6), 0, 0),
        ((2, 6, 4), (2, 3, 8), 1, 0),
        ((4, 6), (2, 2, 3, 2), 1, 0),
        ((3, 4), (1, 3, 4, 1), 0, 0),
        ((3, 2, 4), (6, 2, 2), 0, 1),
        ((2, 3), (6,), 2, 0),
    ],
)
def test_reshape(old, new, n_batch, n_dense, rng):
    mat = random_array(rng, old, n_batch, n_dense)
    check(lambda x: x.reshape(new), lambda x: x.reshape(new), mat)
    check(lambda x: x.reshape(-1, *new[1:]), lambda x: x.reshape(-1, *new[1:]), mat, gradient=False)


def test_reshape_keeps_kinds_apart(rng):
    mat = random_array(rng, (2, 2, 3), 1, 0)
    with pytest.raises(ValueError, match="cannot mix batch and sparse dimensions"):
        mat.reshape(3, 2, 2)


def products():
    """Shapes, layouts and axes of products: every role of every kind of axis; one in five quick."""
    rng, count = np.random.default_rng(1), itertools.count()
    for shape in [(3,), (3, 2), (2, 3, 4)]:
        for n_batch, n_dense in layouts(shape):
            for roles in itertools.product("cbf", repeat=len(shape)):
                if rng.random() < 0.4 or len(shape) == 1:
                    contract = [i for i, role in enumerate(roles) if role == "c"]
                    batch = [i for i, role in enumerate(roles) if role == "b"]
                    pairs = [int(i) for i in rng.permutation(contract + batch)]
                    rhs = [shape[i] for i in pairs] + [2]
                    numbers = (
                        (contract, [pairs.index(i) for i in contract]),
                        (batch, [pairs.index(i) for i in batch]),
                    )
                    marks = pytest.mark.slow if next(count) % 6 else ()
                    yield pytest.param(shape, n_batch, n_dense, tuple(rhs), numbers, marks=marks)


@pytest.mark.parametrize(("shape", "n_batch", "n_dense", "rhs_shape", "numbers"), list(products()))
def test_products_with_dense(shape, n_batch, n_dense, rhs_shape, numbers, rng):
    mat = random_array(rng, shape, n_batch, n_dense)
    rhs = rng.integers(-4, 5, rhs_shape).astype(np.float32)
    check(
        lambda x, y: bcoo.bcoo_dot_general(x, y, dimension_numbers=numbers),
        lambda x, y: lax.dot_general(x, y, numbers),
        mat,
        rhs,
    )
    swapped = tuple(pair[::-1] for pair in numbers)
    check(
        lambda y, x: bcoo.bcoo_dot_general(y, x, dimension_numbers=swapped),
        lambda y, x: lax.dot_general(y, x, swapped),
        rhs,
        mat,
        gradient=False,
    )


@pytest.mark.parametrize(
    ("shape", "n_batch", "n_dense", "rhs_shape", "numbers"), list(products())[::6]
)
def test_sampled_products(shape, n_batch, n_dense, rhs_shape, numbers, rng):
    lhs, rhs = (rng.integers(-4, 5, s).astype(np.float32) for s in (shape, rhs_shape))
    whole = lax.dot_general(lhs, rhs, numbers)
    for batch, dense in layouts(whole.shape)[::3]:
        places = random_array(rng, whole.shape, batch, dense).indices
        check(
            lambda x, y: bcoo.bcoo_dot_general_sampled(x, y, places, dimension_numbers=numbers),
            lambda x, y: bcoo._bcoo_extract(places, lax.dot_general(x, y, numbers)),
            lhs,
            rhs,
            gradient=batch == 0,
        )


@pytest.mark.parametrize(
    ("lhs", "lhs_batch", "rhs", "rhs_batch", "numbers"),
    [
        ((5,), 0, (6,), 0, (([], []), ([], []))),
        ((5,), 0, (5,), 0, (([0], [0]), ([], []))),
        ((3, 4), 0, (4,), 0, (([1], [0]), ([], []))),
        ((3, 4), 0, (4, 5), 0, (([1], [0]), ([], []))),
        ((3, 4), 1, (3, 5), 1, (([], []), ([0], [0]))),
        ((2, 3, 4), 1, (2, 4, 5), 1, (([2], [1]), ([0], [0]))),
        ((2, 3, 4), 2, (2, 4), 1, (([2], [1]), ([], []))),
        ((2, 3, 4), 2, (3, 4), 1, (([2], [1]), ([1], [0]))),
        ((2, 3, 4, 3), 1, (2, 4, 3, 4), 1, (([2, 3], [1, 2]), ([0], [0]))),
    ],
)
def test_products_of_two_sparse(lhs, lhs_batch, rhs, rhs_batch, numbers, rng):
    x, y = random_array(rng, lhs, lhs_batch, 0), random_array(rng, rhs, rhs_batch, 0)
    check(
        lambda x, y: bcoo.bcoo_dot_general(x, y, dimension_numbers=numbers),
        lambda x, y: lax.dot_general(x, y, numbers),
        x,
        y,
    )


def test_large_products_of_two_sparse_store_each_place_once(rng):
    A, B = (
        scipy.sparse.random(3000, 2000, 0.001, random_state=i, dtype=np.float32) for i in (0, 1)
    )
    x, y = sparse.BCOO.from_scipy_sparse(A), sparse.BCOO.from_scipy_sparse(B).T
    found, expected = x @ y, (A @ B.T).tocoo()
    assert found.unique_indices and found.nse == expected.nnz
    np.testing.assert_allclose(found.todense(), expected.toarray(), 1e-4, 1e-5)
    slope = jax.grad(lambda d: (sparse.BCOO((d, x.indices), shape=x.shape) @ y).data.sum())(x.data)
    np.testing.assert_allclose(slope, np.asarray(B.sum(0)).reshape(-1)[A.tocoo().col], 1e-4, 1e-5)
    big = sparse.BCOO((jnp.ones(40000), jnp.zeros((40000, 2), int)), shape=(50000, 50000))
    with pytest.raises(sparse.SparseEfficiencyError, match="too many pairs"):
        jax.jit(operator.matmul)(big, big)


@pytest.mark.parametrize("n_batch", [0, 1])
@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul])
def test_elementwise_of_two(op, n_batch, rng):
    x, y = random_array(rng, (3, 4), n_batch, 0), random_array(rng, (3, 4), 0, 0)
    check(op, op, x, y)
    row = random_array(rng, (1, 4), 0, 0)
    if op is operator.mul:
        check(op, op, x, row)
        check(op, op, row, x)


@pytest.mark.parametrize(("shape", "n_batch", "n_dense"), LAYOUTS)
def test_products_with_dense_elements(shape, n_batch, n_dense, rng):
    mat = random_array(rng, shape, n_batch, n_dense)
    for other in ((), (1,) * len(shape), shape[-1:], shape, (*shape[:-1], 1)):
        v = rng.integers(1, 5, other).astype(np.float32)
        check(operator.mul, operator.mul, mat, v)
        check(lambda v, x: v * x, lambda v, x: v * x, v, mat, gradient=False)
        check(operator.truediv, operator.truediv, mat, v, gradient=False)


def test_products_with_rows_do_not_make_a_dense_matrix():
    n = 100_000
    mat = sparse.eye(n)
    doubled = mat * jnp.full(n, 2.0)
    np.testing.assert_array_equal(doubled.data, np.full(n, 2.0))


def test_convolution(rng):
    for strides, padding, dilation in [
        ((1,), "SAME", (1,)),
        ((2,), "VALID", (1,)),
        ((1,), [(3, 2)], (2,)),
    ]:
        given = {"window_strides": strides, "padding": padding, "rhs_dilation": dilation}
        x, y = random_array(rng, (2, 3, 7), 2, 0), random_array(rng, (4, 3, 3), 0, 0)
        check(
            lambda x, y: bcoo.bcoo_conv_general_dilated(x, y, **given),
            lambda x, y: lax.conv_general_dilated(x, y, **given),
            x,
            y,
        )


def test_operators(rng):
    mat = random_array(rng, (3, 4), 0, 0)
    v = rng.standard_normal(4).astype(np.float32)
    check(lambda x: -x, lambda x: -x, mat)
    check(abs, abs, mat, gradient=False)
    check(lambda x: x**2, lambda x: x**2, mat)
    check(lambda x: x / 2, lambda x: x / 2, mat)
    check(lambda x: 3 * x, lambda x: 3 * x, mat)
    check(operator.matmul, operator.matmul, mat, v)
    check(lambda x: x.T, lambda x: x.T, mat)
    check(lambda x: x.sum(0), lambda x: x.sum(0), mat)
    check(lambda x: x.astype(int), lambda x: x.astype(int), mat, gradient=False)
    assert (mat > 0).dtype == bool
    np.testing.assert_array_equal((mat > 0).todense(), mat.todense() > 0)
    for dense in (lambda: mat + 1.0, lambda: mat >= 0, lambda: mat == mat, lambda: 1 / mat):
        with pytest.raises(NotImplementedError, match="dense|todense"):
            dense()


@pytest.mark.parametrize("cls", [sparse.BCSR, sparse.COO, sparse.CSR, sparse.CSC])
def test_formats(cls, rng):
    M = rng.integers(-1, 2, (3, 4)).astype(np.float32)
    mat = cls.fromdense(M)
    assert repr(mat) == f"{cls.__name__}(float32[3, 4], nse={np.count_nonzero(M)})"
    v, B = np.arange(4, dtype=np.float32), np.arange(8, dtype=np.float32).reshape(4, 2)
    for f in (
        lambda x: x @ v,
        lambda x: x @ B,
        lambda x: B.T[:, :3] @ x,
        lambda x: x.T,
        lambda x: -x,
        lambda x: 2 * x,
        lambda x: x + x,
        lambda x: x * x,
        lambda x: x.sum(0),
        lambda x: x[1],
        lambda x: x / 2,
    ):
        for g in (f, jax.jit(f)):
            np.testing.assert_allclose(sparse.todense(g(mat)), f(M), 1e-6)
    leaves, tree = jax.tree.flatten(mat)
    assert len(leaves) == 3
    again = jax.tree.unflatten(tree, leaves)
    np.testing.assert_array_equal(again.todense(), M)
    name = cls.__name__.lower()
    np.testing.assert_array_equal(
        sparse.eye(3, 4, -1, sparse_format=name).todense(), np.eye(3, 4, -1)
    )
    assert sparse.empty((3, 4), sparse_format=name).nse == 0
    with pytest.raises(TypeError, match="unhashable"):
        hash(mat)


def test_bcsr_by_way_of_bcoo(rng):
    for n_batch, n_dense, shape in [
        (0, 0, (3, 4)),
        (1, 0, (2, 3, 4)),
        (0, 1, (3, 4, 2)),
        (1, 1, (2, 3, 4, 2)),
    ]:
        M = rng.integers(-1, 2, shape).astype(np.float32)
        mat = sparse.BCSR.fromdense(M, n_batch=n_batch, n_dense=n_dense)
        np.testing.assert_array_equal(mat.todense(), M)
        np.testing.assert_array_equal(mat.to_bcoo().todense(), M)
        np.testing.assert_array_equal(sparse.BCSR.from_bcoo(mat.to_bcoo()).indptr, mat.indptr)
        np.testing.assert_array_equal(
            bcsr.bcsr_concatenate([mat, mat], dimension=n_batch).todense(),
            np.concatenate([M, M], n_batch),
        )
        np.testing.assert_array_equal(bcsr.bcsr_extract(mat.indices, mat.indptr, M), mat.data)


def test_vmap_maps_over_batch_dimensions(rng):
    mat = random_array(rng, (3, 4, 5), 1, 0)
    v = rng.standard_normal((3, 5)).astype(np.float32)

    def f(x, v):
        assert (x.shape, x.n_batch) == ((4, 5), 0)
        return x @ v, 2 * x

    calls = (
        lambda: jax.vmap(f)(mat, v),
        lambda: jax.vmap(f)(x=mat, v=v),
        lambda: jax.vmap(f)(mat, v=v),
        lambda: jax.vmap(lambda v, *, x: f(*x, v))(v, x=[mat]),
    )
    for call in calls:  # by position and by name
        product, doubled = call()
        assert (doubled.shape, doubled.n_batch) == ((3, 4, 5), 1)
        np.testing.assert_allclose(product, np.einsum("bij,bj->bi", mat.todense(), v), 1e-5)
        np.testing.assert_array_equal(doubled.todense(), 2 * mat.todense())
    columns = jax.vmap(lambda v: random_array(rng, (4, 5), 0, 0) @ v, out_axes=1)(v)
    assert columns.shape == (4, 3)


def test_scipy(rng):
    M = scipy.sparse.random(6, 5, 0.4, random_state=0, dtype=np.float32)
    for form in ("coo", "csr", "csc"):
        for cls in (sparse.BCOO, sparse.BCSR):
            np.testing.assert_array_equal(
                cls.from_scipy_sparse(M.asformat(form)).todense(), M.toarray()
            )


def test_random_bcoo():
    key = jax.random.key(0)
    mat = sparse.random_bcoo(key, (4, 5, 6), nse=0.3, n_batch=1, sorted_indices=True)
    assert (mat.nse, mat.n_batch, mat.dtype) == (9, 1, np.float32)
    flat = np.asarray(mat.indices) @ [6, 1]
    assert (np.diff(flat, axis=1) > 0).all()
    with pytest.raises(ValueError, match="more than there are places"):
        sparse.random_bcoo(key, (3,), nse=4)


@pytest.mark.parametrize(
    ("data", "indices", "shape", "error", "match"),
    [
        (np.ones(2), np.zeros((2, 1)), (3,), TypeError, r"indices must be integers"),
        (np.ones(2), np.zeros(2, int), (3,), ValueError, r"indices must have at least two axes"),
        (np.ones(3), np.zeros((2, 1), int), (3,), ValueError, r"Invalid data.shape"),
        (np.ones(2), np.zeros((2, 2), int), (3,), ValueError, r"Invalid indices.shape"),
        (np.ones((2, 1)), np.zeros((3, 1, 1), int), (3, 4), ValueError, r"data batch dimensions"),
    ],
)
def test_bcoo_checks_its_buffers(data, indices, shape, error, match):
    with pytest.raises(error, match=f"(?s){match}"):
        sparse.BCOO((data, indices), shape=shape)


def test_numbers_that_must_be_known():
    M = jnp.eye(3)
    with pytest.raises(jax.errors.ConcretizationTypeError, match="nse"):
        jax.jit(sparse.BCOO.fromdense)(M)
    with pytest.raises(jax.errors.ConcretizationTypeError, match="nse"):
        jax.jit(lambda x: x.sum_duplicates())(sparse.eye(3))


@pytest.mark.parametrize("dense_row", [False, True])
@pytest.mark.parametrize(
    ("dtype", "columns"),
    [(np.float32, ()), (np.float32, (3,)), (np.complex64, (3,)), (np.float16, ())],
)
def test_products_by_rows(dtype, columns, dense_row, rng):
    """Of rows of like length all are gone through at a time; where one is far longer, elements
    are."""
    A = rng.integers(-2, 3, (300, 200)) * (rng.random((300, 200)) < 0.02)
    if dense_row:
        A[7] = 1
    A = A.astype(dtype)
    mat = sparse.BCSR.fromdense(A, nse=int((A != 0).sum()) + 3)
    x = rng.integers(-3, 4, (200, *columns)).astype(dtype)
    np.testing.assert_allclose(mat @ x, A @ x, 1e-3)
    if dtype is np.float32:
        loss = lambda d, x: (sparse.BCSR((d, mat.indices, mat.indptr), shape=mat.shape) @ x).sum()
        slope = jax.grad(loss, 1)(mat.data, x)
        np.testing.assert_allclose(
            slope, np.broadcast_to(A.sum(0).reshape(-1, *(1,) * len(columns)), x.shape), 1e-4
        )


def test_products_of_nothing():
    np.testing.assert_array_equal(
        sparse.empty((3, 4), sparse_format="bcsr") @ np.ones(4), np.zeros(3)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("columns", [(), (3,)])
def test_products_of_bcsr_are_those_of_scipy(rng, dtype, columns):
    matrix = scipy.sparse.random_array((30, 20), density=0.2, format="csr", rng=rng).astype(dtype)
    mat, x = (
        sparse.BCSR.from_scipy_sparse(matrix),
        rng.standard_normal((20, *columns)).astype(dtype),
    )
    for product in (operator.matmul, jax.jit(operator.matmul)):
        np.testing.assert_allclose(product(mat, x), matrix @ x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [(), (2,)])
def test_places_outside_of_a_bcsr_array_are_padding(columns):
    """In the products too that a kernel computes, which would read beyond its operands."""
    indices, indptr = np.array([0, 4, 10**9], np.int32), np.array([0, 1, 3, 900], np.int32)
    x = np.full((4, *columns), 2, np.float32)
    mat = sparse.BCSR((jnp.ones(3), jnp.array(indices), jnp.array(indptr)), shape=(3, 4))
    expected = np.zeros((3, *columns))
    expected[0] = 2
    np.testing.assert_array_equal(jax.jit(operator.matmul)(mat, x), expected)


def test_a_product_by_the_kernel_is_exported_and_read_back(rng):
    mat, x = (
        sparse.BCSR.from_scipy_sparse(scipy.sparse.eye_array(3, format="csr", dtype=np.float32)),
        np.ones((3, 2), np.float32),
    )

    @jax.jit
    def product(data, x):
        return sparse.BCSR((data, mat.indices, mat.indptr), shape=mat.shape) @ x

    exported = jax.export.export(product)(mat.data, x)
    np.testing.assert_array_equal(jax.export.deserialize(exported.serialize()).call(mat.data, x), x)


@pytest.mark.parametrize("kind", [sparse.COO, sparse.CSR, sparse.CSC])
def test_matrices_are_transposed_by_any_permutation_of_their_axes(kind):
    dense = np.float32([[0, 2, 0], [1, 0, 4]])
    mat = kind.fromdense(dense)
    for axes in (None, (1, 0), (0, 1), (-1, -2), [np.int32(0), 1]):
        expected = dense.transpose(axes)
        np.testing.assert_array_equal(mat.transpose(axes).todense(), expected)
    for axes in ((0, 0), (0,), (0, 2), (0, 1, 2)):
        with pytest.raises(ValueError, match=r"transpose: axes must be a permutation.*\n  Leave"):
            mat.transpose(axes)
    with pytest.raises(NotImplementedError, match=r"one axis or two.*\n  Map over .*jax\.vmap"):
        mat @ np.ones((2, 3, 3), np.float32)

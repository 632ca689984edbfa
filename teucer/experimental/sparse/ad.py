"""Derivatives with regard to sparse arrays: with regard to their stored elements."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._base.lazy import listing, refusing
from teucer._core.calls import as_indices, is_index
from teucer._derived import jacobians
from teucer._sparse.base import JAXSparse
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcsr_array import BCSR
from teucer._sparse.jacobians import sparse_hessian, sparse_jacobian
from teucer._transform import reverse
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Value

__all__ = [
    "flatten_fun_for_sparse_ad", "grad", "hessian", "is_sparse", "jacfwd", "jacobian", "jacrev",
    "value_and_grad",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


def is_sparse(x: object) -> bool:
    """Whether x is a sparse array."""
    return isinstance(x, JAXSparse)


def flatten_fun_for_sparse_ad(
    fun: Callable[..., object], argnums: Any, args: Sequence[Any]
) -> tuple[Callable[..., Any], Any, list[Any], Callable[[Any], Any]]:
    """A function of the data of sparse arguments, the arguments to differentiate, and a function
    that makes derivatives sparse arrays.

    Returns (fun_flat, argnums, args_flat, postprocess): in the arguments of args_flat that argnums
    names, each sparse array is its data; postprocess makes sparse arrays of derivatives by them.
    """
    single = is_index(argnums)
    positions = [i % len(args) for i in as_indices(argnums, "argnums", "grad")]
    trees = {i: pytrees.tree_flatten(args[i], is_leaf=is_sparse) for i in positions}
    given = [
        pytrees.tree_unflatten(trees[i][1], [x.data if is_sparse(x) else x for x in trees[i][0]])
        if i in trees
        else x
        for i, x in enumerate(args)
    ]

    def restored(i: int, leaves: Sequence[Value]) -> Any:
        originals, tree = trees[i]
        return pytrees.tree_unflatten(
            tree,
            [
                _with_data(x, y) if is_sparse(x) else y
                for x, y in zip(originals, leaves, strict=True)
            ],
        )

    @functools.wraps(fun)
    def fun_flat(*flat: Value, **kwargs: object) -> Any:
        return fun(
            *(
                restored(i, trees[i][1].flatten_up_to(x)) if i in trees else x
                for i, x in enumerate(flat)
            ),
            **kwargs,
        )

    def postprocess(found: Any) -> Any:
        """Derivatives, in the tree of the arguments, of one output."""
        whole = (found,) if single else tuple(found)
        outs = [
            restored(i, trees[i][1].flatten_up_to(x)) for i, x in zip(positions, whole, strict=True)
        ]
        return outs[0] if single else tuple(outs)

    return fun_flat, argnums, given, postprocess


def _with_data(x: Any, data: Any) -> Any:
    """A sparse array with other data. Data of a Jacobian have the axes of an output in front; these
    become batch dimensions."""
    bufs, aux = x.tree_flatten()
    extra = np.ndim(data) - np.ndim(bufs[0])
    if extra <= 0:
        return type(x).tree_unflatten(aux, (data, *bufs[1:]))
    if not isinstance(x, BCOO | BCSR):
        raise NotImplementedError(
            f"Jacobian with regard to a sparse array of the format {type(x).__name__}: those of "
            "BCOO and BCSR are supported."
        )
    batch = np.shape(data)[:extra]
    rest = [jnp.broadcast_to(b, (*batch, *b.shape)) for b in bufs[1:]]
    return type(x).tree_unflatten({**aux, "shape": (*batch, *x.shape)}, (data, *rest))


def value_and_grad(
    fun: Callable[..., object], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """As `jax.value_and_grad`; the derivative by a sparse array is one with the same places.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.value_and_grad(lambda X, y: X @ y)(sparse.BCOO.fromdense(jnp.arange(6.)),
    ...     jnp.ones(6))
    (Array(15., dtype=float32), BCOO(float32[6], nse=5))
    """

    @tracebacks.boundary_of(fun)
    def value_and_grad_fun(*args: object, **kw: Any) -> Any:
        flat, numbers, given, postprocess = flatten_fun_for_sparse_ad(fun, argnums, args)
        value, found = reverse.value_and_grad(flat, numbers, has_aux=has_aux, **kwargs)(
            *given, **kw
        )
        return value, postprocess(found)

    return value_and_grad_fun


def grad(
    fun: Callable[..., object], argnums: Any = 0, has_aux: bool = False, **kwargs: object
) -> Callable[..., Any]:
    """As `jax.grad`; the derivative by a sparse array is one with the same places.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.grad(lambda X, y: X @ y)(sparse.BCOO.fromdense(jnp.arange(6.)), jnp.ones(6))
    BCOO(float32[6], nse=5)
    """
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @tracebacks.boundary_of(fun)
    def grad_fun(*args: object, **kw: object) -> Any:
        value, found = both(*args, **kw)
        return (found, value[1]) if has_aux else found

    return grad_fun


def _jacobian(
    dense: Callable[..., Any],
    fun: Callable[..., object],
    argnums: object,
    has_aux: bool,
    kwargs: dict[str, Any],
) -> Any:
    @tracebacks.boundary_of(fun)
    def jacobian_fun(*args: object, **kw: Any) -> Any:
        flat, numbers, given, postprocess = flatten_fun_for_sparse_ad(fun, argnums, args)
        trees: list[Any] = []

        def watched(*args: object, **kw: object) -> Any:
            out = flat(*args, **kw)
            trees[:] = [pytrees.tree_structure(out[0] if has_aux else out)]
            return out

        found = dense(watched, numbers, has_aux=has_aux, **kwargs)(*given, **kw)
        blocks, aux = found if has_aux else (found, None)
        outs = pytrees.tree_unflatten(
            trees[0], [postprocess(block) for block in trees[0].flatten_up_to(blocks)]
        )
        return (outs, aux) if has_aux else outs

    return jacobian_fun


def jacfwd(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    sparse: bool = False,
    **kwargs: object,
) -> Callable[..., Any]:
    """As `jax.jacfwd`; the derivative by a sparse array has its places, and the axes of the output
    as batch dimensions.

    sparse: whether the Jacobian itself shall be sparse, by dense arguments: a BCOO array for each
        output and argument. Which elements are not zero is found from the program, and columns that
        share no element are computed together.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.jacfwd(lambda X: X @ jnp.ones(2))(sparse.eye(2))
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    if sparse:
        return sparse_jacobian(fun, argnums, has_aux, True, **kwargs)
    return _jacobian(jacobians.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    sparse: bool = False,
    **kwargs: object,
) -> Callable[..., Any]:
    """As `jax.jacrev`; the derivative by a sparse array has its places, and the axes of the output
    as batch dimensions.

    sparse: whether the Jacobian itself shall be sparse, by dense arguments: a BCOO array for each
        output and argument. Which elements are not zero is found from the program, and rows that
        share no element are computed together.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.jacrev(lambda X: X @ jnp.ones(2))(sparse.eye(2))
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    if sparse:
        return sparse_jacobian(fun, argnums, has_aux, False, **kwargs)
    return _jacobian(jacobians.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev


def hessian(
    fun: Callable[..., object], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The Hessian of a function of dense arrays as BCOO arrays: as `jax.hessian(sparse=True)`.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> sparse.ad.hessian(lambda x: jnp.sum(x**3))(jnp.arange(3.0))
    BCOO(float32[3, 3], nse=3)
    """
    return sparse_hessian(fun, argnums, has_aux)

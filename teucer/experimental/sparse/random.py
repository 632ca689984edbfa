"""Random sparse arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer import random as jax_random
from teucer._base import dtypes, tracebacks
from teucer._base.lazy import listing
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.util import split_shape
from teucer._transform.vmap import vmap

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike

__all__ = ["random_bcoo"]
__dir__ = listing(__name__, __all__)


@tracebacks.api_boundary
def random_bcoo(
    key: object,
    shape: Sequence[int],
    *,
    dtype: DTypeLike = jnp.float64,
    indices_dtype: object = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., object] = jax_random.uniform,
    **kwds: object,
) -> BCOO:
    """A BCOO array with random elements at random places.

    nse: how many elements each batch element stores, or which share of its places if 0 < nse < 1.
    n_batch, n_dense: the layout.
    unique_indices: whether no place comes twice. sorted_indices: whether places are in
    lexicographic order.
    generator: generator(key, shape=..., dtype=..., **kwds) makes the elements.
    Raises ValueError for numbers that do not fit.

    >>> from teucer import random
    >>> from teucer.experimental import sparse
    >>> sparse.random_bcoo(random.key(0), (4, 5), nse=3)
    BCOO(float32[4, 5], nse=3)
    """
    shape = tuple(operator.index(n) for n in shape)
    n_sparse = len(shape) - n_batch - n_dense
    if n_batch < 0 or n_dense < 0 or n_sparse < 0:
        raise ValueError(f"Invalid n_batch={n_batch}, n_dense={n_dense} for shape={shape}.")
    batch, sparse, dense = split_shape(shape, n_batch, n_sparse)
    places = math.prod(sparse)
    if nse < 0 or (nse >= 1 and nse != int(nse)):
        raise ValueError(f"got nse={nse}, expected a natural number or a share between 0 and 1.")
    count = math.ceil(nse * places) if 0 < nse < 1 else int(nse)
    if unique_indices and count > places:
        raise ValueError(f"random_bcoo: nse={count} is more than there are places, {places}.")
    dtype = dtypes.canonicalize_dtype(dtype)
    kind = dtypes.canonicalize_dtype(indices_dtype or np.int32)
    if not dtypes.issubdtype(kind, np.integer):
        raise ValueError(
            f"random_bcoo: indices_dtype must be an integer type, got {indices_dtype}."
        )
    key_data, key_indices = jax_random.split(key)

    def indices(key: Any) -> Any:
        if not sparse:
            return jnp.zeros((count, 0), kind)
        flat = jax_random.choice(key, places, shape=(count,), replace=not unique_indices).astype(
            np.int32
        )
        flat = jnp.sort(flat) if sorted_indices else flat
        return jnp.stack(jnp.unravel_index(flat, sparse), 1).astype(kind)

    n = math.prod(batch)
    found = (
        vmap(indices)(jax_random.split(key_indices, n))
        if n
        else jnp.zeros((0, count, n_sparse), kind)
    )
    data = generator(key_data, shape=(*batch, count, *dense), dtype=dtype, **kwds)
    return BCOO(
        (data, found.reshape(*batch, count, n_sparse)),
        shape=shape,
        indices_sorted=sorted_indices,
        unique_indices=unique_indices,
    )

"""The two steps of JAX's einsum that aqt calls: the order of products, and the products.

A function in the place of `lax.dot_general` computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import opt_einsum

from teucer import lax
from teucer import numpy as jnp
from teucer.numpy._einsum_products import products

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike


def _default_poly_einsum_handler(*operands: object, **options: object) -> tuple[list[Any], Any]:
    """The operands, and the products as opt_einsum orders them (with `einsum_call=True`)."""
    given = [x for x in operands if hasattr(x, "shape")]
    stand_ins = [
        np.broadcast_to(np.int8(0), x.shape) if hasattr(x, "shape") else x for x in operands
    ]
    return given, opt_einsum.contract_path(*stand_ins, **options)[1]


def _einsum(
    operands: Sequence[Array],
    contractions: Iterable[tuple[Sequence[int], object, str]],
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Callable[..., Array] = lax.dot_general,
) -> Array:
    """The products in their order."""
    return products(
        operands,
        [(places, subscripts) for places, _, subscripts in contractions],
        _dot_general,
        jnp.result_type(*operands) if preferred_element_type is None else preferred_element_type,
        precision=precision,
    )

"""NaNs and infinities in results, for the options jax_debug_nans and jax_debug_infs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._arrays.parts import held_values
from teucer._base import config, dtypes


def check_finite(outs: Sequence[ArrayImpl], name: str) -> None:
    """Raise FloatingPointError for a NaN or infinity, as the options ask; of arrays over several
    processes each looks at its own parts."""
    if not (config.debug_nans.value or config.debug_infs.value):
        return
    for out in outs:
        if not dtypes.issubdtype(out.dtype, np.inexact):
            continue
        value = held_values(out).astype(np.complex128 if out.dtype.kind == "c" else np.float64)
        for asked, bad, word in (
            (config.debug_nans.value, np.isnan, "nan"),
            (config.debug_infs.value, np.isinf, "inf"),
        ):
            if asked and bad(value).any():
                raise FloatingPointError(
                    f"invalid value ({word}) encountered in {name}\n    result: {out.aval}"
                )

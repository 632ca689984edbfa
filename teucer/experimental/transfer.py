"""Arrays sent from one program to another. This is not built."""

from typing import TYPE_CHECKING

from teucer._base.lazy import listing, refusing
from teucer._experimental.unbuilt import unbuilt

__all__ = ["TransferConnection", "TransferServer", "make_error_array", "start_transfer_server"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

_REASON = (
    "arrays are not sent between programs that are not of one job.\n  Processes of one job share "
    "arrays: jax.distributed.initialize."
)
TransferConnection, TransferServer, make_error_array, start_transfer_server = (
    unbuilt(f"jax.experimental.transfer.{name}", _REASON) for name in __all__
)

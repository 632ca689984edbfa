"""Errors that nobody catches, as Python and IPython print them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any


def watch(treat: Callable[[BaseException], None]) -> None:
    """Have errors treated before they are printed: by Python, and by IPython where it runs.

    A shell whose user handles exceptions otherwise keeps its handler.
    """
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], err: BaseException, traceback: TracebackType | None
    ) -> None:
        treat(err)
        previous(kind, err, err.__traceback__)

    sys.excepthook = hook
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or shell.custom_exceptions:
        return

    def show(
        shell: Any,
        kind: type[BaseException],
        err: BaseException,
        traceback: TracebackType | None,
        tb_offset: int | None = None,
    ) -> None:
        treat(err)
        shell.showtraceback((kind, err, err.__traceback__), tb_offset=tb_offset)

    shell.set_custom_exc((Exception,), show)

"""Which part of the log goes to stderr: the options jax_logging_level and jax_debug_log_modules."""

from __future__ import annotations

import logging

_logged: list[str] = []


def _to_stderr() -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(levelname)s:%(asctime)s:%(name)s:%(lineno)d: %(message)s")
    )
    return handler


_of_level, _of_modules = _to_stderr(), _to_stderr()


def set_level(level: str | None) -> None:
    """Send messages of this level and above to stderr; NOTSET and None change nothing."""
    logger = logging.getLogger("teucer")
    logger.setLevel(level or "NOTSET")
    logger.removeHandler(_of_level)
    if level not in (None, "NOTSET"):
        logger.addHandler(_of_level)


def set_debug_modules(modules: str) -> None:
    """Send the debug log of the modules named, and of no others, to stderr."""
    for name in _logged:
        logging.getLogger(name).removeHandler(_of_modules)
        logging.getLogger(name).setLevel(logging.NOTSET)
    _logged[:] = [name.strip() for name in modules.split(",") if name.strip()]
    for name in _logged:
        logging.getLogger(name).addHandler(_of_modules)
        logging.getLogger(name).setLevel(logging.DEBUG)

"""Installs the finder of `teucer_as_jax`, then runs the sitecustomize that this file stands before,
if there is one."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

importlib.import_module("teucer_as_jax")
_OTHERS = [
    entry
    for entry in sys.path
    if os.path.abspath(entry) != os.path.dirname(os.path.abspath(__file__))
]
_spec = PathFinder.find_spec("sitecustomize", _OTHERS)
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)

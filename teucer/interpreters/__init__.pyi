# Made by tools/stubs.py from the tables of this module.
from teucer.interpreters import ad as ad
from teucer.interpreters import batching as batching
from teucer.interpreters import mlir as mlir
from teucer.interpreters import partial_eval as partial_eval
from teucer.interpreters import pxla as pxla
from teucer.interpreters import xla as xla

# Made by tools/stubs.py from the tables of this module.
from teucer._core.reference_types import RefType as _AbstractRef
from teucer._dialects.references.cells import Ref as Ref
from teucer.numpy._references import At as _RefIndexer
from teucer.numpy._references import View as _TransformedRef
from teucer.numpy._references import addupdate as addupdate
from teucer.numpy._references import empty_ref as empty_ref
from teucer.numpy._references import free_ref as free_ref
from teucer.numpy._references import freeze as freeze
from teucer.numpy._references import get as get
from teucer.numpy._references import new_ref as new_ref
from teucer.numpy._references import set as set
from teucer.numpy._references import swap as swap

AbstractRef = _AbstractRef
RefIndexer = _RefIndexer
TransformedRef = _TransformedRef

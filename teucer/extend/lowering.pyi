# Made by tools/stubs.py from the tables of this module.
from teucer._jax.module_context import LoweringRuleContext as LoweringRuleContext
from teucer._xla.mlir import JaxIrContext as JaxIrContext
from teucer._xla.mlir import upstream_dialects as upstream_dialects

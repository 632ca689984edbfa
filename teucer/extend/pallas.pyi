# Made by tools/stubs.py from the tables of this module.
from teucer._jax.unbuilt import GridMapping as GridMapping
from teucer._jax.unbuilt import register_lowering_rule as register_lowering_rule

# Made by tools/stubs.py from the tables of this module.
from teucer._jax.passes import PipelineStage as PipelineStage
from teucer._jax.passes import clear_hlo_module_transformation as clear_hlo_module_transformation
from teucer._jax.passes import register_hlo_module_transformation as register_hlo_module_transformation

# Made by tools/stubs.py from the tables of this module.
from teucer._jax.batching import axis_primitive_batchers as axis_primitive_batchers
from teucer._jax.batching import bdim_at_front as bdim_at_front
from teucer._jax.batching import broadcast as broadcast
from teucer._jax.batching import defbroadcasting as defbroadcasting
from teucer._jax.batching import defreducer as defreducer
from teucer._jax.batching import defvectorized as defvectorized
from teucer._jax.batching import fancy_primitive_batchers as fancy_primitive_batchers
from teucer._jax.batching import primitive_batchers as primitive_batchers
from teucer._jax.batching import register_vmappable as register_vmappable
from teucer._jax.batching import unregister_vmappable as unregister_vmappable
from teucer._transform.vmap import INFERRED as _infer

infer = _infer

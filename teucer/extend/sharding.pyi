# Made by tools/stubs.py from the tables of this module.
from teucer._devices.chosen import GSPMDSharding as GSPMDSharding
from teucer._jax.protos import get_hlo_sharding_from_serialized_proto as get_hlo_sharding_from_serialized_proto
from teucer._jax.protos import get_op_sharding_from_serialized_proto as get_op_sharding_from_serialized_proto
from teucer._jax.protos import get_serialized_proto_from_hlo_sharding as get_serialized_proto_from_hlo_sharding

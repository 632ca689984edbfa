# Made by tools/stubs.py from the tables of this module.
from teucer.extend import backend as backend
from teucer.extend import core as core
from teucer.extend import ifrt_programs as ifrt_programs
from teucer.extend import linear_util as linear_util
from teucer.extend import lowering as lowering
from teucer.extend import mlir as mlir
from teucer.extend import random as random
from teucer.extend import sharding as sharding
from teucer.extend import source_info_util as source_info_util
from teucer.extend import xla as xla

# Made by tools/stubs.py from the tables of this module.
from teucer._check.check import check as check
from teucer._derived.communication.collect import communication as communication
from teucer._plan.plan import plan as plan
from teucer._plan.search import plan_search as plan_search
from teucer.debug._compiles import compiles as compiles
from teucer.debug._effects import DebugEffect as DebugEffect
from teucer.debug._effects import OrderedDebugEffect as OrderedDebugEffect
from teucer.debug._explain import explain as explain
from teucer.debug._memory import memory as memory
from teucer.debug._printing import log as log
from teucer.debug._printing import print as print
from teucer.debug._shardings import inspect_array_sharding as inspect_array_sharding
from teucer.debug._shardings import visualize_array_sharding as visualize_array_sharding
from teucer.debug._shardings import visualize_sharding as visualize_sharding
from teucer.debug._show import show as show
from teucer.lax._breakpoints import breakpoint as breakpoint
from teucer.lax._callbacks import debug_callback as _callback

callback = _callback

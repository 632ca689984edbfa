"""Looking into programs: while they run, and as compiled."""

from __future__ import annotations

from teucer._base.lazy import lazy_module

_SOURCES = {
    "teucer._check.check": "check",
    "teucer._derived.communication.collect": "communication",
    "teucer._plan.plan": "plan",
    "teucer._plan.search": "plan_search",
    "teucer.debug._compiles": "compiles",
    "teucer.debug._effects": "DebugEffect OrderedDebugEffect",
    "teucer.debug._explain": "explain",
    "teucer.debug._memory": "memory",
    "teucer.debug._printing": "log print",
    "teucer.debug._shardings": "inspect_array_sharding visualize_array_sharding visualize_sharding",
    "teucer.debug._show": "show",
    "teucer.lax._breakpoints": "breakpoint",
    "teucer.lax._callbacks": "callback=debug_callback",
}
__getattr__, __dir__, __all__ = lazy_module(__name__, _SOURCES)

"""Library functions built of several primitives.

One program when called eagerly, inlined when traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from teucer._core.calls import static_by_name
from teucer._core.stand_ins import has_stand_in, plain_classes, stood_in
from teucer._core.trace import EVAL, current_trace
from teucer._transform.dispatching import dispatching
from teucer._transform.jit import call_jitted
from teucer._transform.jit_options import JitOptions
from teucer._transform.templates import Templates

F = TypeVar("F", bound=Callable[..., Any])


@overload
def library(fun: F, /) -> F: ...
@overload
def library(*, static: Sequence[str] = ()) -> Callable[[F], F]: ...
def library(fun: Callable[..., object] | None = None, /, *, static: Sequence[str] = ()) -> Any:
    """Make a function of arrays a library function; also a decorator.

    static: names of the parameters that are hashable Python values (axes, shapes, dtypes, modes).
    Called eagerly it is compiled as one program, which C++ then calls; under any transformation it
    is plain Python.
    """
    if fun is None:
        return functools.partial(library, static=static)
    nums, names = static_by_name(fun, None, tuple(static), "static")
    options, templates = JitOptions(nums, names, inline=True), Templates(fun)

    def cache_miss(*args: object, **kwargs: object) -> tuple[Any, Any]:
        for x in (*args, *kwargs.values()):
            if type(x) not in plain_classes and has_stand_in(x):
                args, kwargs = stood_in(args, kwargs)
                # C++ would take the leaves of such an object for the array: no program for it.
                return cache_miss(*args, **kwargs)[0], None
        trace = current_trace()
        if trace is not EVAL:
            return templates.call(trace, args, kwargs), None
        return call_jitted(fun, options, args, kwargs)

    def plain(*args: object, **kwargs: object) -> Any:
        operands, options = stood_in(args, kwargs)
        return fun(*operands, **options)

    plain.__wrapped__ = fun  # type: ignore[attr-defined]  # the signature that C++ says
    return dispatching(fun, options, cache_miss, plain=plain)

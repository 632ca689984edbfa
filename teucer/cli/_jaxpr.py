"""`teucer jaxpr FILE:FUNCTION --args TYPES`.

The jaxpr of a function for arguments of the given types.
"""

import teucer as jax
from teucer._base import config
from teucer._core.jaxpr import Jaxpr, subjaxprs
from teucer._optimize.passes import PASSES, Pass
from teucer._optimize.structure import structural_key
from teucer._targets.table import target_of
from teucer._transform.jit_calls import hoist_consts
from teucer.cli._arguments import read_call


def jaxpr(target: str, types: str, *, mesh: str | None = None, passes: bool) -> int:
    """Print the jaxpr of target, FILE:FUNCTION, on arguments of the given types, such as
    'f32[3,4],i32[]'.

    passes: also the jaxpr after each pass before it is lowered.
    """
    function, args, kwargs = read_call(target, types, mesh=mesh)
    closed = jax.make_jaxpr(function)(*args, **kwargs)
    if passes:
        _print_passes(hoist_consts(closed.jaxpr).jaxpr)
    else:
        print(closed)
    return 0


def _print_passes(program: Jaxpr) -> None:
    """Print a program, and again after each pass that changes it; constants are its first
    arguments."""
    print(f"traced: {_count(program)}\n{program}")
    outline = Pass(
        "outline what repeats",
        lambda jaxpr: target_of(jax.default_backend()).prepare(jaxpr, config.outline.value),
    )
    for whole in (*PASSES, outline):
        for one in (*whole.parts, whole):
            after = one.apply(program)
            if structural_key(after) != structural_key(program):
                print(f"\n{one.name}: {_count(after)}\n{after}")
                program = after


def _count(program: Jaxpr) -> str:
    """How many equations there are, in the program and in each jaxpr that it carries."""
    found = [program]
    for one in found:
        found += [inner for inner in subjaxprs(one) if inner not in found]
    n = sum(len(one.eqns) for one in found)
    return f"{n} equation{'' if n == 1 else 's'}"

"""`teucer pallas --targets`: the targets of kernels, and the operations that each lacks."""

import textwrap

from teucer._pallas.targets import TARGETS, KernelTarget, kernel_primitives

_WIDTH = 100


def targets() -> int:
    """Print each target: its platforms, how it runs kernels, and the primitives that it has no rule
    for."""
    for target in TARGETS:
        print(describe(target))
    return 0


def describe(target: KernelTarget) -> str:
    """A few lines about a target."""
    on = f" on {', '.join(target.platforms)}" if target.platforms else ""
    lines = [f"{target.name}{on}: {target.how}"]
    if target.rules is not None:
        names = kernel_primitives()
        lacks = target.rules.lacking(names.values())
        lines.append(f"    rules for {len(names) - len(lacks)} of {len(names)} primitives")
        lines += textwrap.wrap(
            f"lacks: {', '.join(lacks)}",
            _WIDTH,
            initial_indent="    ",
            subsequent_indent="        ",
        )
    elif target.lower is not None:
        lines.append("    every primitive that XLA compiles there")
    return "\n".join(lines)

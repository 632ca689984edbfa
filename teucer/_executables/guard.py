"""Known faults of jaxlib's releases, and whether the one that is installed has them.

`teucer guard` runs known answers against a release, and finds others. docs/guard.md has the table.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from teucer._xla.client import jaxlib_version

# The releases that `teucer guard` was run on.
TESTED = ("0.10.2", "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.12.0.1")


class Fault(NamedTuple):
    """A fault of the releases from `first` to `last`, both included; None: of all since.

    remedy: Teucer's way around it, "" if it has none. source: the public report.
    """

    name: str
    first: str
    last: str | None
    what: str
    remedy: str
    source: str


FAULTS = (
    Fault(
        "products fused with sums",
        "0.10.2",
        "0.10.2",
        "A sum over rows of what is computed of a product of matrices is wrong in the last of some "
        "ten thousand columns.",
        "YNNPACK computes products alone, in programs that have products and reductions.",
        "https://github.com/jax-ml/jax/issues/39103",
    ),
    Fault(
        "products with equal numbers fused with sums",
        "0.10.2",
        None,
        "A sum over four thousand numbers or more of a product with `ones`, `zeros` or `full` is a "
        "fraction of what it should be, or garbage.",
        "The compiler is not told that such an operand is one number throughout.",
        "seen here: (x @ jnp.ones((3, 3))).sum(0), x of 10,000 rows; JAX 0.12.0.1 has it",
    ),
    Fault(
        "reductions of seven axes",
        "0.10.2",
        "0.11.0",
        "A reduction of an array of seven axes or more, of what is computed, ends the process.",
        "YNNPACK computes no reductions in programs that have such.",
        "https://github.com/jax-ml/jax/issues/39257",
    ),
    Fault(
        "loops that copy",
        "0.11.1",
        "0.11.1",
        "A loop that writes a few elements of an array in each step copies the whole array.",
        "No loop becomes one kernel.",
        "https://github.com/jax-ml/jax/issues/40101",
    ),
    Fault(
        "exp of a choice",
        "0.10.2",
        "0.11.1",
        "exp(where(flag, x, nan)) of float32, flag a scalar, is garbage on the CPU where flag is "
        "false.",
        "",
        "seen here: choose after exp, `where(flag, exp(x), nan)`",
    ),
    Fault(
        "maxima without NaN",
        "0.10.2",
        None,
        "Maxima and minima over some thousand elements lose NaN.",
        "Halves of an array are compared element by element (`_targets/cpu/extremes.py`).",
        "seen here: tests/lax/test_extremes.py",
    ),
    Fault(
        "calls that miss copies",
        "0.12.0",
        None,
        "A function that is not inlined gets an operand in another order of memory than it reads.",
        "Calls hand on arrays by rows (`_targets/cpu/joined_call.py`).",
        "seen here: matrices of LAPACK, two FFTs in a joined kernel",
    ),
)


def release(version: str = jaxlib_version) -> tuple[int, ...]:
    """The numbers of a version; versions of the source tree are understood too.

    >>> release("0.12.0.1"), release("0.13.1.dev20270101")
    ((0, 12, 0, 1), (0, 13, 1))
    """
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    assert numbers is not None, version
    return tuple(map(int, numbers[0].split(".")))


def known_faults(version: str = jaxlib_version) -> list[Fault]:
    """The faults that a release has.

    >>> [fault.name for fault in known_faults("0.11.2")]
    ['products with equal numbers fused with sums', 'maxima without NaN']
    """
    return [
        fault
        for fault in FAULTS
        if release(fault.first) <= release(version)
        and (fault.last is None or release(version) <= release(fault.last))
    ]


# Whether the installed release is one of those.
TRIED = release() in map(release, TESTED)
_INSTALLED = frozenset(fault.name for fault in known_faults())


def has(name: str) -> bool:
    """Whether the installed release has the fault of that name."""
    return name in _INSTALLED

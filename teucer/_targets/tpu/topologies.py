"""Names of TPU topologies, checked, since libtpu takes names of pods that do not exist.

Sizes are from https://docs.cloud.google.com/tpu/docs/v5p and the pages of other generations; the
names are libtpu's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple


class Generation(NamedTuple):
    """A kind of TPU: the axes of its network, and the chips of the largest pod.

    longest: the most chips along an axis; None where pods are wired as their users like.
    """

    axes: int
    chips: int
    longest: int | None
    example: str


GENERATIONS = {
    "v2": Generation(2, 256, 16, "v2:2x2"),
    "v3": Generation(2, 1024, 32, "v3:2x2"),
    "v4": Generation(3, 4096, None, "v4:2x2x1"),
    "v5e": Generation(2, 256, 16, "v5e:2x2"),
    "v5p": Generation(3, 8960, None, "v5p:2x2x1"),
    "v6e": Generation(2, 256, 16, "v6e:2x2"),
    "tpu7x": Generation(3, 9216, None, "tpu7x:2x2x1"),
}
_NAME = re.compile(r"([a-zA-Z0-9_ ]+?)[=_:](\d+(?:x\d+)*)(_twisted|_untwisted)?")


def checked(name: str, given: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """libtpu's options for a topology. Raises an error for one that is known not to exist.
    Generations that are not known are libtpu's to judge.

    name: "" is v2:2x2, as for libtpu. given: num_slices and other options of libtpu.
    Raises ValueError for a name of another form, or sizes that no pod has.
    """
    slices = given.get("num_slices", 1)
    if not isinstance(slices, int) or slices < 1:
        raise ValueError(f"get_topology_desc: num_slices= is a number above 0, got {slices!r}.")
    name = name or GENERATIONS["v2"].example
    _check_sizes(name)
    options = {key: list(v) if isinstance(v, tuple) else v for key, v in given.items()}
    return name, options


def _check_sizes(name: str) -> None:
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(
            f"get_topology_desc: {name!r} names no TPU topology. A name is a generation and the "
            f"chips along each axis: {', '.join(g.example for g in GENERATIONS.values())}."
        )
    kind, sizes = found[1].lower(), [int(size) for size in found[2].split("x")]
    if kind not in GENERATIONS:
        return
    axes, chips, longest, example = GENERATIONS[kind]
    if len(sizes) != axes:
        raise ValueError(
            f"get_topology_desc: {name!r} has {len(sizes)} axes, and chips of {kind} are wired "
            f"along {axes}: {example}."
        )
    if 0 in sizes or math.prod(sizes) > chips or (longest is not None and max(sizes) > longest):
        along = "" if longest is None else f", at most {longest} along an axis"
        raise ValueError(
            f"get_topology_desc: there is no {name!r}: a pod of {kind} has at most {chips} "
            f"chips{along}.\n  num_slices= joins several slices."
        )

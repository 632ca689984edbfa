"""The groups of a scan's operands and results, in the form of JAX from release 0.11 on.

There `ft_in` and `ft_out` are flat trees: `ft_in.update(operands).unpack()` gives consts, carry and
xs. Our own rules count (`num_consts`, `num_carry`); libraries read either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._trees import pytrees
from teucer._xla.client import jaxlib_version

if TYPE_CHECKING:
    from teucer._core.typing import Params


# Whether JAX of this release says them so.
GROUPED = tuple(map(int, re.findall(r"\d+", jaxlib_version)[:2])) >= (0, 11)
_NAMES = ("ft_in", "ft_out")
_LEAF = pytrees.tree_structure(0)


@final
class FlatTree:
    """A tree of groups with a value at each leaf, equal to another of the same groups and values.

    >>> groups = pack((nones(1), nones(2)))
    >>> groups.update("abc").unpack()
    (('a',), ('b', 'c'))
    >>> groups.update("abc").vals
    ('a', 'b', 'c')
    """

    __slots__ = ("tree", "vals", "_parts")

    def __init__(self, tree: Any, vals: Iterable[Any], parts: tuple[FlatTree, ...] | None) -> None:
        self.tree, self.vals, self._parts = tree, tuple(vals), parts

    @property
    def unpackable(self) -> bool:
        """Whether it is a tuple of groups."""
        return self._parts is not None

    @property
    def elts(self) -> tuple[FlatTree, ...]:
        """The groups.

        Raises TypeError where it is no tuple of them.
        """
        if self._parts is None:
            raise TypeError(f"a flat tree that is no tuple has no groups.\n    it is: {self!r}")
        return self._parts

    def unpack(self) -> tuple[FlatTree, ...]:
        """The groups, each with its values."""
        return self.elts

    def update(self, vals: Iterable[Any]) -> FlatTree:
        """The same groups with other values.

        Raises ValueError for another number of them.
        """
        given = tuple(vals)
        if len(given) != len(self.vals):
            raise ValueError(
                f"a flat tree of {len(self.vals)} values takes as many, not {len(given)}.\n"
                f"    it is: {self!r}"
            )
        if self._parts is None:
            return FlatTree(self.tree, given, None)
        rest, parts = iter(given), []
        for part in self._parts:
            parts.append(part.update([next(rest) for _ in part.vals]))
        return FlatTree(self.tree, given, tuple(parts))

    def map(self, f: Callable[[Any], Any]) -> FlatTree:
        """The same groups with f of each value."""
        return self.update(map(f, self.vals))

    def map2(self, other: FlatTree, f: Callable[[Any, Any], Any]) -> FlatTree:
        """The same groups, with f(value, value of another tree) in each place."""
        return self.update(f(x, y) for x, y in zip(self.vals, other.vals, strict=True))

    def enumerate(self) -> FlatTree:
        """The same groups with pairs of a value's index and the value."""
        return self.update(enumerate(self.vals))

    def unflatten(self) -> Any:
        """The pytree of the values."""
        return pytrees.tree_unflatten(self.tree, self.vals)

    def __len__(self) -> int:
        return len(self.vals)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.vals)

    def __getitem__(self, index: int) -> Any:
        return self.vals[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlatTree) and (self.tree, self.vals) == (other.tree, other.vals)

    def __hash__(self) -> int:
        return hash((self.tree, self.vals))

    def __repr__(self) -> str:
        return repr(self.unflatten())


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> FlatTree:
    """The flat tree of a pytree; one of a tuple can be unpacked."""
    if type(tree) is tuple and not (is_leaf and is_leaf(tree)):
        return pack(tuple(flatten(part, is_leaf) for part in tree))
    leaves, treedef = pytrees.tree_flatten(tree, is_leaf)
    return FlatTree(treedef, leaves, None)


def pack(parts: tuple[FlatTree, ...]) -> FlatTree:
    """The flat tree of several groups.

    Raises TypeError for anything else than a tuple of flat trees.
    """
    if type(parts) is not tuple or not all(isinstance(part, FlatTree) for part in parts):
        raise TypeError(f"pack takes a tuple of flat trees.\n    got: {parts!r}")
    treedef = pytrees.treedef_tuple([part.tree for part in parts])
    return FlatTree(treedef, [value for part in parts for value in part.vals], parts)


def nones(n: int) -> FlatTree:
    """A group of n values that are None."""
    return pack(tuple(FlatTree(_LEAF, (None,), None) for _ in range(n)))


@final
class GroupedParams(dict[str, Any]):
    """The parameters of a scan, by count; `ft_in` and `ft_out` can be read as well."""

    __slots__ = ()

    def __missing__(self, name: str) -> FlatTree:
        if name not in _NAMES:
            raise KeyError(name)
        return _groups(self)[_NAMES.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in _NAMES or super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The parameter of that name."""
        return self[name] if name in _NAMES else super().get(name, default)

    def copy(self) -> GroupedParams:
        """The same parameters, to be changed."""
        return GroupedParams(self)


def by_group(params: Params) -> dict[str, Any]:
    """Parameters by count as JAX of this release names them."""
    if not GROUPED:
        return params
    rest = {name: value for name, value in params.items() if not name.startswith("num_")}
    return {**dict(zip(_NAMES, _groups(params), strict=True)), **rest}


def by_count(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of either form by count."""
    names = dict(params)
    if "ft_in" not in names:
        return names
    consts, carry, _ = names.pop("ft_in").unpack()
    names.pop("ft_out", None)
    return {**names, "num_consts": len(consts), "num_carry": len(carry)}


def _groups(params: Mapping[str, Any]) -> tuple[FlatTree, FlatTree]:
    jaxpr, consts, carry = params["jaxpr"], params["num_consts"], params["num_carry"]
    ins: Sequence[int] = (consts, carry, len(jaxpr.in_avals) - consts - carry)
    outs = (carry, len(jaxpr.out_avals) - carry)
    return pack(tuple(map(nones, ins))), pack(tuple(map(nones, outs)))

"""Functions over pytrees, by short names: the public `tree` module."""

from typing import TYPE_CHECKING

from teucer._trees.pytrees import static
from teucer._trees.pytrees import tree_all as all
from teucer._trees.pytrees import tree_broadcast as broadcast
from teucer._trees.pytrees import tree_flatten as flatten
from teucer._trees.pytrees import tree_flatten_with_path as flatten_with_path
from teucer._trees.pytrees import tree_leaves as leaves
from teucer._trees.pytrees import tree_leaves_with_path as leaves_with_path
from teucer._trees.pytrees import tree_map_with_path as map_with_path
from teucer._trees.pytrees import tree_reduce as reduce
from teucer._trees.pytrees import tree_reduce_associative as reduce_associative
from teucer._trees.pytrees import tree_structure as structure
from teucer._trees.pytrees import tree_transpose as transpose
from teucer._trees.pytrees import tree_unflatten as unflatten

if TYPE_CHECKING:
    from teucer._derived.signatures import tree_map as map
else:
    from teucer._trees.pytrees import tree_map as map

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]

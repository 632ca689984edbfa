# Made by tools/stubs.py from the tables of this module.
from teucer._derived.signatures import tree_map as _map
from teucer._trees.pytrees import static as static
from teucer._trees.pytrees import tree_all as _all
from teucer._trees.pytrees import tree_broadcast as _broadcast
from teucer._trees.pytrees import tree_flatten as _flatten
from teucer._trees.pytrees import tree_flatten_with_path as _flatten_with_path
from teucer._trees.pytrees import tree_leaves as _leaves
from teucer._trees.pytrees import tree_leaves_with_path as _leaves_with_path
from teucer._trees.pytrees import tree_map_with_path as _map_with_path
from teucer._trees.pytrees import tree_reduce as _reduce
from teucer._trees.pytrees import tree_reduce_associative as _reduce_associative
from teucer._trees.pytrees import tree_structure as _structure
from teucer._trees.pytrees import tree_transpose as _transpose
from teucer._trees.pytrees import tree_unflatten as _unflatten

all = _all
broadcast = _broadcast
flatten = _flatten
flatten_with_path = _flatten_with_path
leaves = _leaves
leaves_with_path = _leaves_with_path
map = _map
map_with_path = _map_with_path
reduce = _reduce
reduce_associative = _reduce_associative
structure = _structure
transpose = _transpose
unflatten = _unflatten

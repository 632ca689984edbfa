"""Functions over pytrees, by short names: the public `tree` module."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._trees.pytrees": (
            "all=tree_all broadcast=tree_broadcast flatten=tree_flatten "
            "flatten_with_path=tree_flatten_with_path leaves=tree_leaves "
            "leaves_with_path=tree_leaves_with_path map=tree_map map_with_path=tree_map_with_path "
            "reduce=tree_reduce reduce_associative=tree_reduce_associative static "
            "structure=tree_structure transpose=tree_transpose unflatten=tree_unflatten"
        ),
    },
)

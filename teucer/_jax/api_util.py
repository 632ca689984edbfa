"""Arguments of functions as flat values, for libraries that write transformations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from teucer._core import calls
from teucer._core.debug_info import DebugInfo
from teucer._core.trace import typeof
from teucer._jax.linear_util import Store, WrappedFun, transformation2, transformation_with_aux2
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._xla.pytree import PyTreeDef


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Any = None,
    sourceinfo: str | None = None,
    signature: Any = None,
) -> DebugInfo:
    """Information for messages about a traced function, for `extend.linear_util.wrap_init`.

    traced_for: the transformation that traces. result_paths_thunk, sourceinfo, signature: accepted
    for programs written for JAX.
    """
    return calls.debug_info(
        traced_for, fun, calls.flatten_call(tuple(args), kwargs, static_argnums, static_argnames)
    )


@transformation_with_aux2
def flatten_fun(
    f: Callable[..., object], store: Store, in_tree: PyTreeDef, *args_flat: Value
) -> list[Any]:
    """flatten_fun(fun, in_tree) -> (a function of the leaves of (args, kwargs), the reader of the
    tree of its results).

    >>> from teucer import tree
    >>> from teucer.extend.linear_util import wrap_init
    >>> f, out_tree = flatten_fun(wrap_init(lambda x, y: {"sum": x + y}),
    ...     tree.structure(((1, 2), {})))
    >>> f.call_wrapped(1, 2), out_tree()
    ([3], PyTreeDef({'sum': *}))
    """
    args, kwargs = pytrees.tree_unflatten(in_tree, args_flat)
    leaves, tree = pytrees.tree_flatten(f(*args, **kwargs))
    store.store(tree)
    return leaves


@transformation_with_aux2
def flatten_fun_nokwargs(
    f: Callable[..., object], store: Store, in_tree: PyTreeDef, *args_flat: Value
) -> list[Any]:
    """As `flatten_fun`, where in_tree is the tree of the positional arguments alone."""
    leaves, tree = pytrees.tree_flatten(f(*pytrees.tree_unflatten(in_tree, args_flat)))
    store.store(tree)
    return leaves


def flatten_axes(
    name: str, treedef: Any, axis_tree: object, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """A prefix tree such as in_axes as one entry a leaf of treedef; None is an entry, for its whole
    subtree.

    name: of the argument, for messages. kws: treedef is that of (positional arguments, keyword
    arguments). Raises ValueError if axis_tree is no prefix.

    >>> from teucer import tree
    >>> flatten_axes("in_axes", tree.structure((1, (2, 3))), (0, None))
    [0, None, None]
    """
    return pytrees.flatten_axes(name, treedef, axis_tree, kws=kws)


@transformation2
def _with_fixed(
    f: Callable[..., object],
    dyn_argnums: Sequence[int],
    fixed: Sequence[object],
    *dyn_args: Value,
    **kwargs: object,
) -> Any:
    args: list[Any] = [None] * (len(dyn_argnums) + len(fixed))
    for i, x in zip(dyn_argnums, dyn_args, strict=True):
        args[i] = x
    rest = iter(fixed)
    return f(*(x if i in dyn_argnums else next(rest) for i, x in enumerate(args)), **kwargs)


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Value],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """The function of the arguments in dyn_argnums, the others fixed at their values in args; and
    those arguments.

    Raises ValueError if another argument cannot be hashed, unless require_static_args_hashable is
    False.

    >>> from teucer.extend.linear_util import wrap_init
    >>> f, dynamic = argnums_partial(wrap_init(lambda x, y: x - y), 1, (5, 3))
    >>> f.call_wrapped(*dynamic)
    2
    """
    wanted = tuple(
        i % len(args) for i in calls.as_indices(dyn_argnums, "dyn_argnums", "argnums_partial")
    )
    fixed = tuple(x for i, x in enumerate(args) if i not in wanted)
    if require_static_args_hashable:
        for i, x in enumerate(args):
            if i not in wanted and not _hashable(x):
                raise ValueError(
                    "Non-hashable static arguments are not supported, as this can lead to "
                    f"unexpected cache-misses. Static argument (index {i}) of type {type(x)} for "
                    f"function {f.__name__} is non-hashable."
                )
    return _with_fixed(f, wanted, fixed), tuple(args[i] for i in wanted)


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def donation_vector(
    donate_argnums: Sequence[int],
    donate_argnames: Iterable[str],
    in_tree: PyTreeDef,
    kws: bool = True,
) -> tuple[bool, ...]:
    """Whether each leaf is donated, of in_tree, the tree of (positional arguments, keyword
    arguments) or, without kws, of args.

    >>> from teucer import tree
    >>> donation_vector((0,), (), tree.structure(((1, 2), {})))
    (True, False)
    """
    args, *rest = in_tree.children() if kws else (in_tree,)
    donated: list[bool] = []
    for i, arg in enumerate(args.children()):
        donated += [i in donate_argnums] * arg.num_leaves
    for kwargs in rest:
        _, names = kwargs.node_data() or (dict, ())
        for name, arg in zip(names, kwargs.children(), strict=True):
            donated += [name in donate_argnames] * arg.num_leaves
    return tuple(donated)


def rebase_donate_argnums(
    donate_argnums: Sequence[int], static_argnums: Sequence[int]
) -> tuple[int, ...]:
    """Positions of donated arguments once the static ones are taken out.

    Raises ValueError if an argument is both.

    >>> rebase_donate_argnums((0, 2), (1,))
    (0, 1)
    """
    if both := set(donate_argnums) & set(static_argnums):
        raise ValueError(
            f"`static_argnums` {sorted(static_argnums)} and `donate_argnums` "
            f"{sorted(donate_argnums)} cannot intersect.\n    in both: {sorted(both)}"
        )
    return tuple(sorted(i - sum(s < i for s in static_argnums) for i in donate_argnums))


def safe_map(f: Callable[..., object], *xs: Iterable[Any]) -> list[Any]:
    """The list of f(x, y, ...) for sequences of one length.

    Raises ValueError if the lengths differ.

    >>> safe_map(max, [1, 5], [2, 3])
    [2, 5]
    """
    return [f(*x) for x in zip(*xs, strict=True)]


def shaped_abstractify(x: Value) -> Any:
    """The type of an array, a number, or an object with a shape and a dtype.

    Raises TypeError for anything else.

    >>> shaped_abstractify(1.)
    ShapedArray(float32[], weak_type=True)
    """
    return typeof(x)

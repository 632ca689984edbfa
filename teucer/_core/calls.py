"""Calls of user functions.

Arguments as flat values, static ones apart, and what a function is called in messages.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from teucer._base import errors
from teucer._base.collection import rarely_collected
from teucer._base.functions import fun_name, fun_text, is_own, where
from teucer._core import reference_types as references
from teucer._core.debug_info import DebugInfo
from teucer._core.high import is_mutable, stated
from teucer._core.jaxpr import Jaxpr
from teucer._core.names import called
from teucer._core.stage import stage_flat
from teucer._core.trace import Tracer, typeof
from teucer._core.types import is_valid_type
from teucer._trees import pytrees
from teucer._trees.tree_errors import static_array
from teucer._xla.arrays import ArrayImpl
from teucer._xla.dispatcher import forget_calls
from teucer._xla.pytree import meta_fields_of
from teucer._xla.runtime_errors import Scope

if TYPE_CHECKING:
    from typing import SupportsIndex

    from teucer._core.typing import Aval, Value
    from teucer._xla.pytree import PyTreeDef

__all__ = [
    "FlatCall", "FlatFunction", "as_indices", "as_names", "check_callable", "check_leaves",
    "debug_info", "flatten_call", "flatten_results", "fun_name", "fun_text", "leaf_arguments",
    "leaf_names", "stage_user", "static_by_name", "where",
]  # fmt: skip


class FlatCall(NamedTuple):
    """A call with its dynamic arguments flattened.

    tree: of (positional arguments, keyword arguments) without the static ones.
    statics: the static arguments, hashable: ((position, value), ...), ((name, value), ...).
    """

    leaves: list[Any]
    tree: Any
    statics: tuple[tuple[tuple[int, Any], ...], tuple[tuple[str, Any], ...]]

    def arguments(self, leaves: Sequence[Value]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the call with other leaves in the place of these."""
        args, kwargs = pytrees.tree_unflatten(self.tree, leaves)
        positions, names = self.statics
        if positions:
            dynamic, fixed = iter(args), dict(positions)
            args = tuple(
                fixed[i] if i in fixed else next(dynamic) for i in range(len(args) + len(positions))
            )
        return args, {**kwargs, **dict(names)}

    def form(self) -> FlatCall:
        """The call without its leaves, to outlive them."""
        return FlatCall([], self.tree, self.statics)

    def apply(self, fun: Callable[..., object], leaves: Sequence[Value]) -> Any:
        """Call `fun` with other leaves in the place of these."""
        args, kwargs = self.arguments(leaves)
        return called(fun, *args, **kwargs)


def flatten_call(
    args: tuple[object, ...],
    kwargs: dict[str, object],
    static_argnums: Sequence[int] = (),
    static_argnames: Iterable[str] = (),
) -> FlatCall:
    """Flatten a call; static arguments that are given are kept as they are."""
    if not static_argnums and not static_argnames:
        leaves, tree = pytrees.tree_flatten((args, kwargs))
        return FlatCall(leaves, tree, ((), ()))
    n = len(args)
    fixed = {i + n if i < 0 else i for i in static_argnums if -n <= i < n}
    dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
    names = set(static_argnames)
    leaves, tree = pytrees.tree_flatten(
        (dynamic, {k: v for k, v in kwargs.items() if k not in names})
    )
    statics = (
        tuple((i, args[i]) for i in sorted(fixed)),
        tuple((k, kwargs[k]) for k in sorted(names & kwargs.keys())),
    )
    return FlatCall(leaves, tree, statics)


def flatten_results(out: object, what: str, info: DebugInfo) -> tuple[list[Any], Any]:
    """The leaves and the tree of a function's result.

    Raises TypeError, naming the leaf, for one that is not an array.
    """
    leaves, tree = pytrees.tree_flatten(out)
    info.out_tree = tree
    refers = False
    for i, x in enumerate(leaves):
        if isinstance(x, Tracer):
            aval = x.aval
            refers = refers or type(aval) is references.RefType or aval.has_qdd
        elif not is_valid_type(x):
            path = pytrees.tree_flatten_with_path(out)[0][i][0]
            at = f" at output component {pytrees.keystr(path)}" if path else ""
            raise TypeError(
                f"function {info.name} at {info.where} traced for {what} returned a value of type "
                f"{type(x)}{at}, which is not a valid JAX type.\n    value: {x!r:.100}\n"
                "  A transformed function returns arrays, numbers, and pytrees of them; None is "
                "an empty pytree."
            )
        elif type(x) is not ArrayImpl and references.may_alias((x,)):
            refers = True
    # vmap runs its function at once, so a returned reference is not used too late.
    if refers and what != "vmap":
        refuse_returned(leaves, tree, what, info)
    return leaves, tree


def refuse_returned(leaves: Sequence[Any], tree: PyTreeDef, what: str, info: DebugInfo) -> None:
    """Raise ValueError if a function returns a reference: it would outlive the program that knows
    what is written to it."""
    for i, x in enumerate(leaves):
        aval = typeof(x)
        if is_mutable(aval):
            raise TypeError(
                f"function {info.name} at {info.where} traced for {what} returned a value that "
                f"changes, of type {aval.str_short()}, which cannot be returned.\n"
                "  Return what it holds, or pass it to the function."
            )
        if type(aval) is references.RefType:
            path = pytrees.keystr(list(pytrees.leaf_paths(tree))[i])
            made = x.origin()
            said = (
                f"was passed in as the {made.partition(' of ')[0]}"
                if made.startswith("argument")
                else f"was created on line {made}"
                if made
                else "was closed over"
            )
            raise ValueError(
                f"function {info.name} at {info.where} traced for {what} returned a mutable array "
                f"reference of type {aval.str_short()}{path and f' at tree path result{path}'}, "
                "but mutable array references cannot be returned.\n\n"
                f"The returned mutable array {said}.\n  Return its array, ref[...], or pass the "
                "reference to the function."
            )


def check_leaves(call: FlatCall, fun: Callable[..., object], what: str) -> tuple[Any, ...]:
    """The types of the dynamic arguments.

    Raises TypeError, naming the argument, for one that is not an array.
    """
    try:
        avals = [typeof(x) for x in call.leaves]
        for i, x in enumerate(call.leaves):
            if avals[i].has_qdd:
                avals[i] = stated(x, avals[i])
            if type(x) is int and x >> 8 * avals[i].dtype.itemsize - 1 not in (0, -1):
                path = leaf_names(fun, call.tree, [i for i, _ in call.statics[0]])[i]
                raise OverflowError(
                    "An overflow was encountered while parsing an argument to a jitted "
                    f"computation, whose argument path is {path}. Got {type(x)} with value {x}\n"
                    f"  Python int too large to convert to {avals[i].dtype}: values are 32 bits "
                    "wide unless the option jax_enable_x64 is set."
                )
        return tuple(avals)
    except TypeError:
        for path, x in zip(
            leaf_names(fun, call.tree, [i for i, _ in call.statics[0]]), call.leaves, strict=True
        ):
            if not is_valid_type(x):
                from teucer._advice import mistakes  # of errors alone

                raise TypeError(
                    f"Error interpreting argument to {fun_text(fun)} as an abstract array. The "
                    f"problematic value is of type {type(x)} and was passed to the function at "
                    f"path {path}.\n    {path} = {x!r:.100}\n"
                    f"  Arguments of a function under {what} are arrays, numbers, and pytrees of "
                    "them. This typically means that a jit-wrapped function was called with a "
                    "non-array argument, and this argument was not marked as static using the "
                    "static_argnums or static_argnames parameters of jax.jit."
                    + mistakes.on_value(x, path)
                    + (
                        (
                            "\n  An array of another library becomes one by jnp.asarray(x) or, "
                            "without a copy, by jnp.from_dlpack(x)."
                        )
                        if hasattr(x, "__dlpack__") or hasattr(x, "__array__")
                        else ""
                    )
                ) from None
        raise


def leaf_names(
    fun: Callable[..., object], tree: PyTreeDef, static: Sequence[int] = ()
) -> tuple[str, ...]:
    """The names that messages use for the leaves of a call's dynamic arguments. Examples: `x`,
    `params['w'][0]`, `args[0]` for an argument that `*args` takes, `kwargs['a']` for one that
    `**kwargs` takes."""
    called = _parameter_names(fun)
    heads = [called(arg) for arg in leaf_arguments(tree, static)]
    return tuple(
        head + pytrees.keystr(tuple(rest))
        for head, (_, _, *rest) in zip(heads, pytrees.leaf_paths(tree), strict=True)
    )


def leaf_arguments(tree: PyTreeDef, static: Sequence[int]) -> tuple[int | str, ...]:
    """The argument that each leaf of a call's dynamic arguments belongs to: its position, or its
    name if passed by name.

    tree: of (positional arguments, keyword arguments) without the static ones, whose positions are
    `static`.
    """
    args, kwargs = pytrees.treedef_children(tree)
    by_position, by_name = pytrees.treedef_children(args), pytrees.treedef_children(kwargs)
    positions = [i for i in range(len(by_position) + len(static)) if i not in static]
    names = kwargs.node_data()[1]  # type: ignore[index]  # of a dict: its keys, in order
    return tuple(
        arg
        for arg, child in zip((*positions, *names), (*by_position, *by_name), strict=True)
        for _ in range(child.num_leaves)
    )


def _parameter_names(fun: Callable[..., object]) -> Callable[[int | str], str]:
    """The name in messages of an argument, given by its position or its name."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (ValueError, TypeError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    own = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
    others = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")

    def called(arg: int | str) -> str:
        if isinstance(arg, str):
            return f"{others}[{arg!r}]" if others and arg not in own else arg
        if arg < len(names):
            return names[arg]
        return f"{rest}[{arg - len(names)}]" if rest else f"args[{arg}]"

    return called


def debug_info(what: str, fun: Callable[..., object], call: FlatCall) -> DebugInfo:
    """How messages speak of a function while it is traced."""
    tree, static = call.tree, [i for i, _ in call.statics[0]]
    return DebugInfo(fun, lambda f: leaf_names(f, tree, static), what)


def check_callable(fun: object, op: str) -> None:
    """Raise TypeError unless `fun` is a function that can be transformed."""
    if isinstance(fun, staticmethod):
        raise errors.type_error(
            op,
            f"staticmethod arguments are not supported, got {fun!r:.100}",
            "Write @staticmethod above the transformation.",
        )
    if not callable(fun):
        raise errors.type_error(op, f"Expected a callable value, got {fun!r:.100}")
    if inspect.isgeneratorfunction(fun):
        raise errors.type_error(
            op,
            f"Expected a function, got a generator function: {fun!r}",
            "A transformed function returns its results at once.",
        )


def as_indices(
    x: SupportsIndex | Iterable[SupportsIndex] | None, name: str, op: str
) -> tuple[int, ...]:
    """An int or a sequence of ints as a tuple.

    Raises TypeError for anything else.
    """
    if x is None:
        return ()
    if is_index(x):
        return (operator.index(x),)
    try:
        return tuple(operator.index(i) for i in (x if isinstance(x, Iterable) else (x,)))
    except TypeError:
        raise errors.type_error(
            op, f"{name} must be an int or a sequence of ints, got {x!r}"
        ) from None


def is_index(x: object) -> TypeGuard[SupportsIndex]:
    """Whether x is one index, an array of no axes among others, and no sequence of indices."""
    try:
        operator.index(x)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def as_names(x: Any, name: str, op: str) -> tuple[str, ...]:
    """A name or a sequence of names as a tuple.

    Raises TypeError for anything else.
    """
    if x is None:
        return ()
    items = (x,) if isinstance(x, str) else tuple(x)
    if not all(isinstance(i, str) for i in items):
        raise errors.type_error(op, f"{name} must be a str or a sequence of strs, got {x!r}")
    return items


def static_by_name(
    fun: Callable[..., object],
    nums: tuple[int, ...] | None,
    names: tuple[str, ...] | None,
    kind: str,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the same parameters: what is given by position can be passed by name,
    and the reverse.

    Raises ValueError for a position or name that the function's signature does not have.
    """
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (ValueError, TypeError):
        if kind == "donate" and names and nums is None:
            raise ValueError(
                f"Getting the signature of function {fun!r:.100} failed. Pass donate_argnums "
                "instead of donate_argnames."
            ) from None
        return nums or (), names or ()
    positional = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    by_name = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    # Arguments that cannot be given by name, though there may be **kwargs.
    nameless = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    has_args = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    has_kwargs = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for i in nums or ():
        if not has_args and not -len(positional) <= i < len(positional):
            raise ValueError(
                f"Jitted function has {kind}_argnums={nums}, but only accepts {len(positional)} "
                "positional arguments."
            )
    for name in names or ():
        if name in nameless or (not has_kwargs and name not in by_name):
            raise ValueError(
                f"Jitted function has invalid argnames {{{name!r}}} in {kind}_argnames. Function "
                "does not take these args."
            )
    if nums is not None and names is None:
        inferred = [positional[i] for i in nums if -len(positional) <= i < len(positional)]
        return nums, tuple(n for n in inferred if n in by_name)
    if names is not None and nums is None:
        return tuple(i for i, n in enumerate(positional) if n in names), names
    return nums or (), names or ()


class StagedCall(NamedTuple):
    """A user function as a jaxpr over flat values, with the values of its constants and the tree of
    its results."""

    jaxpr: Jaxpr
    consts: list[Any]
    out_tree: Any
    debug_info: DebugInfo


def stage_user(
    fun: Callable[..., object], call: FlatCall, avals: Sequence[Aval], what: str
) -> StagedCall:
    """Trace a user function for the arguments of a call, of the given types.

    For `jit`, whose signatures are compared, raises ValueError if an array is a static field.
    """
    info = debug_info(what, fun, call)
    if what == "jit" and meta_fields_of and (found := static_array(call.tree)) is not None:
        raise _static_array(*found, info)
    trees: list[Any] = []

    def flat(*leaves: Value) -> list[Any]:
        args, kwargs = call.arguments(leaves)
        outs, tree = flatten_results(fun(*args, **kwargs), what, info)
        trees.append(tree)
        return outs

    if what != "jit" or is_own(fun):
        with rarely_collected:
            return StagedCall(*stage_flat(flat, avals, info), trees[-1], info)
    with (
        rarely_collected,
        Scope(),
    ):  # what is traced once is called from several lines: its equations do not say from which
        return StagedCall(*stage_flat(flat, avals, info), trees[-1], info)


def _static_array(kind: type, field: str, info: DebugInfo) -> ValueError:
    forget_calls()  # C++ has noted the signature, and would compare the next one with it
    return ValueError(
        f"{info.transform}: an array cannot be a static field of a pytree. Make sure that metadata "
        "fields are hashable and have simple equality semantics.\n"
        f"    field: {kind.__name__}.{field}\n    function: {info.func_src_info}\n"
        f"  Make {field} a data field (register_dataclass), or give a static one values that "
        "compare as a whole, such as a tuple."
    )


class FlatFunction:
    """A function of pytrees as one of flat values; after a call, `tree` is the tree of its
    results."""

    __slots__ = ("fun", "in_tree", "tree", "what", "aux", "has_aux", "info")

    def __init__(
        self,
        fun: Callable[..., object],
        in_tree: PyTreeDef,
        what: str,
        has_aux: bool = False,
        named: Callable[..., object] | None = None,
    ) -> None:
        self.fun, self.in_tree, self.what, self.has_aux = fun, in_tree, what, has_aux
        self.tree: Any = None
        self.aux: Any = None
        # Messages name the function that the user gave.
        self.info = DebugInfo(fun if named is None else named, (), what)

    def __call__(self, *leaves: Value) -> list[Any]:
        out = called(self.fun, *self.in_tree.unflatten(leaves))
        if self.has_aux:
            if not (isinstance(out, tuple | list) and len(out) == 2):
                raise TypeError(
                    f"{self.what}: expected function with aux output to return a two-element "
                    f"tuple, but got {_described(out)}\n    function: {self.info.name} at "
                    f"{self.info.where}\n  With has_aux=True it returns (output, auxiliary data)."
                )
            out, self.aux = out
        leaves_, self.tree = flatten_results(out, self.what, self.info)
        return leaves_


def _described(out: object) -> str:
    if isinstance(out, Tracer):
        return f"an array of type {out.aval.str_short()}"
    return f"type {type(out)} with value {out!r:.200}"

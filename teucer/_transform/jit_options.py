"""The options of `jit`, checked, as positions and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from teucer._arrays.prefixes import Prefix, everywhere, place_of, prefixes
from teucer._core.calls import (
    FlatCall,
    as_indices,
    as_names,
    check_callable,
    leaf_arguments,
    static_by_name,
)
from teucer._devices.shardings import single_device_sharding
from teucer._dynamic import dynamic
from teucer._transform.jit_calls import Inline
from teucer._trees import pytrees


class JitOptions(NamedTuple):
    """The arguments of `jit`, as positions and names."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool | Inline = False
    device: Any = None
    compiler_options: tuple[tuple[str, Any], ...] = ()
    outline: bool | None = None
    in_shardings: Prefix | None = None
    out_shardings: Prefix | None = None
    in_layouts: Prefix | None = None
    out_layouts: Prefix | None = None
    dynamic_dims: dynamic.Ranges = ()
    # Whether results may have sizes that depend on values; an int bounds sizes that nothing else
    # bounds.
    dynamic_results: bool | int | None = None

    def are_few(self) -> bool:
        """Whether the options name no devices, meshes, sizes or options of the compiler, so that a
        program has few options of this kind."""
        few = JitOptions(*self[:6], outline=self.outline)
        return self[6:] == few[6:]


def options_of(
    fun: Callable[..., object],
    /,
    *,
    in_shardings: object,
    out_shardings: object,
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Iterable[str] | None,
    donate_argnums: int | Sequence[int] | None,
    donate_argnames: str | Iterable[str] | None,
    keep_unused: object,
    device: object,
    backend: object,
    inline: object,
    compiler_options: Mapping[str, object] | None,
    outline: bool | None,
    dynamic_dims: Any,
    dynamic_results: int | None,
) -> JitOptions:
    """The arguments of `jit` checked, and as positions and names."""
    check_callable(fun, "jit")
    nums, names = _parameters(fun, static_argnums, static_argnames, "static")
    donated_nums, donated_names = _parameters(fun, donate_argnums, donate_argnames, "donate")
    if set(nums) & set(donated_nums) | set(names) & set(donated_names):
        kind = "argnums" if static_argnames is None or donate_argnames is None else "argnames"
        raise ValueError(
            f"static_{kind} and donate_{kind} cannot intersect: an argument that is a Python "
            f"value has no buffer.\n    static: {nums}, {names}\n"
            f"    donated: {donated_nums}, {donated_names}"
        )
    (ins, in_layouts), (outs, out_layouts) = (
        prefixes("in_shardings", in_shardings),
        prefixes("out_shardings", out_shardings),
    )
    place = place_of(device, backend)
    if place is not None:
        if ins is not None or outs is not None:
            given = "out_shardings" if ins is None else "in_shardings"
            raise ValueError(
                f"If backend or device is specified on jit, then {given} should not be specified."
            )
        outs = everywhere("out_shardings", single_device_sharding(place))
    return JitOptions(
        nums,
        names,
        donated_nums,
        donated_names,
        bool(keep_unused),
        _inlining(inline),
        place,
        tuple(sorted((compiler_options or {}).items())),
        None if outline is None else bool(outline),
        ins,
        outs,
        in_layouts,
        out_layouts,
        dynamic.ranges_of(fun, dynamic_dims) if dynamic_dims is not None else (),
        dynamic_results,
    )


def _inlining(inline: object) -> bool | Inline:
    """Where calls are inlined: while tracing (True), where the program decides (False), or
    later."""
    if isinstance(inline, str):
        raise ValueError(
            f"jit: Invalid inline option: {inline!r}. It is a bool or a member of jax.Inline."
        )
    if not isinstance(inline, Inline):
        return bool(inline)
    return {Inline.JAX_EARLY: True, Inline.AUTO: False}.get(inline, inline)


def _parameters(
    fun: Callable[..., object],
    argnums: int | Sequence[int] | None,
    argnames: str | Iterable[str] | None,
    kind: str,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The parameters that `static_argnums` and `static_argnames` (or `donate_...`) name, by
    position and by name."""
    return static_by_name(
        fun,
        None if argnums is None else as_indices(argnums, f"{kind}_argnums", "jit"),
        None if argnames is None else as_names(argnames, f"{kind}_argnames", "jit"),
        kind,
    )


def donated_leaves(call: FlatCall, options: JitOptions) -> tuple[bool, ...]:
    """Which leaves of the dynamic arguments are donated."""
    if not options.donate_argnums and not options.donate_argnames:
        return (False,) * len(call.leaves)
    static = tuple(i for i, _ in call.statics[0])
    n = len(static) + len(pytrees.treedef_children(pytrees.treedef_children(call.tree)[0]))
    donated = {*options.donate_argnames, *(i + n if i < 0 else i for i in options.donate_argnums)}
    return tuple(arg in donated for arg in leaf_arguments(call.tree, static))

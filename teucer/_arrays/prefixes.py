"""The shardings of arguments and results that `jit` is given, and the layouts in them.

Tree prefixes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._arrays.formats import Format
from teucer._core.types import ShapedArray
from teucer._devices import backends, placement, shardings
from teucer._devices.shardings import Sharding
from teucer._devices.specs import UNCONSTRAINED, DuplicateSpecError, PartitionSpec
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._trees.pytrees import PyTreeDef


class Prefix(NamedTuple):
    """Shardings or layouts of arguments or results: a tree prefix, hashable."""

    name: str
    tree: Any
    leaves: tuple[Any, ...]

    def spread(self, full: PyTreeDef) -> list[Any]:
        """The prefix spread over the full tree: for each leaf of that a leaf of this, or None.

        Raises RuntimeError for a PartitionSpec without a mesh, ValueError if this is no prefix of
        the tree.
        """
        prefix = pytrees.tree_unflatten(self.tree, self.leaves)
        try:
            found = pytrees.flatten_axes(f"pjit {self.name}", full, prefix)
        except ValueError as err:
            raise _for_arguments(self.name, prefix, full, err) from None
        no_mesh = RuntimeError(
            "pjit requires a non-empty mesh in context if you are passing `PartitionSpec`s to "
            f"{self.name}. You can define a context mesh via `jax.set_mesh(mesh)`. Alternatively, "
            f"provide `Sharding`s to {self.name} and then the mesh context manager is not "
            "required."
        )
        try:
            return [shardings.as_named(placement.with_devices(s), no_mesh) for s in found]
        except DuplicateSpecError as err:
            raise err.naming(self.name) from None


def _for_arguments(name: str, prefix: Any, full: PyTreeDef, err: ValueError) -> ValueError:
    """The error for a tree that is no prefix of the arguments. Many forget that arguments are a
    tuple."""
    children = pytrees.treedef_children(full)
    wrong = not isinstance(prefix, tuple) or hasattr(prefix, "_fields")
    if name != "in_shardings" or (not wrong and len(prefix) == len(children)):
        return err
    what = (
        f"is not a tuple: got {type(prefix)} instead"
        if wrong
        else (
            f"is the wrong length: got a tuple or list of length {len(prefix)} for an args tuple "
            f"of length {len(children)}"
        )
    )
    said = (
        f"pjit {name} specification must be a tree prefix of the positional arguments tuple. In "
        f"particular, pjit {name} must either be a Sharding, a PartitionSpec, or a tuple of "
        f"length equal to the number of positional arguments. But pjit {name} {what}."
    )
    if len(children) != 1:
        return ValueError(said)
    with contextlib.suppress(ValueError):
        pytrees.flatten_axes(name, children[0], prefix)
        said += (
            f" Given the corresponding argument being passed, it looks like pjit {name} might "
            "need to be wrapped in a singleton tuple."
        )
    return ValueError(said)


def check_fit(
    what: str,
    names: Callable[[], Sequence[str]],
    given: Sequence[object],
    avals: Sequence[ShapedArray],
) -> None:
    """Check that the shardings given for arguments or results, None for those without, suit their
    types.

    Raises ValueError, which names the argument, for one of more axes; IndivisibleError for sizes
    that it does not divide.
    """
    for i, (sharding, aval) in enumerate(zip(given, avals, strict=True)):
        if not isinstance(sharding, Sharding) or not isinstance(aval, ShapedArray):
            continue
        try:
            sharding.check_compatible_aval(aval.shape)
        except ValueError as err:
            raise ValueError(
                f"One of pjit {what} with pytree key path {names()[i]} is incompatible with its "
                f"sharding annotation {sharding}: {err}"
            ) from None
        if not aval.symbolic:
            shardings.check_shape(sharding, aval.shape)


def prefixes(name: str, prefix: Any) -> tuple[Prefix | None, Prefix | None]:
    """The shardings that `jit` was given, and the layouts in them."""
    prefix = tuple(prefix) if type(prefix) is list and name == "in_shardings" else prefix
    leaves, tree = pytrees.tree_flatten(prefix)
    for s in leaves:
        if not isinstance(s, Sharding | PartitionSpec | Format):
            raise TypeError(
                f"{name} leaf specifications are expected to be PartitionSpec instances or None, "
                f"but got {s}"
            )
        spec = getattr(s.sharding if isinstance(s, Format) else s, "spec", s)
        if isinstance(spec, PartitionSpec) and UNCONSTRAINED in spec.partitions:
            raise ValueError(
                f"Unconstrained dims are not allowed when passed to {name}: {s}\n"
                "  Within the function with_sharding_constraint takes them; None in the place of "
                "the sharding leaves all to the compiler."
            )
    both = (
        [s.sharding if isinstance(s, Format) else s for s in leaves],
        [getattr(s, "layout", None) for s in leaves],
    )
    given = None if prefix is None else Prefix(name, tree, tuple(both[0]))
    return given, Prefix(name, tree, tuple(both[1])) if any(
        x is not None for x in both[1]
    ) else None


def place_of(device: object, backend: object) -> Any:
    """The one device that `device` or `backend` of `jit` names; None where they name none."""
    if device is not None and backend is not None:
        raise ValueError(
            f"can't specify both a device and a backend for jit, got device={device!r} and "
            f"backend={backend!r}"
        )
    return device if backend is None else backends.client_of(backend).local_devices()[0]


def everywhere(name: str, sharding: object) -> Prefix:
    """The argument of `jit` that gives all values one sharding."""
    return Prefix(name, pytrees.tree_structure(sharding), (sharding,))

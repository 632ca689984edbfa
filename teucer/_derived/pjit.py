"""`pjit`: `jit` over the mesh of a `with mesh:` block, for programs older than `set_mesh`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from teucer._base import tracebacks
from teucer._devices import meshes
from teucer._devices.shardings import NamedSharding
from teucer._devices.specs import DuplicateSpecError, PartitionSpec
from teucer._transform.jit import jit
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Value


_UNSAID: Any = object()


def pjit(
    fun: Callable[..., object],
    in_shardings: Any = _UNSAID,
    out_shardings: Any = _UNSAID,
    **options: Any,
) -> Any:
    """`jit`; called within `with mesh:`, the program runs over that mesh, as in old versions of
    JAX.

    fun, options: as of `jit`. in_shardings, out_shardings: as of `jit`, too; within the block
    PartitionSpecs name its mesh, and None means that each device has the whole.
    Raises ValueError within the block where `device` or `backend` is given.

    >>> import teucer as jax, teucer.numpy as jnp, warnings
    >>> mesh = jax.sharding.Mesh(jax.devices()[:1], ("x",))
    >>> with mesh:
    ...     print(pjit(lambda x: 2 * x, in_shardings=jax.P("x"))(jnp.ones(2)))
    [2. 2.]
    """
    said = {
        name: s
        for name, s in (("in_shardings", in_shardings), ("out_shardings", out_shardings))
        if s is not _UNSAID
    }
    plain = jit(fun, **said, **options)

    @functools.cache
    def over(mesh: meshes.Mesh) -> Any:
        if any(options.get(name) is not None for name in ("device", "backend")):
            raise ValueError(
                "Mesh context manager should not be used with jit when backend or device is also "
                f"specified as an argument to jit.\n    mesh: {mesh}"
            )
        return jit(fun, **{name: _over(name, s, mesh) for name, s in said.items()}, **options)

    def heeding(f: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
        def run(*args: Value, **kwargs: object) -> Any:
            mesh = meshes.mesh_of_block()
            if mesh is None:
                return f(plain)(*args, **kwargs)
            with meshes.set_mesh(mesh):
                return f(over(mesh))(*args, **kwargs)

        return tracebacks.api_boundary(run)

    wrapped = functools.update_wrapper(heeding(lambda jitted: jitted), plain)
    wrapped.__wrapped__ = fun
    for name in ("trace", "lower", "eval_shape", "clear_cache"):
        setattr(wrapped, name, heeding(operator.attrgetter(name)))
    return wrapped


def _over(name: str, prefix: object, mesh: meshes.Mesh) -> Any:
    """The shardings that `pjit` was given, over the mesh of a `with` block."""

    def named(s: Value) -> Any:
        return (
            NamedSharding(mesh, s or PartitionSpec())
            if s is None or isinstance(s, PartitionSpec)
            else s
        )

    try:
        return pytrees.tree_map(named, prefix, is_leaf=lambda s: s is None)
    except DuplicateSpecError as err:
        raise err.naming(name) from None

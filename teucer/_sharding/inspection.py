"""The sharding that the compiler chooses for a traced value: `inspect_array_sharding` within
programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._devices.chosen import from_hlo
from teucer._devices.partition import Labels, every
from teucer._devices.shardings import NamedSharding, single_device_sharding
from teucer._devices.specs import PartitionSpec
from teucer._lower import hlo
from teucer._optimize.effects import Effect
from teucer._xla.client import INSPECTED
from teucer._xla.platforms import partitioners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Dims, Tangents, Value
    from teucer._devices.meshes import BaseMesh, Mesh
    from teucer._devices.shardings import Sharding
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written
    from teucer._xla.arrays import HloSharding


# The functions that are told of shardings, by the name that stands for each in programs' text.
# They live as long as the process.
_told: dict[Any, str] = {}


@final
class InspectSharding(Primitive):
    """Have `callback` called with the sharding of x, once it is known: while the program is
    compiled."""

    __slots__ = ()
    name = "inspect_sharding"
    multiple_results = True

    def types(self, x: ShapedArray, *, callback: Callable[[Sharding], None]) -> Any:
        return ()

    def effects(self, x: Value, *, callback: Callable[[Sharding], None]) -> frozenset[Effect]:
        return frozenset({Effect("inspect")})

    def shard(self, x: ShapedArray, **params: object) -> Labels:
        return Labels([every(x)], [()])

    def evaluate(self, x: Array, *, callback: Callable[[Sharding], None]) -> Any:
        callback(x.sharding)
        return ()

    def lower(self, ctx: Context, x: Written, *, callback: Callable[[Sharding], None]) -> Any:
        mesh = ctx.module.mesh
        if mesh is None:
            ctx.module.inspections.append(lambda device: callback(single_device_sharding(device)))
        elif ctx.all_manual():
            ctx.module.inspections.append(
                lambda device: callback(NamedSharding(mesh, PartitionSpec()))
            )
        else:
            free = mesh if ctx.manual is None else ctx.manual.free_mesh
            name = _name_of(callback, mesh, free, x.aval.physical.ndim)
            hlo.custom_call(
                ctx,
                INSPECTED,
                (x,),
                (x.aval,),
                config=f'"{name}"',
                api_version=1,
                has_side_effect=True,
            )
        return ()

    on_keys = dialects.on_keys.rule(lower)

    def jvp(self, primals: Sequence[Value], tangents: Tangents, **params: object) -> Any:
        return self.call(*primals, **params), ()

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        return self.call(*args, **params), ()

    padded = dialects.through


inspect_sharding_p = InspectSharding()


def _name_of(callback: Callable[[Sharding], None], mesh: BaseMesh, free: Mesh, ndim: int) -> str:
    """The name, in the text of a program, of the function that calls `callback` with a sharding
    over a mesh.

    free: the devices along the axes that are not manual. The compiler knows only these.
    """
    key = (callback, mesh, free, ndim)
    if key not in _told:

        def tell(found: HloSharding) -> None:
            sharding = from_hlo(found, free, ndim, free.device_list)
            callback(
                sharding.update(mesh=mesh) if isinstance(sharding, NamedSharding) else sharding
            )

        _told[key] = partitioners.inspection(tell)
    return _told[key]

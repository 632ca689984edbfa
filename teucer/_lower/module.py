"""A module of StableHLO being written: its functions, its meshes, and its device."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, final

from teucer._devices import meshes
from teucer._devices.chosen import GSPMDSharding
from teucer._devices.placement import COMMITTED, UNKNOWN, IncompatibleDevices, Named
from teucer._devices.shardings import NamedSharding
from teucer._lower import text

RESULT = Named("a result", "")


@final
class Module:
    """A module being written: its functions, and which jaxprs they came from."""

    def __init__(self, *, locations: bool = False, abstract: bool = False) -> None:
        # Whether operations say where in the user's program they come from, and how.
        self.locations: Any = None
        if locations:
            from teucer._lower.locations import Locations  # for texts to be read, and profiles

            self.locations = Locations()
        self.functions: list[str] = []
        # Whether sizes are symbolic somewhere. Then the module must be refined before it is
        # compiled.
        self.polymorphic = False
        # A jaxpr is emitted once, however often it is called. It is kept alive so that its id is
        # not reused.
        self.emitted: dict[Any, tuple[str, Any]] = {}
        self.names: dict[str, int] = {}
        self.host_callbacks: list[Any] = []
        # Symbols of the meshes that shardings name; over the devices of `mesh`, the first met
        # that has some, or need not.
        self.meshes: dict[tuple[tuple[tuple[Any, int], ...], Any], str] = {}
        self.mesh: Any = None
        self.abstract = abstract
        self.groups = itertools.count()  # the numbers of groups of values that lie alike
        self.inspections: list[Any] = []  # calls to be made with the device, once it is known
        # The one device that the program names.
        self.device: Any = None
        # The operation that first named devices, with its device or the mesh's devices.
        self.named: Any = None

    def sharding(
        self,
        sharding: NamedSharding | GSPMDSharding,
        ndim: int,
        *,
        of_type: bool = False,
        by: Named | None = RESULT,
    ) -> str:
        """A sharding as an attribute. of_type: whether it is from a type, which fixes Explicit mesh
        axes alone. by: the operation that has it."""
        if isinstance(sharding, GSPMDSharding):  # of tiles in any order
            sharding, by = sharding.named(ndim), None
        symbol = self.mesh_symbol(sharding.mesh, by)
        return text.partition(symbol, sharding, ndim, of_type=of_type)

    def name_device(self, device: object, by: Named) -> None:
        """Say that the program runs on a device.

        Raises ValueError if it was said to run on another.
        """
        if self.device not in (None, device):
            raise IncompatibleDevices(((self.named, (self.device,)), (by, (device,))))
        self.device, self.named = device, by

    def mesh_symbol(self, mesh: Any, by: Named | None) -> str:
        """The symbol of a mesh.

        by: the operation that names it; None if the mesh may have its devices in another order than
        the program. Raises IncompatibleDevices for other devices, or another order.
        """
        order: Any = getattr(mesh, "flat_devices", None)
        if self.mesh is None:
            self.mesh = (
                mesh
                if order is not None
                else meshes.with_devices(mesh) or (mesh if self.abstract else None)
            )
            self.named = by
        own = getattr(self.mesh, "flat_devices", order)
        moved = order is not None and order != own
        if moved and (by or set(order) != set(own)):
            raise IncompatibleDevices(((self.named or COMMITTED, own), (by or UNKNOWN, order)))
        key = mesh.shape_tuple, order if moved else None
        symbol = self.meshes.get(key)
        if symbol is None:
            symbol = self.meshes[key] = self.unique_name("mesh")
        return symbol

    def on_one_device(self, n_results: int, device: object = None) -> str:
        """The attribute that lets one device alone run an operation, such as a call of the host. By
        default it is the first device. '' where the program runs on one device.

        Raises ValueError for a device on which the program does not run.
        """
        if self.mesh is None:
            return ""
        order = getattr(self.mesh, "flat_devices", (device,))
        if device is not None and device not in order:
            raise IncompatibleDevices(
                ((self.named or COMMITTED, order), (Named("a callback", ""), (device,)))
            )
        i = 0 if device is None else order.index(device)
        symbol = self.meshes.setdefault(((), i), f"maximal_mesh_{i}")
        return (
            "sdy.sharding = "
            f"#sdy.sharding_per_value<[{', '.join([f'<@{symbol}, []>'] * max(n_results, 1))}]>"
        )

    def definitions(self) -> tuple[str, str]:
        """The attributes of the module, and the definitions of its meshes."""
        attributes = [text.POLYMORPHIC] if self.polymorphic else []
        if self.mesh is None:
            head = f" attributes {{{', '.join(attributes)}}}" if attributes else ""
            return head, self._meshes_of_one() if self.meshes else ""
        n = self.mesh.size
        lines = []
        for (shape, order), symbol in self.meshes.items():
            if not shape and isinstance(order, int):
                lines.append(f"sdy.mesh @{symbol} = <[], device_ids=[{order}]>")
                continue
            if math.prod(size for _, size in shape) != n:
                raise ValueError(
                    "Received incompatible devices for jitted computation: the program has "
                    f"shardings over the mesh {dict(shape)} and over {self.mesh}.\n"
                    "  Move the arguments with jax.device_put."
                )
            place = {} if order is None else {d: i for i, d in enumerate(self.mesh.flat_devices)}
            lines.append(text.mesh(symbol, shape, [place[d] for d in order or ()]))
        attributes += [f"mhlo.num_partitions = {n} : i32", "mhlo.num_replicas = 1 : i32"]
        return f" attributes {{{', '.join(attributes)}}}", "".join(f"{line}\n" for line in lines)

    def _meshes_of_one(self) -> str:
        """Definitions of meshes that an exported function names, in a program of one device.

        Raises ValueError for meshes of more devices.
        """
        for shape, _ in self.meshes:
            if math.prod(size for _, size in shape) != 1:
                raise ValueError(
                    f"types speak of a mesh {dict(shape)} whose devices are not known. Please "
                    "enter your `jit` into a mesh context via `jax.set_mesh`."
                )
        return "".join(
            f"{text.mesh(symbol, shape, [])}\n" for (shape, _), symbol in self.meshes.items()
        )

    def unique_name(self, name: str) -> str:
        """A symbol name not used before, made of `name`."""
        base = (
            name
            if name.isascii() and name.isidentifier()
            else re.sub(r"[^A-Za-z0-9_.$]", "_", name) or "f"
        )
        n = self.names.get(base, 0)
        self.names[base] = n + 1
        return base if n == 0 else self.unique_name(f"{base}_{n}")

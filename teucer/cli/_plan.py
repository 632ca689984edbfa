"""`teucer plan FILE:FUNCTION --args TYPES --on TOPOLOGY --mesh AXES`.

What a function takes on devices that need not be there.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import teucer as jax
from teucer._plan import machines, search
from teucer._plan import plan as planning
from teucer.cli import _run
from teucer.cli._arguments import check_count, function_of, parse_types, variables
from teucer.cli._errors import CommandError
from teucer.experimental import topologies

_CALL = re.compile(r"([A-Za-z_]\w*)\((\w*)\)")


def plan(options: argparse.Namespace) -> int:
    """Print or write the plan; 1 if the function does not fit."""
    try:
        found = _found(options)
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as err:
        if isinstance(err, CommandError):
            raise
        said = str(err).removeprefix("plan: ").removeprefix("get_topology_desc: ")
        raise CommandError(said) from err
    best = found.best if isinstance(found, search.Found) else found
    if options.json:
        written = json.dumps(found.as_dict(), indent=1)
    else:
        written = best.html if options.html else str(found)
    if options.output is None:
        print(written)
    else:
        try:
            options.output.write_text(written + "\n", encoding="utf-8")
        except OSError as err:
            raise CommandError(f"{options.output} cannot be written: {err.strerror}.") from err
    return int(not best.fits)


def _found(options: argparse.Namespace) -> planning.Plan | search.Found:
    named = machines.machine(options.on)
    sizes = machines.mesh_sizes(options.mesh)
    # Before the file is read: it may import jax.
    _run.as_jax()
    described = topologies.get_topology_desc(named.topology, named.platform, **dict(named.options))
    if options.search and not sizes:
        sizes = {search.DATA: len(described.devices), search.MODEL: 1}
    mesh = planning.mesh_over(sizes or None, described.devices, options.on)
    path, name, names = variables(_without_call(options.function))
    function, args = _read(options, path, name, names, mesh)
    check_count(options.function, function, args)
    if options.search:
        return search.plan_search(
            function, *args, topology=options.on, tries=options.search, data=options.data,
            tokens=options.tokens, price=options.price,
        )  # fmt: skip
    laid, _ = planning.laid((tuple(args), {}), mesh)
    return planning.planned(
        function, laid, {}, mesh, options.on, tokens=options.tokens, price=options.price
    )


def _without_call(target: str) -> str:
    """The target without the call: FILE:FUNCTION for FILE:FUNCTION(mesh)."""
    return target.removesuffix("(mesh)")


def _read(
    options: argparse.Namespace, path: str, name: str, names: dict[str, Any], mesh: Any
) -> tuple[Callable[..., Any], Sequence[Any]]:
    """The function and its arguments. Arrays that the file makes stay on this machine."""
    over = jax.sharding.AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=mesh.axis_types)
    function = function_of(path, name, names)
    if options.function.endswith("(mesh)"):
        function = function(mesh)
        if not callable(function):
            raise CommandError(f"{options.function} gives no function, but {function!r}.")
    with jax.sharding.use_abstract_mesh(over):
        call = _CALL.fullmatch(options.args.strip())
        if call is None:
            return function, parse_types(options.args, names=names)
        given = function_of(path, call[1], names)(*([over] if call[2] else []))
        return function, given if isinstance(given, tuple | list) else (given,)

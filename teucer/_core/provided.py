"""Functions that upper layers provide to lower ones.

One record, each field of which is filled once, while the package is loaded.

A lower layer asks `provided.zeros(aval)`; the upper layer that has it says
`provided.fill(zeros=zeros)` where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

Operation = Callable[..., Any]


class Buffers(NamedTuple):
    """Operations on padded buffers that the rules of symbolic sizes share (`_dynamic.padding`)."""

    iota: Operation  # (shape, axis): int32[shape]
    less: Operation
    both: Operation
    select: Operation
    fill: Operation  # (value, shape, dtype)
    broadcast: Operation  # (scalar, shape, an array of the result's dtype)
    extend: Operation  # (x, how many elements behind each axis, value)
    window: Operation  # (x, starts, shape)
    put: Operation  # (x, update, starts)
    take: Operation  # (x, places, axis)
    places: Operation
    clamped: Operation  # (start, limit)
    identity: Operation  # (shape, dtype)
    value: Operation  # (kind, x, y): arithmetic of sizes


class Loops(NamedTuple):
    """The primitives that outlining needs to make loops."""

    scan: Any
    stack: Any
    unstack: Any
    slice: Any


class Quotients(NamedTuple):
    """The primitives of quotients, and those that replace them: x / y is x * y**-1."""

    divide: Any
    multiply: Any
    power: Any


class References(NamedTuple):
    """Operations on the arrays of references, as a whole."""

    read: Operation  # (ref)
    write: Operation  # (ref, x)
    add: Operation  # (ref, x)
    new: Operation  # (x)


class Printing(NamedTuple):
    """Printers of jaxprs and equations, as text and in notebooks."""

    jaxpr_text: Callable[..., str]
    eqn_text: Callable[[Any], str]
    notebook: Callable[[Any], str]


@final
class Provided:
    """The record of functions that upper layers provide."""

    # _programs: runner(primitive, params) gives the function that runs a primitive outside any
    # trace.
    runner: Callable[[Any, dict[str, Any]], Callable[..., tuple[Any, ...]]]
    # _targets: target(platform), a `_targets.interface.Target`, which stands above.
    target: Callable[[str], Any]
    # _arrays: put(host value, device, aval=type) is an array.
    put: Operation
    # _devices: partition_of(sharding, shape) is the part of a sharding that an array's type keeps;
    # whole_sharding(ndim) is the sharding of a type without one.
    partition_of: Callable[[Any, tuple[Any, ...]], Any]
    whole_sharding: Callable[[int], Any]
    # _devices: parts(), the module of the types of parts (`_devices.parts`); loaded with the first
    # such type that a library asks for.
    parts: Callable[[], Any]
    # _devices, for types that are placed: laid_out(primitive, avals, params, types of results) are
    # these types with the meshes and memories of operands; alike(values) casts values to vary over
    # the same mesh axes.
    laid_out: Callable[[Any, Sequence[Any], dict[str, Any], tuple[Any, ...]], tuple[Any, ...]]
    alike: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    # _dialects: on_parts(ctx, operands, types of results, body) writes a body on each device by
    # itself, where its results are parts of sums that are still to be taken over mesh axes.
    on_parts: Callable[..., Sequence[Any]]
    # _dialects: lower_keys(ctx, primitive, operands, params) lowers a primitive on typed keys.
    lower_keys: Callable[..., tuple[Any, ...]]
    # _derived: on_arrays(), the module that runs programs on references and high values; loaded
    # with the first.
    on_arrays: Callable[[], Any]
    # _derived: in_pieces(job) is the program of a large job as executables that run one after the
    # other, or None.
    in_pieces: Callable[[Any], Any]
    # _derived: call_sized(fun, call, staged, sizes, options), for dynamic sizes.
    call_sized: Callable[..., Sequence[Any]]
    # _printing: printing(), what shows jaxprs; loaded with the first that is shown.
    printing: Callable[[], Printing]
    # _optimize: check_jaxpr(jaxpr), for the option jax_enable_checks.
    check_jaxpr: Callable[[Any], None]
    # lax: the array operations that transformations use (`array_ops`).
    zeros: Operation  # (aval)
    ones: Operation  # (aval)
    add: Operation  # (x, y)
    broadcast: Operation  # (x, size, axis)
    moveaxis: Operation  # (x, source, destination)
    reshape: Operation  # (x, shape)
    sum_axis: Operation  # (x, axis)
    convert: Operation  # (x, aval)
    identity: Operation  # (n, dtype)
    lay_out: Operation  # (x, sharding)
    vary: Operation  # (x, axes)
    reduce_cotangents: Operation  # (x, sharding whose spec is reduced)
    # numpy: references(): loaded with the first reference, whose methods they are, too.
    references: Callable[[], References]
    # random: note_keys(jaxpr, args, what is called) checks that no key is used twice.
    note_keys: Callable[[Any, Sequence[Any], str], None]
    # lax: blame(closed, args) raises FloatingPointError that names the operation that makes the
    # first NaN.
    blame: Callable[[Any, Sequence[Any]], None]
    # _derived: memory_note(jaxpr) says how much memory a program needs, and for what.
    memory_note: Callable[[Any], str]
    # _derived: member(primitive, name) gives the members of primitives that only libraries written
    # for JAX use. It is loaded when one is first asked for.
    member: Callable[[Any, str], Any]
    # _derived: pull(jaxpr, residuals, cotangents, wanted) is `backward_pass` of a linear jaxpr, in
    # one program where that is possible.
    pull: Callable[..., list[Any]]
    # _derived: pull_with_logs(a Pullback, cotangents) gives cotangents, and what rules log.
    pull_with_logs: Callable[[Any, Any], tuple[Any, dict[Any, Any]]]
    # _derived: by_budget(f, run) is what is differentiated where gradients have a budget;
    # within_memory(fun, memory, options) is what `jit` traces where its program has one.
    by_budget: Operation
    within_memory: Operation
    buffers: Buffers
    quotients: Quotients
    # lax: on_basis(f, aval) gives the results of a linear function for the standard basis of a
    # type, and their batch dimensions; loaded with the first Jacobian.
    on_basis: Callable[[Callable[[Any], Sequence[Any]], Any], tuple[list[Any], list[int | None]]]
    # loops(): loaded with the first program in which outlining finds a loop.
    loops: Callable[[], Loops]

    def fill(self, **operations: object) -> None:
        """Fill fields, each once."""
        for name, operation in operations.items():
            assert name in FIELDS, f"provided has no field {name}"
            assert not hasattr(self, name), f"provided.{name} is filled already"
            setattr(self, name, operation)


FIELDS = tuple(Provided.__annotations__)
provided = Provided()

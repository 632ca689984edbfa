"""Blocks of a fusion's arguments from blocks of its results, `pull_block_spec`, and the other way,
`push_block_spec`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import source, tracebacks
from teucer._core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, Var
from teucer._pallas.fuser.fusible import consts_of, custom_fusion_p
from teucer._pallas.fuser.fusing import Values, traced, without_calls
from teucer._pallas.fuser.parts import Given, Numbers, Parts, parts_of_spec, spec_of_parts, whole
from teucer._pallas.fuser.rules import rule_of
from teucer._pallas.specs import BlockSpec, no_block_spec
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Value


def make_scalar_prefetch_handler(*args: object) -> Callable[..., Any]:
    """A function that finds the scalars of one fusion among the scalars of a kernel.

    args: the path to them: a place among the kernel's scalars, a place in that element, and so on.

    >>> make_scalar_prefetch_handler(1)("a", ("b", "c"))
    ('b', 'c')
    """

    def handler(*scalars: Value) -> Any:
        found: Any = scalars
        for place in args:
            found = found[place]
        return found

    return handler


@tracebacks.api_boundary
def pull_block_spec(
    f: Callable[..., object],
    out_block_specs: object,
    *,
    scalar_prefetch_handler: Any = None,
    grid_len: int | None = None,
    strict_mode: bool = True,
) -> Callable[..., Any]:
    """For a function of arrays, the blocks that a block of its results is made of, and the function
    of these.

    f: a function, or the result of `get_fusion_values`. out_block_specs: a BlockSpec for each
    result, or a tree prefix of them.
    scalar_prefetch_handler: finds the scalars of f among the scalars that index maps take behind
    the place in the grid.
    grid_len: how many axes the grid has; by default index maps are given nothing else.
    strict_mode: refuse an argument that is needed in two ways by one step. If it is false, equal
    sizes of the blocks are enough: the caller knows that they begin at one place.
    Returns a function of the arguments, arrays or types of them. It gives three things: a function
    for the kernel, (place in the grid, scalars, *blocks) -> blocks of the results; the BlockSpecs
    of the arguments; the specs of arguments by keyword. Raises NotImplementedError, with the user's
    line, for an operation whose blocks of operands do not follow from blocks of the result.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental import pallas as pl
    >>> x = jax.ShapeDtypeStruct((8, 4), jnp.float32)
    >>> blocks = pl.BlockSpec((2, 4), lambda i, j: (i, j))
    >>> function, (spec,), _ = pull_block_spec(lambda x: x.T + 1,
    ...     blocks)(jax.ShapeDtypeStruct((4, 8), jnp.float32))
    >>> spec.block_shape, spec.index_map(3, 0)
    ((4, 2), (0, 3))
    """

    def pull(*args: object, **kwargs: object) -> tuple[Any, Any, Any]:
        _, closed, out_tree = traced("pull_block_spec", f, _named(f), args, kwargs)
        closed = without_calls(closed)
        specs = pytrees.broadcast_prefix(
            out_block_specs,
            pytrees.tree_unflatten(out_tree, [0] * out_tree.num_leaves),
            is_leaf=lambda s: s is None,
        )
        pulled = _Pulled.of(closed, specs, strict_mode)
        scalars = _scalar_places(f, closed)

        def index_map(parts: Parts) -> Callable[..., Any]:
            def numbers(*given: Value) -> tuple[Any, ...]:
                place, rest = (
                    given[:grid_len],
                    given[len(given) if grid_len is None else grid_len :],
                )
                found = rest if scalar_prefetch_handler is None else scalar_prefetch_handler(*rest)
                at = _Blocks(pulled, place, scalars, found, None).numbers
                return tuple([at.of(p.start) for p in parts])

            return numbers

        own = [
            no_block_spec
            if not v.aval.shape
            else spec_of_parts(parts, index_map(parts), _like(parts, pulled.specs))
            for v, (parts, *_) in zip(closed.jaxpr.invars, pulled.inputs, strict=True)
        ]
        arg_specs, kwarg_specs = pytrees.tree_unflatten(pytrees.tree_structure((args, kwargs)), own)

        def kernel(
            place: Sequence[object], scalar_values: object, *blocks: Value, **named: object
        ) -> Any:
            leaves = pytrees.tree_leaves((blocks, named))
            run = _Blocks(pulled, place, scalars, scalar_values, leaves)
            outs = [
                run.value(v, parts)
                for v, parts in zip(closed.jaxpr.outvars, pulled.outputs, strict=True)
            ]
            return pytrees.tree_unflatten(out_tree, outs)

        return kernel, arg_specs, kwarg_specs

    return pull


@tracebacks.api_boundary
def push_block_spec(
    f: Callable[..., object],
    *in_spec_args: Value,
    scalar_prefetch_handler: Any = None,
    grid_len: int | None = None,
    strict_mode: bool = True,
    return_out_type: bool = False,
    **in_spec_kwargs: object,
) -> Callable[..., Any]:
    """For a function of arrays, the BlockSpecs of its results, from those of its arguments;
    no_block_spec where nothing is said.

    scalar_prefetch_handler, grid_len, strict_mode: accepted for programs written for JAX. Index
    maps of results take the same arguments as index maps of arguments.
    return_out_type: whether to give the types of the results, too: (BlockSpecs, types).
    Returns a function of the arguments, arrays or types of them. Raises NotImplementedError, with
    the user's line, for an operation whose blocks of the result do not follow from blocks of
    operands.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental import pallas as pl
    >>> rows = pl.BlockSpec((2, 4), lambda i: (i, 0))
    >>> push_block_spec(lambda x: x.sum(1),
    ...     rows)(jax.ShapeDtypeStruct((8, 4), jnp.float32)).block_shape
    (2,)
    """

    def push(*args: object, **kwargs: object) -> Any:
        _, closed, out_tree = traced("push_block_spec", f, _named(f), args, kwargs)
        closed = without_calls(closed)
        specs = pytrees.broadcast_prefix(
            (in_spec_args, in_spec_kwargs), (args, kwargs), is_leaf=lambda s: s is None
        )
        pushed = pytrees.tree_unflatten(out_tree, _pushed(closed, specs))
        if not return_out_type:
            return pushed
        types = [ShapeDtypeStruct(a.shape, a.dtype) for a in closed.out_avals]
        return pushed, pytrees.tree_unflatten(out_tree, types)

    return push


def _named(f: Any) -> Any:
    return f if hasattr(f, "__code__") else f.__call__


def _refuse(what: str, eqn: Eqn) -> NoReturn:
    line = (
        f"\n    made at: {source.describe(eqn.source[0])}"
        if eqn.source and eqn.source[0] is not None
        else ""
    )
    raise NotImplementedError(
        f"{what}\n    {eqn}{line}\n  Do it before the kernel, or give a custom_fusion with rules "
        "of its own."
    )


def _scalar_places(f: Callable[..., object], closed: ClosedJaxpr) -> dict[Var, int]:
    """Where among the scalars that a kernel is given the constants of a jaxpr are."""
    known = {id(x): i for i, x in enumerate(f.scalars)} if isinstance(f, Values) else {}
    places = {}
    for i, (v, c) in enumerate(zip(closed.jaxpr.constvars, closed.consts, strict=True)):
        if v.aval.shape:
            raise ValueError(
                "pull_block_spec: the function closes over an array of type "
                f"{v.aval.str_short()}.\n  Take fuser.get_fusion_values of it, and give the "
                "kernel the values."
            )
        places[v] = known.get(id(c), i)
    return places


def _like(parts: Parts, specs: Sequence[Any]) -> BlockSpec | None:
    """The spec that the beginnings of a part come from."""
    text = next((p.start.spec for p in parts if hasattr(p.start, "spec")), None)
    found = specs[text] if text is not None else None
    return found if isinstance(found, BlockSpec) else None


# --- From results to operands ---------------------------------------------------------------------


class _Pulled(NamedTuple):
    """The parts of all values from which a part of the results is computed.

    specs: BlockSpecs whose index maps give the beginnings of parts. inputs: for each argument the
    needed parts, which form one block. operands: for each equation and part of its result, the
    parts of its operands.
    """

    closed: ClosedJaxpr
    makers: dict[Var, Eqn]
    specs: list[Any]
    outputs: list[Parts]
    inputs: list[list[Parts]]
    operands: dict[tuple[Var, Parts], Sequence[Parts | None]]

    @staticmethod
    def of(closed: ClosedJaxpr, specs: Sequence[Any], strict: bool) -> _Pulled:
        jaxpr = closed.jaxpr
        outputs = [
            parts_of_spec(s, i, v.aval.shape, "pull_block_spec") if v.aval.shape else ()
            for i, (v, s) in enumerate(zip(jaxpr.outvars, specs, strict=True))
        ]
        made = _Pulled(
            closed,
            {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars},
            list(specs),
            outputs,
            [],
            {},
        )
        needed: dict[Var, list[Parts]] = {}
        for v, parts in zip(jaxpr.outvars, outputs, strict=True):
            made.need(v, parts, needed)
        for i, v in enumerate(jaxpr.invars):
            found = needed.get(v, [whole(v.aval.shape)])
            if any(not _is_one(parts, found[0], strict) for parts in found):
                sizes = sorted({tuple(p.size for p in parts) for parts in found})
                raise NotImplementedError(
                    f"pull_block_spec: argument {i}, of type {v.aval.str_short()}, is needed in "
                    f"different blocks by one step.\n    sizes: {sizes}\n"
                    "  Use blocks that are whole along the axes that the fusion reduces or "
                    "moves, or do that before the kernel."
                )
            made.inputs.append(found)
        return made

    def need(self, atom: Atom, parts: Parts, needed: dict[Var, list[Parts]]) -> None:
        """Note the parts from which a part of a value is computed."""
        if type(atom) is Literal or (atom, parts) in self.operands:
            return
        assert isinstance(atom, Var)
        eqn = self.makers.get(atom)
        if eqn is None:
            needed.setdefault(atom, []).append(parts)
            return
        found = self.operands[atom, parts] = self._pull(eqn, atom, parts)
        for v, own in zip(eqn.invars, found, strict=True):
            if own is not None:
                self.need(v, own, needed)
                for p in own:
                    if isinstance(p.start, Given):
                        self.need(p.start.atom, (), needed)

    def _pull(self, eqn: Eqn, atom: Var, parts: Parts) -> Sequence[Parts | None]:
        if (
            eqn.primitive is custom_fusion_p
            and eqn.params["rules"].pull_block_spec_rule is not None
        ):
            return self._pull_custom(eqn, atom, parts)
        rule = rule_of(eqn.primitive)
        found = rule.pull(eqn, parts) if rule is not None and len(eqn.outvars) == 1 else None
        if found is None:
            if parts != whole(atom.aval.shape):
                _refuse(
                    (
                        f"pull_block_spec: blocks of a result of {eqn.primitive} do not say "
                        "blocks of its operands."
                    ),
                    eqn,
                )
            found = [whole(v.aval.shape) for v in eqn.invars]
        return found

    def _pull_custom(self, eqn: Eqn, atom: Var, parts: Parts) -> Sequence[Parts | None]:
        """By the rule of the user, on BlockSpecs, the first of which is that of the result."""
        mine = eqn.outvars.index(atom)
        own = _spec_at(parts, self.specs)
        given = [own if i == mine else no_block_spec for i in range(len(eqn.outvars))]
        specs = list(eqn.params["rules"].pull_block_spec_rule(tuple(given)))
        n = consts_of(eqn)
        found: list[Parts | None] = [whole(v.aval.shape) for v in eqn.invars[:n]]
        for spec, v in zip(specs, eqn.invars[n:], strict=True):
            if spec is own and len(parts) == len(v.aval.shape):
                found.append(parts)
            else:
                self.specs.append(spec)
                found.append(
                    parts_of_spec(spec, len(self.specs) - 1, v.aval.shape, "pull_block_spec")
                )
        return found


def _is_one(parts: Parts, others: Parts, strict: bool) -> bool:
    if strict:
        return parts == others
    return [(p.size, p.seen) for p in parts] == [(p.size, p.seen) for p in others]


def _spec_at(parts: Parts, specs: Sequence[object]) -> BlockSpec:
    def index_map(*place: Value) -> tuple[Any, ...]:
        at = Numbers(specs, place, _no_scalars)
        return tuple([at.of(p.start) for p in parts])

    return spec_of_parts(parts, index_map, _like(parts, specs))


def _no_scalars(atom: Atom) -> NoReturn:
    raise NotImplementedError(
        "fuser: a block that begins at a value of the program cannot go through a custom_fusion.\n"
        "  Index the array before the kernel, or outside of the custom_fusion."
    )


class _Blocks:
    """The blocks of all values at one place of the grid. inputs: the blocks of the arguments; None
    if only scalars are needed."""

    def __init__(
        self,
        pulled: _Pulled,
        place: Sequence[object],
        scalars: dict[Var, int],
        given: object,
        inputs: Sequence[object] | None,
    ) -> None:
        self.pulled = pulled
        self.numbers = Numbers(pulled.specs, place, lambda atom: self.value(atom, ()))
        self.known: dict[tuple[Atom, Parts], Any] = {}
        for v, i in scalars.items():
            self.known[v, ()] = _Later(given, i)
        if inputs is not None:
            for v, found, x in zip(pulled.closed.jaxpr.invars, pulled.inputs, inputs, strict=True):
                self.known.update(((v, parts), x) for parts in found)

    def value(self, atom: Atom, parts: Parts) -> Any:
        """A block of a value."""
        if type(atom) is Literal:
            return atom.val
        found = self.known.get((atom, parts))
        if type(found) is _Later:
            found = self.known[atom, parts] = found.read()
        if found is None:
            assert isinstance(atom, Var)
            found = self.known[atom, parts] = self._compute(self.pulled.makers[atom], atom, parts)
        return found

    def _compute(self, eqn: Eqn, atom: Var, parts: Parts) -> Any:
        own = self.pulled.operands[atom, parts]
        values = [
            None if p is None else self.value(v, p) for v, p in zip(eqn.invars, own, strict=True)
        ]
        place = eqn.outvars.index(atom)
        if eqn.primitive is custom_fusion_p:
            rules, n = eqn.params["rules"], consts_of(eqn)
            if rules.eval_rule is None:
                return pytrees.tree_leaves(rules(*values[n:]))[place]
            return pytrees.tree_leaves(rules.eval_rule(self, *values[n:]))[place]
        rule = rule_of(eqn.primitive)
        if rule is None or (parts == whole(atom.aval.shape) and rule.pull(eqn, parts) is None):
            return eqn.primitive.call(*values, **eqn.params)[place]
        return rule.evaluate(eqn, parts, self.numbers, values)


class _Later(NamedTuple):
    """A scalar that a kernel is given, read when it is asked for: a value, or a reference to it or
    to an array of it alone."""

    given: Any
    place: int

    def read(self) -> Any:
        x = self.given[self.place]
        return x[(0,) * x.ndim] if getattr(x, "ndim", 0) or hasattr(x, "addupdate") else x


# --- From operands to results ---------------------------------------------------------------------


def _pushed(closed: ClosedJaxpr, specs: Sequence[object]) -> list[Any]:
    """The specs of the results, from the specs of the arguments."""
    jaxpr, table = closed.jaxpr, list(specs)
    parts: dict[Atom, Parts | None] = {}
    for i, (v, s) in enumerate(zip(jaxpr.invars, specs, strict=True)):
        said = s is not no_block_spec and s is not None
        parts[v] = parts_of_spec(s, i, v.aval.shape, "push_block_spec") if said else None
    for eqn in jaxpr.eqns:
        own = [None if type(v) is Literal else parts.get(v) for v in eqn.invars]
        if all(p is None for p in own):
            continue
        if (
            eqn.primitive is custom_fusion_p
            and eqn.params["rules"].push_block_spec_rule is not None
        ):
            parts.update(_push_custom(eqn, own, table))
            continue
        rule = rule_of(eqn.primitive)
        found = rule.push(eqn, own) if rule is not None and len(eqn.outvars) == 1 else None
        if found is None:
            _refuse(
                (
                    f"push_block_spec: blocks of the operands of {eqn.primitive} do not say "
                    "blocks of its result."
                ),
                eqn,
            )
        parts[eqn.outvars[0]] = found
    return [
        _spec_of(None if type(v) is Literal else parts.get(v), table, v.aval.shape)
        for v in jaxpr.outvars
    ]


def _push_custom(
    eqn: Eqn, own: Sequence[Parts | None], table: list[Any]
) -> dict[Atom, Parts | None]:
    n = consts_of(eqn)
    given = tuple(
        [_spec_of(p, table, v.aval.shape) for p, v in zip(own[n:], eqn.invars[n:], strict=True)]
    )
    found: dict[Atom, Parts | None] = {}
    for v, spec in zip(eqn.outvars, eqn.params["rules"].push_block_spec_rule(given), strict=True):
        table.append(spec)
        found[v] = (
            None
            if spec is no_block_spec
            else parts_of_spec(spec, len(table) - 1, v.aval.shape, "push_block_spec")
        )
    return found


def _spec_of(parts: Parts | None, table: Sequence[object], shape: Sequence[int]) -> Any:
    """The spec of a part of an array; the very spec that it comes from, if it is the same."""
    if parts is None:
        return no_block_spec
    for i, spec in enumerate(table):
        fits = (
            isinstance(spec, BlockSpec)
            and spec.block_shape is not None
            and len(spec.block_shape) == len(parts)
        )
        if fits and parts == parts_of_spec(spec, i, shape, "push_block_spec"):
            return spec
    return _spec_at(parts, table)

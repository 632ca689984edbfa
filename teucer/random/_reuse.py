"""Which random keys a program uses twice.

An analysis of jaxprs, and the keys that eager calls have used (`jax_debug_key_reuse`).

Every element of an array of keys has an identity, a number. Operations that only move keys move the
numbers; an operation that draws from a key, or splits it, uses its number up; an operation that
makes keys makes new numbers.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer import lax
from teucer._base import dtypes, source
from teucer._base.errors import KeyReuseError
from teucer._core import structure
from teucer._core.jaxpr import Eqn, Jaxpr, Literal, jaxprs_in_params
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._derived.metadata import xla_metadata_value_p
from teucer._derived.moves import device_put_p
from teucer._derived.remat import remat_p
from teucer.lax import _random_keys as keys
from teucer.lax._joining import stack_p, unstack_p
from teucer.lax._sharding import reshard_p, sharding_constraint_p

if TYPE_CHECKING:
    from teucer._core.typing import Array, Size, Value


# Numbers of the elements of an array of keys.
Numbers = np.ndarray[Any, np.dtype[np.int64]]


def is_key(aval: Any) -> bool:
    """Whether values of a type are typed keys."""
    return isinstance(getattr(aval, "dtype", None), dtypes.ExtendedDType)


class Use(NamedTuple):
    """A jaxpr's use of the keys among its inputs.

    inputs: the numbers of its inputs, None for inputs that are no keys. used: the numbers that are
    used up. outputs: the numbers of its results: numbers of inputs, or new ones.
    """

    inputs: tuple[Numbers | None, ...]
    used: frozenset[int]
    outputs: tuple[Numbers | None, ...]

    def consumed(self, i: int) -> Any:
        """Which elements of an input are used up."""
        numbers = self.inputs[i]
        return None if numbers is None else np.isin(numbers, list(self.used))


@final
class Keys:
    """One walk through a program: the numbers given out so far, and those that are used up."""

    def __init__(self) -> None:
        self.count = 0
        self.used: set[int] = set()
        self.first: dict[int, str] = {}  # the lines that used them up, for messages

    def new(self, shape: Sequence[Size], *, used: bool = False) -> Numbers:
        """Numbers for new keys."""
        n = int(np.prod([int(d) for d in shape], dtype=np.int64))
        numbers = np.arange(self.count, self.count + n, dtype=np.int64).reshape(
            tuple(map(int, shape))
        )
        self.count += n
        if used:
            self.used.update(numbers.ravel().tolist())
        return numbers

    def is_used(self, numbers: Numbers) -> bool:
        """Whether any of these keys is used up."""
        return not self.used.isdisjoint(numbers.ravel().tolist())

    def use(self, numbers: Numbers, eqn: Eqn, i: int, note: str = "") -> None:
        """Use up the keys that are the i-th operand of an equation. Raises KeyReuseError if one of
        them is used up already."""
        listed = numbers.ravel().tolist()
        if len(set(listed)) < len(listed) or not self.used.isdisjoint(listed):
            raise reused(eqn, i, note, next((self.first[n] for n in listed if n in self.first), ""))
        self.used.update(listed)
        self.first.update(dict.fromkeys(listed, eqn.where("")))

    def call(self, use: Use, operands: Sequence[Numbers | None], eqn: Eqn, number: Callable[[int],
    int],
             note: str = "") -> list[Any]:  # fmt: skip
        """Do with the operands what a jaxpr does with its inputs; the numbers of its results.

        number: which operand of the equation the i-th one is, for messages.
        """
        names: dict[int, int] = {}
        for i, (own, given) in enumerate(zip(use.inputs, operands, strict=True)):
            if own is None or given is None:
                continue
            taken = given.ravel()[np.isin(own.ravel(), list(use.used))]
            self.use(taken, eqn, number(i), note)
            names.update(zip(own.ravel().tolist(), given.ravel().tolist(), strict=True))
        outs: list[Any] = []
        for numbers in use.outputs:
            if numbers is None:
                outs.append(None)
                continue
            for n in numbers.ravel().tolist():
                if n not in names:
                    (names[n],) = self.new((1,), used=n in use.used).tolist()
            found = [names[n] for n in numbers.ravel().tolist()]
            outs.append(np.asarray(found, np.int64).reshape(numbers.shape))
        return outs


def use_of(jaxpr: Jaxpr) -> Use:
    """The use that a jaxpr, constants first, makes of keys; kept on it. Raises KeyReuseError if it
    uses one twice."""
    found: Use | None = jaxpr.cache.get("key_reuse")
    if found is None:
        walk = Keys()
        inputs = [
            walk.new(v.aval.shape) if is_key(v.aval) else None
            for v in (*jaxpr.constvars, *jaxpr.invars)
        ]
        outputs = _walk(walk, jaxpr, inputs)
        found = jaxpr.cache["key_reuse"] = Use(tuple(inputs), frozenset(walk.used), tuple(outputs))
    return found


def _walk(walk: Keys, jaxpr: Jaxpr, inputs: Sequence[Numbers | None]) -> list[Numbers | None]:
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), inputs, strict=True))

    def read(atom: Any) -> Any:
        return None if type(atom) is Literal else env.get(atom)

    for eqn in jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        has_jaxprs = next(jaxprs_in_params(eqn.params), None) is not None
        if (
            has_jaxprs
            or any(x is not None for x in operands)
            or any(is_key(v.aval) for v in eqn.outvars)
        ):
            rule = (
                RULES.get(eqn.primitive)
                or RULES.get(structure.kind_of(eqn.primitive) or eqn.primitive)
                or (_called if has_jaxprs else _unknown)
            )
            env.update(zip(eqn.outvars, rule(walk, eqn, operands), strict=True))
    return [read(v) for v in jaxpr.outvars]


def reused(eqn: Eqn, i: int, note: str = "", first: str = "") -> KeyReuseError:
    where, before = eqn.where(), f"\n    used before at {first}" if first else ""
    return KeyReuseError(
        f"In {eqn.primitive}, argument {i} is already consumed{note}{where}.\n    key: "
        f"{eqn.invars[i].aval.str_short(short_dtypes=True)}{before}\n"
        "  Use each key once: split it, or use jax.random.clone where equal samples are wanted."
    )


def _fresh(walk: Keys, eqn: Eqn, operands: Any) -> list[Any]:
    return [walk.new(v.aval.shape) if is_key(v.aval) else None for v in eqn.outvars]


def _uses(walk: Keys, eqn: Eqn, operands: Any) -> list[Any]:
    for i, numbers in enumerate(operands):
        if numbers is not None:
            walk.use(numbers, eqn, i)
    return _fresh(walk, eqn, operands)


def _unknown(walk: Keys, eqn: Eqn, operands: Sequence[Array]) -> list[Any]:
    """An unknown operation is assumed to use its keys, and to give used ones."""
    _uses(walk, eqn, operands)
    return [walk.new(v.aval.shape, used=True) if is_key(v.aval) else None for v in eqn.outvars]


def _moves(how: Callable[..., object]) -> Callable[..., list[Any]]:
    """The rule of an operation that moves keys. how(*numbers, **params) does the same to arrays of
    the keys' numbers."""

    def rule(walk: Keys, eqn: Eqn, operands: Sequence[Array]) -> list[Any]:
        return [how(*operands, **eqn.params)]

    return rule


def _each(walk: Keys, eqn: Eqn, operands: Sequence[Value]) -> list[Any]:
    return list(operands)


def _picks(walk: Keys, eqn: Eqn, operands: Sequence[Array]) -> list[Any]:
    """Unknown keys are picked, so the results are new keys. They count as used if every candidate
    is."""
    numbers = [x for x in operands if x is not None]
    used = bool(numbers) and all(
        walk.used.issuperset(x.ravel().tolist()) and x.size for x in numbers
    )
    return [walk.new(v.aval.shape, used=used) if is_key(v.aval) else None for v in eqn.outvars]


def _broadcast(
    x: Numbers, *sizes: Array, shape: Sequence[Size], broadcast_dimensions: Any, **params: Any
) -> Any:
    placed = [1] * len(shape)
    for d, n in zip(broadcast_dimensions, x.shape, strict=True):
        placed[d] = n
    return np.broadcast_to(x.reshape(placed), tuple(map(int, shape)))


def _slice(
    x: Numbers, *, start_indices: Any, limit_indices: Any, strides: Any, **params: Any
) -> Any:
    steps = strides or (1,) * x.ndim
    return x[
        tuple(slice(a, b, s) for a, b, s in zip(start_indices, limit_indices, steps, strict=True))
    ]


def _called(walk: Keys, eqn: Eqn, operands: Any) -> list[Any]:
    """The rule of a call. Nothing is known of equations that use programs in another way."""
    for inner in jaxprs_in_params(eqn.params):
        use_of(inner)  # each is looked at by itself
    call = structure.of(eqn, operands) or structure.presumed(eqn, operands)
    if not isinstance(call, structure.Call):
        return _unknown(walk, eqn, operands)
    if eqn.primitive is remat_p and eqn.params["differentiated"]:  # it recomputes values
        return _fresh(walk, eqn, operands)
    return walk.call(use_of(call.body.jaxpr), operands, eqn, lambda i: i)


def _looped(walk: Keys, eqn: Eqn, operands: Any) -> list[Any]:
    loop: Any = structure.of(eqn, operands)
    return (_scan if loop.condition is None else _while)(walk, eqn, loop)


def _scan(walk: Keys, eqn: Eqn, loop: structure.Loop) -> list[Any]:
    use, n, m = use_of(loop.body.jaxpr), len(loop.consts), len(loop.carry)
    carry, xs = list(loop.carry), loop.xs

    taken = [use.consumed(n + m + i) for i in range(len(xs))]
    for i, (x, mask) in enumerate(zip(xs, taken, strict=True)):
        if x is not None and x.size:
            walk.use(x[:, mask].ravel() if mask.ndim else x[[mask.item()] * len(x)], eqn, n + m + i)
    rows: list[Any] = []
    # The second step starts from the keys that the first leaves; more steps find nothing new.
    for step in range(min(loop.times, 2)):
        each = [None if x is None else walk.new(x.shape[1:]) for x in xs]
        rows = walk.call(
            use,
            [*loop.consts, *carry, *each],
            eqn,
            lambda i: i,
            ": the scan body function leads to key reuse" if step else "",
        )
        carry = rows[:m]
    ys = [
        walk.new(v.aval.shape, used=bool(rows) and r is not None and walk.is_used(r))
        if is_key(v.aval)
        else None
        for v, r in zip(eqn.outvars[m:], rows[m:] or [None] * (len(eqn.outvars) - m), strict=True)
    ]
    return [*carry, *ys]


def _while(walk: Keys, eqn: Eqn, loop: structure.Loop) -> list[Any]:
    n, m = len(loop.condition_consts), len(loop.consts)
    condition: Any = loop.condition
    cond, body = use_of(condition.jaxpr), use_of(loop.body.jaxpr)
    carry = list(loop.carry)

    def run(part: str, use: Use, consts: Any, first: int) -> list[Any]:
        count = len(consts)
        return walk.call(
            use,
            [*consts, *carry],
            eqn,
            lambda i: first + i if i < count else n + m + i - count,
            f": the while_loop {part} function leads to key reuse",
        )

    run("cond", cond, loop.condition_consts, 0)
    for _ in range(2):
        carry = run("body", body, loop.consts, n)
        run("cond", cond, loop.condition_consts, 0)
    return carry


def _branched(walk: Keys, eqn: Eqn, operands: Any) -> list[Any]:
    branch: Any = structure.of(eqn, operands)
    before, after, results = set(walk.used), set(walk.used), []
    for program, given in branch.bodies:
        walk.used = set(before)
        results.append(walk.call(use_of(program.jaxpr), given, eqn, lambda i: i + 1))
        after |= walk.used
    walk.used = after
    return [
        None
        if xs[0] is None
        else xs[0]
        if all(np.array_equal(xs[0], x) for x in xs)
        else walk.new(xs[0].shape, used=any(map(walk.is_used, xs)))
        for xs in zip(*results, strict=True)
    ]


RULES: dict[Primitive | structure.Kind, Callable[..., list[Any]]] = {
    structure.Loop: _looped,
    structure.Branch: _branched,
    **dict.fromkeys(
        (
            keys.random_seed_p,
            keys.random_wrap_p,
            keys.random_unwrap_p,
            keys.random_clone_p,
            keys.random_fold_in_p,
        ),
        _fresh,
    ),
    **dict.fromkeys((keys.random_split_p, keys.random_bits_p), _uses),
    lax.broadcast_in_dim_p: _moves(_broadcast),
    lax.reshape_p: _moves(lambda x, *a, new_sizes, **k: x.reshape(tuple(map(int, new_sizes)))),
    lax.squeeze_p: _moves(lambda x, *, dimensions, **k: np.squeeze(x, tuple(dimensions))),
    lax.transpose_p: _moves(lambda x, *, permutation, **k: np.transpose(x, permutation)),
    lax.slice_p: _moves(_slice),
    lax.rev_p: _moves(lambda x, *, dimensions, **k: np.flip(x, tuple(dimensions))),
    stack_p: _moves(lambda *xs, axis, **k: np.stack(xs, axis)),
    unstack_p: lambda walk, eqn, operands: list(np.moveaxis(operands[0], eqn.params["axis"], 0)),
    lax.split_p: lambda walk, eqn, operands: np.split(
        operands[0], np.cumsum(eqn.params["sizes"])[:-1], eqn.params["axis"]
    ),
    lax.concatenate_p: _moves(lambda *xs, dimension, **k: np.concatenate(xs, dimension)),
    lax.convert_element_type_p: _each,
    lax.copy_p: _each,
    **dict.fromkeys(
        (
            lax.optimization_barrier_p,
            device_put_p,
            sharding_constraint_p,
            reshard_p,
            xla_metadata_value_p,
        ),
        _each,
    ),
    **dict.fromkeys(
        (
            lax.gather_p,
            lax.dynamic_slice_p,
            lax.dynamic_update_slice_p,
            lax.select_n_p,
            lax.pad_p,
            lax.scatter_p,
            lax.sort_p,
        ),
        _picks,
    ),
    **dict.fromkeys((lax.eq_p, lax.ne_p), _fresh),
}


# Eager calls


# Arrays of keys with used elements, noted while the option was on: by identity, as long as they
# live, with the line of the last use.
_used: dict[int, tuple[weakref.ref[Any], Any, str]] = {}


def is_used(x: Array) -> Any:
    """Which elements of an array of keys eager calls have used, while the option was on."""
    found = _used.get(id(x))
    return found[1] if found is not None and found[0]() is x else np.zeros(x.shape, bool)


def note_use(jaxpr: Jaxpr, args: Sequence[Any], what: str) -> None:
    """Raise KeyReuseError if a call uses a key twice, or one that was used before; else note what
    it uses.

    what: the name of the function, for the message.
    """
    if not any(is_key(v.aval) for v in jaxpr.invars) and not _makes_keys(jaxpr):
        return
    use = use_of(jaxpr)
    taken: dict[int, tuple[Any, Any]] = {}
    for i, x in enumerate(args):
        mask = use.consumed(i)
        if mask is None or not mask.any():
            continue
        before = taken[id(x)][1] if id(x) in taken else is_used(x)
        if (before & mask).any():
            raise KeyReuseError(
                f"Previously-consumed key passed to {what} at index {i}.\n"
                f"    key: {typeof(x).str_short(short_dtypes=True)}{_used_before(x)}\n"
                "  Use each key once: split it, or use jax.random.clone where equal samples are "
                "wanted."
            )
        taken[id(x)] = x, before | mask
    for i, (x, mask) in taken.items():
        reference = weakref.ref(x, functools.partial(_forget, i))
        _used[i] = reference, mask, source.describe(source.here())


def _forget(place: int, _: object) -> None:
    _used.pop(place, None)


def _used_before(x: Array) -> str:
    found = _used.get(id(x))
    return f"\n    used before at {found[2]}" if found is not None else ""


def _makes_keys(jaxpr: Jaxpr) -> bool:
    """Whether an equation of a jaxpr makes keys. The answer is kept on the jaxpr."""
    found: bool | None = jaxpr.cache.get("makes_keys")
    if found is None:
        found = jaxpr.cache["makes_keys"] = any(
            any(is_key(v.aval) for v in eqn.outvars)
            or any(map(_makes_keys, jaxprs_in_params(eqn.params)))
            for eqn in jaxpr.eqns
        )
    return found

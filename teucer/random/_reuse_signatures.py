"""The use of random keys by functions and operations, as values that can be compared and set.

A signature says which keyed operands are used up, which results are new keys, and which results are
keys of an operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer import lax
from teucer._core.primitive import Primitive
from teucer._derived.staging import make_jaxpr
from teucer.lax import _random_keys as keys
from teucer.random._gamma import random_gamma_p
from teucer.random._reuse import RULES, Keys, is_key, use_of

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn, Jaxpr


class _Frozen:
    """A value that is compared by its parts."""

    __slots__ = ()

    def _parts(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> None:
        raise ValueError(f"{type(self).__name__} cannot be changed: make a new one.")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._parts() == self._parts()

    def __hash__(self) -> int:
        return hash((type(self), self._parts()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._parts()))})"


class _Masked(_Frozen):
    """Elements of the operand or result `idx`, those for which `mask` is True."""

    __slots__ = ("idx", "mask")
    idx: int
    mask: np.ndarray[Any, np.dtype[np.bool_]]

    def __init__(self, idx: int, mask: object = True) -> None:
        own = np.array(mask, bool)
        own.flags.writeable = False
        object.__setattr__(self, "idx", idx)
        object.__setattr__(self, "mask", own)

    def _parts(self) -> tuple[Any, ...]:
        if self.mask.all():
            return (self.idx,)
        return self.idx, self.mask.any() and (self.mask.shape, self.mask.tobytes())

    def __repr__(self) -> str:
        mask = (
            "" if self.mask.all() else f", mask={self.mask.tolist() if self.mask.any() else False}"
        )
        return f"{type(self).__name__}({self.idx}{mask})"


@final
class Sink(_Masked):
    """The keyed operand `idx` is used up, at the elements of `mask`."""

    __slots__ = ()


@final
class Source(_Masked):
    """The result `idx` has new keys, at the elements of `mask`."""

    __slots__ = ()


@final
class Forward(_Frozen):
    """The result `out_idx` has the keys of the operand `in_idx`."""

    __slots__ = ("in_idx", "out_idx")
    in_idx: int
    out_idx: int

    def __init__(self, in_idx: int, out_idx: int) -> None:
        object.__setattr__(self, "in_idx", in_idx)
        object.__setattr__(self, "out_idx", out_idx)

    def _parts(self) -> tuple[Any, ...]:
        return self.in_idx, self.out_idx


@final
class KeyReuseSignature(_Frozen):
    """All that an operation or a function does with keys; the order of the parts says nothing.

    >>> KeyReuseSignature(Source(0), Sink(0))
    KeyReuseSignature(Sink(0), Source(0))
    """

    __slots__ = ("forwards", "sinks", "sources")
    sinks: tuple[Sink, ...]
    sources: tuple[Source, ...]
    forwards: tuple[Forward, ...]

    def __init__(self, *parts: Sink | Source | Forward) -> None:
        for name, kind in (("sinks", Sink), ("sources", Source), ("forwards", Forward)):
            found = {p for p in parts if type(p) is kind}
            object.__setattr__(
                self, name, tuple(sorted(found, key=lambda p: (p._parts()[0], repr(p))))
            )

    def _parts(self) -> tuple[Any, ...]:
        return (*self.sinks, *self.sources, *self.forwards)


def jaxpr_type_signature(jaxpr: Jaxpr) -> KeyReuseSignature:
    """The signature of a jaxpr, counting its inputs without the constants. Raises KeyReuseError if
    it uses a key twice."""
    use, k = use_of(jaxpr), len(jaxpr.constvars)
    parts: list[Any] = []
    for i in range(len(jaxpr.invars)):
        taken = use.consumed(k + i)
        if taken is not None and taken.any():
            parts.append(Sink(i, taken))
    for o, numbers in enumerate(use.outputs):
        if numbers is None:
            continue
        origin = next((i for i, own in enumerate(use.inputs[k:])
                       if own is not None and np.isin(numbers, own).all()), None)  # fmt: skip
        fresh = ~np.isin(numbers, list(use.used))
        if origin is not None:
            parts.append(Forward(origin, o))
        elif fresh.any():
            parts.append(Source(o, fresh))
    return KeyReuseSignature(*parts)


def function_type_signature(fun: Callable[..., object], *args: object) -> KeyReuseSignature:
    """The signature of a function for arguments of these types. It is traced, and not run.

    >>> import teucer as jax
    >>> function_type_signature(jax.random.split, jax.random.key(0))
    KeyReuseSignature(Sink(0), Source(0))
    """
    return jaxpr_type_signature(make_jaxpr(fun)(*args).jaxpr)


class _Signatures(dict[Any, KeyReuseSignature]):
    """Signatures by primitive. A signature that is set replaces the check's rule from then on."""

    def __setitem__(self, primitive: Primitive, signature: KeyReuseSignature) -> None:
        super().__setitem__(primitive, signature)
        RULES[primitive] = _rule(signature)


def _rule(signature: KeyReuseSignature) -> Callable[..., list[Any]]:
    """Check a call of an operation with this signature."""
    sources = {s.idx: s.mask for s in signature.sources}
    forwards = {f.out_idx: f.in_idx for f in signature.forwards}

    def rule(walk: Keys, eqn: Eqn, operands: Any) -> list[Any]:
        for sink in signature.sinks:
            numbers = operands[sink.idx]
            if numbers is not None:
                walk.use(numbers[np.broadcast_to(sink.mask, numbers.shape)], eqn, sink.idx)
        outs: list[Any] = []
        for o, v in enumerate(eqn.outvars):
            if o in forwards:
                given = operands[forwards[o]]
                outs.append(None if given is None else given.reshape(v.aval.shape))
            elif is_key(v.aval):
                numbers = walk.new(v.aval.shape)
                used = ~np.broadcast_to(sources.get(o, False), numbers.shape)
                walk.used.update(numbers[used].tolist())
                outs.append(numbers)
            else:
                outs.append(None)
        return outs

    return rule


# The signatures that the rules of the check give, for operands with as few axes as possible. A test
# compares these with the rules.
_SINK, _SOURCE, _FORWARD = Sink(0), Source(0), Forward(0, 0)
key_reuse_signatures = _Signatures(
    dict.fromkeys(
        (
            keys.random_seed_p,
            keys.random_wrap_p,
            keys.random_clone_p,
            lax.dynamic_slice_p,
            lax.dynamic_update_slice_p,
        ),
        KeyReuseSignature(_SOURCE),
    )
    | dict.fromkeys((keys.random_bits_p, random_gamma_p), KeyReuseSignature(_SINK))
    | dict.fromkeys(
        (
            lax.broadcast_in_dim_p,
            lax.copy_p,
            lax.convert_element_type_p,
            lax.reshape_p,
            lax.squeeze_p,
        ),
        KeyReuseSignature(_FORWARD),
    )
    | {keys.random_split_p: KeyReuseSignature(_SINK, _SOURCE)}
)

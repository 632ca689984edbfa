"""`progress`: a loop with a bar.

The loop's body counts its steps; every few of them the program calls Python, as `debug.callback`
does, with the number of the step and what is to be shown. Results are those of the loop alone.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._advice.guarding import guarded
from teucer._base.errors import require, type_error
from teucer._derived.custom_batching import custom_vmap
from teucer._progress.bars import Bar, Shown
from teucer._transform.vmap import vmap
from teucer._trees.pytrees import tree_leaves, tree_map
from teucer.lax._callbacks import debug_callback

_UPDATES = 100  # of a loop whose number of steps is known
_UNKNOWN = 50  # steps between updates of other loops


def progress(
    loop: Callable[..., Any],
    /,
    label: str = "",
    *,
    show: Callable[..., object] | None = None,
    total: int | None = None,
    every: int | None = None,
    bar: str | Callable[[Shown], object] = "auto",
) -> Callable[..., Any]:
    """A loop that shows how far it is: `scan`, `fori_loop` or `while_loop` of `jax.lax`.

    label: what the bar is called. show: what it tells beside the rate, of the carry (of `scan`, of
    the carry and the step's output): a number, or a dict of numbers; arrays tell their mean. total:
    the number of steps of a loop that does not know it. every: steps between updates; by default
    100 updates in all. bar: "rich", "tqdm", "text", or a function of a `Shown`; "auto" takes rich,
    or tqdm, or text, whichever is installed.
    Under `jit`, `grad` and `vmap` as well: a bar belongs to the loop as it is written, so under
    `vmap` there is one, which tells means. What `grad` runs backwards is not shown. Programs with a
    bar call Python, so they are not kept in the compilation cache.
    Raises TypeError for another function than these three, ValueError for every < 1.

    >>> import teucer as jax
    >>> import teucer.numpy as jnp
    >>> told = []
    >>> count = jax.progress(jax.lax.fori_loop, show=lambda x: {"x": x}, every=5, bar=told.append)
    >>> count(0, 10, lambda i, x: x + 1.0, 0.0)
    Array(10., dtype=float32, weak_type=True)
    >>> jax.effects_barrier()
    >>> [(shown.step, shown.values["x"]) for shown in told]
    [(1, 1.0), (5, 5.0), (10, 10.0)]
    """
    if loop not in _LOOPS:
        raise type_error(
            "progress",
            "it takes a loop of jax.lax",
            "Write progress(jax.lax.scan)(f, init, xs); fori_loop and while_loop are the others.",
            loop=loop,
        )
    require(every is None or every >= 1, "C1", "progress", "every is less than 1", every=every)

    @functools.wraps(loop)
    def run(*args: Any, **kwargs: Any) -> Any:
        teller = _Teller(label, show, total, every, bar)
        return _LOOPS[loop](teller, *args, **kwargs)

    return guarded(run)


class _Teller:
    """What the program of one loop calls as it goes on."""

    def __init__(
        self,
        label: str,
        show: Callable[..., object] | None,
        total: int | None,
        every: int | None,
        bar: str | Callable[[Shown], object],
    ) -> None:
        self.show, self.total, self.every = show, total, every
        self.bar = Bar(label, bar)

    def known(self, count: Any) -> None:
        """The number of steps that a loop takes, as far as it is known while it is traced."""
        if self.total is None:
            try:
                self.total = operator.index(count)
            except TypeError:  # known when the program runs
                self.total = None

    def step(self, i: Any, *values: Any) -> None:
        """A step has been taken, the i-th from 0; values: the carry, and the output."""
        every = self.every
        if every is None:
            every = _UNKNOWN if self.total is None else max(1, self.total // _UPDATES)

        def due(i: Any) -> Any:
            now = (i == 0) | ((i + 1) % every == 0)
            return now if self.total is None else now | (i + 1 == self.total)

        _tell(due, functools.partial(_told, self.bar, self.total), self._shown, i, values)

    def end(self, count: Any, *values: Any) -> None:
        """Tell the bar that a loop has ended whose number of steps was not known before."""
        _tell(lambda i: i >= 0, functools.partial(_ended, self.bar), self._shown, count - 1, values)

    def _shown(self, values: Sequence[Any]) -> dict[str, Any]:
        """What is shown of a carry and an output, as numbers."""
        found = {} if self.show is None else self.show(*values)
        named = found if isinstance(found, Mapping) else {"loss": found}
        return {str(name): jnp.mean(jnp.asarray(x, jnp.float32)) for name, x in named.items()}


def _tell(
    due: Callable[[Any], Any],
    callback: Callable[..., None],
    shown: Callable[[Any], dict[str, Any]],
    i: Any,
    values: Any,
) -> None:
    """Call Python after step i, if it is due; under vmap once, with the largest i and the means.

    shown: what is shown of the values. It is computed only if it is.
    """

    @custom_vmap
    def told(i: Any, values: Any) -> Any:
        tell = functools.partial(debug_callback, callback)
        lax.cond(due(i), lambda: tell(i + 1, shown(values)), lambda: None)
        return jnp.zeros((), jnp.int32)

    @told.def_vmap
    def _told_of_all(size: int, mapped: Any, i: Any, values: Any) -> Any:
        i_mapped, are_mapped = mapped
        axes = tree_map(lambda is_mapped: 0 if is_mapped else None, are_mapped)

        def means(values: Any) -> dict[str, Any]:
            each = vmap(shown, in_axes=(axes,), axis_size=size)(values)
            return {name: jnp.mean(x) for name, x in each.items()}

        _tell(due, callback, means, jnp.max(i) if i_mapped else i, values)
        return jnp.zeros((), jnp.int32), False

    told(i, tree_map(lax.stop_gradient, values))


def _told(bar: Bar, total: int | None, step: Any, shown: Mapping[str, Any]) -> None:
    bar.tell(int(step), total, {name: float(x) for name, x in shown.items()})


def _ended(bar: Bar, count: Any, shown: Mapping[str, Any]) -> None:
    bar.end(int(count), {name: float(x) for name, x in shown.items()})


def _scan(
    teller: _Teller,
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    **options: Any,
) -> Any:
    n = _length(xs, length)
    teller.known(n)

    def step(carry: Any, x: tuple[Any, Any]) -> Any:
        i, own = x
        carry, y = f(carry, own)
        teller.step(n - 1 - i if reverse else i, carry, y)
        return carry, y

    return lax.scan(step, init, (jnp.arange(n), xs), n, reverse, **options)


def _length(xs: Any, length: int | None) -> int:
    sizes = [np.shape(x)[0] for x in tree_leaves(xs) if np.ndim(x)]
    if length is None and not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return operator.index(sizes[0] if length is None else length)


def _fori_loop(
    teller: _Teller,
    lower: Any,
    upper: Any,
    body_fun: Callable[..., Any],
    init_val: Any,
    **options: Any,
) -> Any:
    with contextlib.suppress(TypeError):  # of bounds that are known when the program runs
        teller.known(operator.index(upper) - operator.index(lower))

    def step(i: Any, carry: Any) -> Any:
        carry = body_fun(i, carry)
        teller.step(i - lower, carry)
        return carry

    out = lax.fori_loop(lower, upper, step, init_val, **options)
    if teller.total is None:
        teller.end(upper - lower, out)
    return out


def _while_loop(
    teller: _Teller, cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    def step(counted: tuple[Any, Any]) -> tuple[Any, Any]:
        i, carry = counted
        carry = body_fun(carry)
        teller.step(i, carry)
        return i + 1, carry

    count, out = lax.while_loop(
        lambda counted: cond_fun(counted[1]), step, (jnp.int32(0), init_val)
    )
    teller.end(count, out)
    return out


_LOOPS: dict[Callable[..., Any], Callable[..., Any]] = {
    lax.scan: _scan,
    lax.fori_loop: _fori_loop,
    lax.while_loop: _while_loop,
}

"""The measurements of `teucer tune`: the rates of the CPU's cost model.

All times are processor times, so that other processes disturb little; and the least of several,
since disturbances only add. Programs compile anew, since each contains a new number.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import teucer as jax
from teucer import numpy as jnp
from teucer._base import config
from teucer._optimize.passes import optimize
from teucer._targets.cpu.constants import Rates

FLAT, CALLED, LOOPED = (4, 8, 16, 24, 32), (4, 8, 16, 32), 16  # layers
ROWS, FEATURES = 32, 64
LOOPS = (4, 16)
LONG = 1.0  # seconds
CALLS, PIECES = (20, 200), (2, 22)
ELEMENTS = 1 << 14
IN_CACHE, IN_MEMORY = (1 << 18, 1 << 19, 1 << 20), 1 << 24  # bytes

_numbers = itertools.count(1)


class Measured(NamedTuple):
    """The rates, and the seconds that networks took to compile, by equations and by layers."""

    rates: Rates
    flat: dict[int, float]
    outlined: dict[int, float]


def measure(say: Callable[[str], None]) -> Measured:
    """Measure all rates.

    say: called with the name of each measurement. Raises ValueError if a rate comes out as no
    positive number, since the machine is too busy.
    """
    with config.enable_compilation_cache(False), config.disable_most_optimizations(False):
        say("compiling networks and loops")
        _compile(lambda x: x + 1, [np.ones(3, np.float32)])  # loads the modules that compile
        lengths = {n: _equations(n) for n in FLAT}
        timed = _compiling(
            {("flat", n): lambda n=n: _compile(*_flat(n), outline=False) for n in FLAT}
            | {("called", n): lambda n=n: _compile(*_called(n)) for n in CALLED}
            | {("looped", LOOPED): lambda: _compile(*_looped(), outline=False)}
            | {("loops", n): lambda n=n: _compile(*_loops(n)) for n in LOOPS}
        )
        flat = {lengths[n]: timed["flat", n] for n in FLAT}
        outlined = {n: timed["called", n] for n in CALLED}
        program, equation, cubic = _fitted(flat, (0, 1, 3))
        fixed, called = _fitted(outlined, (0, 1))
        say("running calls, pieces and copies")
        dispatched = {len(run.program.steps.steps): run for run in map(_pieces, PIECES)}
        numbers = np.ones(ELEMENTS, np.float32)
        found = Rates(
            program=program,
            equation=equation,
            length=(equation / cubic) ** 0.5 if cubic > 0 < equation else -1.0,
            function=fixed - program,
            called=called,
            rolled=timed["looped", LOOPED] - fixed - called,
            loop=_slope({n: timed["loops", n] for n in LOOPS}),
            call=_slope({n: _step(_calls(n), [_SMALL]) for n in CALLS}),
            dispatch=_slope({n: _step(run, [_SMALL]) for n, run in dispatched.items()}),
            element=(_running(jnp.sin, numbers) - _running(jnp.sin, _SMALL)) / ELEMENTS,
            cached=max(map(_copied, IN_CACHE)),
            memory=_copied(IN_MEMORY),
        )
    wrong = [name for name, rate in found._asdict().items() if not rate > 0]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} came out as no positive number")
    return Measured(found, flat, outlined)


# --- Networks -------------------------------------------------------------------------------------

_SMALL = np.ones(16, np.float32)
_X, _W = np.ones((ROWS, FEATURES), np.float32), np.ones((FEATURES, FEATURES), np.float32)


def _layer(h: Any, w: Any, c: float) -> Any:
    mean = jnp.mean(h, -1, keepdims=True)
    variance = jnp.mean((h - mean) ** 2, -1, keepdims=True)
    return h + jnp.tanh((h - mean) / jnp.sqrt(variance + 1e-5) @ w) * c


def _network(layers: int, layer: Callable[[Any, Any], Any]) -> tuple[Any, list[Any]]:
    def loss(ws: Any, x: Any) -> Any:
        for w in ws:
            x = layer(x, w)
        return jnp.sum(x**2)

    return jax.grad(loss), [(_W,) * layers, _X]


def _flat(layers: int) -> tuple[Any, list[Any]]:
    c = _number()
    return _network(layers, lambda h, w: _layer(h, w, c))


def _called(layers: int) -> tuple[Any, list[Any]]:
    c = _number()
    return _network(layers, jax.jit(lambda h, w: _layer(h, w, c), outline=True))


def _looped() -> tuple[Any, list[Any]]:
    c = _number()

    def loss(ws: Any, x: Any) -> Any:
        return jnp.sum(jax.lax.scan(lambda h, w: (_layer(h, w, c), None), x, ws)[0] ** 2)

    return jax.grad(loss), [np.stack([_W] * LOOPED), _X]


def _equations(layers: int) -> int:
    function, args = _flat(layers)
    return len(optimize(jax.make_jaxpr(function)(*args).jaxpr).eqns)


def _loops(count: int) -> tuple[Any, list[Any]]:
    c = _number()
    arrays = [np.ones((8 + i, 96), np.float32) for i in range(count)]
    return lambda *xs: [jnp.sum(jnp.tanh(x) * c, -1) for x in xs], arrays


# --- Steps ----------------------------------------------------------------------------------------


def _chain(calls: int) -> Any:
    function = jax.jit(lambda h: jnp.cumsum(jnp.tanh(h) * 0.5), outline=True)

    def chain(x: Any) -> Any:
        for _ in range(calls):
            x = function(x)
        return x

    return chain


def _calls(count: int) -> Any:
    return jax.jit(_chain(count)).lower(_SMALL).compile()


def _pieces(count: int) -> Any:
    return jax.jit(_chain(count), outline=True).lower(_SMALL).compile()


def _copied(size: int) -> float:
    """Bytes a second of an array of so many."""
    array = jnp.ones(size // 4, np.float32)
    return size / (_running(lambda x: x + 1.5, array) - _running(lambda x: x + 1.5, _SMALL))


def _running(function: Any, x: Any) -> float:
    return _step(jax.jit(function).lower(x).compile(), [x])


# --- Times ----------------------------------------------------------------------------------------


def _number() -> float:
    return 1 + next(_numbers) / 1024


def _compile(function: Any, args: Sequence[Any], **options: Any) -> float:
    lowered = jax.jit(function, **options).lower(*args)
    start = time.process_time()
    lowered.compile()
    return time.process_time() - start


def _compiling(makes: dict[Any, Callable[[], float]]) -> dict[Any, float]:
    """The shortest time of four rounds in seconds; of two rounds where one takes long."""
    found: dict[Any, list[float]] = {}
    for turn in range(4):
        for key, make in makes.items():
            if turn < 2 or min(found[key]) < LONG:
                found.setdefault(key, []).append(make())
    return {key: min(times) for key, times in found.items()}


def _step(compiled: Any, args: Sequence[Any]) -> float:
    """The least seconds that one call takes, of fifteen turns."""
    jax.block_until_ready(compiled(*args))
    count = max(3, int(0.01 / _turn(compiled, args, 3)))
    return min(_turn(compiled, args, count) for _ in range(15))


def _turn(compiled: Any, args: Sequence[Any], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        result = compiled(*args)
    jax.block_until_ready(result)
    return (time.process_time() - start) / count


def _slope(seconds: dict[int, float]) -> float:
    (few, low), (many, high) = seconds.items()
    return (high - low) / (many - few)


def _fitted(seconds: dict[int, float], powers: Sequence[int]) -> list[float]:
    """Coefficients of a polynomial through the times; each may err by the same part."""
    sizes, times = np.array(list(seconds)), np.array(list(seconds.values()))
    terms = np.stack([sizes.astype(float) ** p for p in powers], 1) / times[:, None]
    return [float(c) for c in np.linalg.lstsq(terms, np.ones(len(times)), rcond=None)[0]]

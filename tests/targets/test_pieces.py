"""Programs in pieces.

Cut at the functions they call, run one after another, they give what the whole gives.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampling import some

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config
from teucer._core.jaxpr import Jaxpr, Literal, jaxprs_in_params
from teucer._optimize.dce import remove_dead
from teucer._optimize.passes import optimize
from teucer._optimize.structure import structural_key
from teucer._programs.program import Steps
from teucer._targets.cpu.rates import committed
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.outlining import constants
from teucer._targets.outlining.constants import FORCED_COSTS as ALL
from teucer._targets.outlining.constants import FORCED_LIMITS, Costs
from teucer._targets.outlining.cut_into_pieces import CutProgram, cut
from teucer._targets.outlining.outline import outline
from teucer._transform.jit_calls import hoist_consts

COSTS = committed().costs


def layer(x: Any, w: Any) -> Any:
    return x + jnp.tanh(jnp.cos(x * 2) @ w) * jnp.sin(x) - jnp.exp(-x * x)


def network(x: Any, ws: Any) -> Any:
    for w in ws:
        x = layer(x, w)
    return jnp.sum(x * x)


N = 136  # matrices so large that layers are not rolled into a loop that would stack them


def weights(count: int = 6) -> Any:
    keys = jax.random.split(jax.random.key(0), count)
    return [jax.random.normal(k, (N, N)) / N for k in keys], jnp.linspace(0.1, 1.0, 4 * N).reshape(
        4, N
    )


def step(ws: Any, x: Any) -> Any:
    value, gradients = jax.value_and_grad(lambda ws: network(x, ws))(ws)
    return [w - 0.1 * g for w, g in zip(ws, gradients, strict=True)], value


def pieces_of(f: Any, *args: Any, costs: Costs = ALL) -> tuple[Jaxpr, CutProgram | None]:
    jaxpr = remove_dead(optimize(hoist_consts(jax.make_jaxpr(f)(*args).jaxpr).jaxpr))
    jaxpr = outline(jaxpr, costs)
    return jaxpr, cut(jaxpr, FORCED_LIMITS)


def steps_of(f: Any, *args: Any, **options: Any) -> Steps | None:
    found: Steps | None = jax.jit(f, outline=True, **options).lower(*args).compile().program.steps
    return found


def same(f: Any, *args: Any) -> None:
    """f run in pieces gives what it gives as a whole."""
    assert steps_of(f, *args) is not None
    with jax.enable_x64(True):
        wide = jax.tree.map(
            lambda x: np.asarray(x, np.float64) if x.dtype == np.float32 else x, args
        )
        found, expected = jax.jit(f, outline=True)(*wide), jax.jit(f, outline=False)(*wide)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), found, expected
        )
        assert jax.tree.structure(found) == jax.tree.structure(expected)


def test_a_layer_is_compiled_once_and_called_often() -> None:
    ws, x = weights(8)
    _, found = pieces_of(step, ws, x)
    assert found is not None
    functions: dict[int, int] = {}
    for piece in found.pieces:
        functions[id(piece.jaxpr)] = functions.get(id(piece.jaxpr), 0) + 1
    assert sorted(functions.values())[-2] == 7 and len(found.pieces) == sum(functions.values()) < 24


def test_each_value_is_read_after_it_is_made_and_let_go_after_its_last_use() -> None:
    ws, x = weights()
    jaxpr, found = pieces_of(step, ws, x)
    assert found is not None
    held = set(range(len(jaxpr.invars) + len(found.consts)))
    count = len(held)
    for jaxpr, reads, drops, _ in found.pieces:
        assert held.issuperset(reads) and len(reads) == len(jaxpr.invars)
        new = range(count, count + len(jaxpr.outvars))
        count = new.stop
        held |= set(new)
        assert held.issuperset(drops)
        held -= set(drops)
    assert held >= set(found.results)
    kept = held - set(found.results)
    assert all(
        i < len(jaxpr.invars) + len(found.consts) for i in kept
    )  # nothing else outlives the pieces that read it


def test_what_is_cheap_is_made_where_it_is_used() -> None:
    def f(x: Any, ws: Any, b: Any) -> Any:
        late = jnp.broadcast_to(b, (4, N)) * 2  # needed at the end alone
        x = jnp.sort(x, axis=1)
        for w in ws:
            x = jax.jit(layer, outline=True)(x, w)
        return x * late

    ws, x = weights()
    _, found = pieces_of(f, x, ws, jnp.ones(N), costs=COSTS._replace(short=10**6))
    assert found is not None and len(found.pieces) == 8
    assert "mul" in str(found.pieces[-1].jaxpr) and "broadcast_in_dim" in str(
        found.pieces[-1].jaxpr
    )


def test_the_fewest_parts_between_calls() -> None:
    def f(x: Any, ws: Any) -> Any:
        kept = []
        for w in ws:
            x = jax.jit(layer, outline=True)(x, w)
            kept.append(jnp.sort(x, axis=0))  # may wait until all layers have run
        return kept

    ws, x = weights()
    _, found = pieces_of(
        f, x, ws, costs=COSTS._replace(short=10**6)
    )  # calls of jitted functions alone
    assert found is not None and len(found.pieces) == 7


def f_forwarded(x: Any, ws: Any) -> Any:
    """Results that are arguments, constants, and one value twice."""
    for w in ws:
        x = layer(x, w)
    return x, ws[0], x, jnp.float32(2.0), ws[0], jnp.arange(3)


def f_literals(x: Any, ws: Any) -> Any:
    """Functions called with constants that differ."""
    for i, w in enumerate(ws):
        x = layer(x * (i + 1.5), w)
    return x


def f_unused(x: Any, ws: Any) -> Any:
    return network(x, ws[:5])


def f_nested(x: Any, ws: Any) -> Any:
    for i in range(0, 6, 2):
        for w in ws[i : i + 2]:
            x = layer(x, w)
        x = jnp.sort(x, axis=1) - jnp.mean(x)
    return x


@pytest.mark.parametrize(
    "f",
    [
        f_forwarded,
        f_literals,
        f_unused,
        f_nested,
        lambda x, ws: step(ws, x),
        lambda x, ws: jax.grad(network)(x, ws),
        lambda x, ws: jax.vmap(network, (0, None))(jnp.stack([x, x + 1]), ws),
    ],
    ids=["forwarded", "literals", "unused", "nested", "step", "grad", "vmap"],
)
def test_pieces_give_what_the_whole_gives(f: Any) -> None:
    ws, x = weights()
    same(f, x, ws)


def test_integers_keys_and_booleans_pass_between_pieces() -> None:
    def f(x: Any, ws: Any, key: Any) -> Any:
        for w in ws:
            key, new = jax.random.split(key)
            keep = jax.random.bernoulli(new, 0.5, x.shape)
            x = jnp.where(keep, layer(x, w), x)
        return x, key, keep, jnp.argmax(x)

    ws, x = weights()
    for key in (jax.random.key(1), jax.random.PRNGKey(1)):
        assert steps_of(f, x, ws, key) is not None
        found, expected = (
            jax.jit(f, outline=True)(x, ws, key),
            jax.jit(f, outline=False)(x, ws, key),
        )
        assert found[1].dtype == key.dtype
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
                a, b = jax.random.key_data(a), jax.random.key_data(b)
            np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


def test_results_are_arrays_of_their_own() -> None:
    ws, x = weights()
    a, w, b, *_ = jax.jit(f_forwarded, outline=True)(x, ws)
    a.delete()
    assert not b.is_deleted() and not w.is_deleted() and not ws[0].is_deleted()


def test_donated_arguments_are_deleted() -> None:
    ws, x = weights()
    expected = jax.jit(step, outline=False)(ws, x)
    train = jax.jit(step, outline=True, donate_argnums=0)
    found = train(ws, x)
    assert all(w.is_deleted() for w in ws) and not x.is_deleted()
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found, expected
    )
    with pytest.raises(RuntimeError, match="deleted"):
        train(ws, x)
    ws, x = weights()
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        jax.jit(network, outline=True, donate_argnums=1)(x, ws)


def test_an_array_that_is_donated_and_given_twice_is_refused_before_anything_runs() -> None:
    ws, x = weights()
    train = jax.jit(step, outline=True, donate_argnums=0)
    twice = [ws[1], *ws[1:]]
    with pytest.raises(
        RuntimeError,
        match=r"(?s)donate the same buffer twice.* ws\[0\] and ws\[1\] are.*float32\[.*x\.copy\(\)",
    ):
        train(twice, x)
    assert not any(w.is_deleted() for w in ws)
    train(ws, x)


def test_ordered_effects_keep_a_program_whole_and_others_are_in_pieces(capfd: Any) -> None:
    seen: list[float] = []

    def f(x: Any, ws: Any, ordered: bool) -> Any:
        for i, w in enumerate(ws):
            x = layer(x, w)
            if i in (1, 4):
                jax.debug.print(f"{i} {{}}", jnp.sum(x), ordered=ordered)
        jax.debug.callback(lambda y: seen.append(float(y)), jnp.max(x))
        return x

    ws, x = weights()
    whole, pieces = (
        jax.jit(f, outline=True, static_argnums=2).lower(x, ws, ordered).compile()
        for ordered in (True, False)
    )
    assert whole.program.steps is None
    assert pieces.program.steps is not None and len(pieces.program.steps.steps) > 3
    results = []
    for program in (whole, pieces, pieces):
        results.append(program(x, ws))
        jax.effects_barrier()
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-5)
    said = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == ["1", "4"] * 3
    np.testing.assert_allclose(seen, float(jnp.max(results[0])), rtol=1e-5)
    assert len(seen) == 3


def test_an_error_in_a_callback_of_a_piece_is_raised() -> None:
    def fail(y: Any) -> None:
        raise ValueError("seen in a piece")

    def f(x: Any, ws: Any) -> Any:
        for w in ws:
            x = layer(x, w)
        jax.debug.callback(fail, jnp.max(x))
        return x

    ws, x = weights()
    assert steps_of(f, x, ws) is not None

    def run() -> None:
        jax.block_until_ready(jax.jit(f, outline=True)(x, ws))
        jax.effects_barrier()

    with pytest.raises(Exception, match="seen in a piece"):
        run()


def test_small_programs_are_whole_and_other_choices_hold() -> None:
    ws, x = weights()
    assert jax.jit(network).lower(x, ws).compile().program.steps is None
    wide = [jnp.ones((512, 512)) for _ in range(40)]
    big = jax.jit(step).lower(wide, jnp.ones((512, 512))).compile()
    assert (
        big.program.steps is not None and len({id(s.program) for s in big.program.steps.steps}) <= 6
    )
    assert (
        jax.jit(step, outline=False).lower(wide, jnp.ones((512, 512))).compile().program.steps
        is None
    )


def test_questions_are_answered_by_the_whole() -> None:
    ws, x = weights()
    found = jax.jit(step, outline=True).lower(ws, x).compile()
    assert found.program.steps is not None
    assert "ENTRY" in found.as_text() and found.cost_analysis()["flops"] > 1000
    assert found.memory_analysis().argument_size_in_bytes == 4 * (6 * N * N + 4 * N)
    assert (
        len(jax.tree.leaves(found.input_formats)) == 7
        and len(jax.tree.leaves(found.output_formats)) == 7
    )
    from teucer.experimental import serialize_executable

    loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(found))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        loaded(ws, x),
        found(ws, x),
    )


def test_unused_arguments_are_kept_if_asked() -> None:
    ws, x = weights()
    f = jax.jit(f_unused, outline=True)
    assert f.lower(x, ws).compile().program.kept == (True,) * 6 + (False,)
    kept = jax.jit(f_unused, outline=True, keep_unused=True)
    assert kept.lower(x, ws).compile().program.kept == (True,) * 7
    np.testing.assert_allclose(kept(x, ws), f(x, ws))


def test_one_row_and_one_log_line_for_all_pieces(caplog: Any) -> None:
    ws, x = weights()
    table = jax.debug.compiles()
    table.clear()
    with caplog.at_level(logging.WARNING, "teucer"), jax.log_compiles(True):
        jax.jit(step, outline=True)(ws, x + 0)
    assert [row.function for row in table].count("step") == 1
    assert next(row for row in table if row.function == "step").code_bytes
    for line in (
        "Compiling",
        "Finished jaxpr to MLIR module conversion",
        "Finished XLA compilation of",
    ):
        assert sum(f"{line} jit(step)" in record.getMessage() for record in caplog.records) == 1


def test_options_of_the_thread_hold_where_pieces_are_compiled(tmp_path: Any) -> None:
    def compiled_here_alone(
        ws: Any, x: Any
    ) -> Any:  # by name: pieces of programs of other names are other programs
        return step(ws, x)

    ws, x = weights()
    with config.cache_dir(str(tmp_path)):
        jax.jit(compiled_here_alone, outline=True)(ws, x)
    assert len(list(tmp_path.rglob("*"))) >= 4


def test_nan_is_found_in_a_piece() -> None:
    ws, x = weights()
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        jax.jit(step, outline=True)(ws, x.at[0, 0].set(jnp.nan))


def test_a_literal_result_is_made() -> None:
    ws, x = weights()
    jaxpr, found = pieces_of(lambda x, ws: (network(x, ws), 3.0), x, ws)
    assert found is not None and type(jaxpr.outvars[1]) is Literal
    assert [float(v) for v in jax.jit(lambda x, ws: (network(x, ws), 3.0), outline=True)(x, ws)][
        1
    ] == 3.0


SHARING = FORCED_LIMITS._replace(groups=3, repeated=500)  # small programs have groups too


def scaled_layer(x: Any, w: Any, scale: Any) -> Any:
    return layer(x * scale, w)


def deep(count: int, kept: Any = ()) -> Any:
    """A function of layers and its arguments; each layer takes a number, and what some of them make
    are results too."""

    def f(x: Any, ws: Any) -> Any:
        results = []
        for i in range(count):
            x = jax.jit(scaled_layer, outline=True)(x, ws[i], i / count + 0.5)
            if i in kept:
                results.append(x)
        return x, results

    ws, x = weights(count)
    return f, x, ws


def calls_of(f: Any, *args: Any, limits: Any = SHARING) -> list[int]:
    jaxpr, _ = pieces_of(f, *args, costs=COSTS._replace(short=10**6))
    found = cut(jaxpr, limits)
    assert found is not None
    return [piece.calls for piece in found.pieces if piece.calls]


@pytest.mark.parametrize(
    ("count", "groups", "calls"),
    [
        (16, 4, [4] * 4),
        (12, 6, [4] * 3),
        (10, 3, [1] * 10),
        (5, 1, [1] * 5),
        (15, 4, [1] * 15),
        (20, 8, [4] * 5),
        (23, 5, [1] * 3 + [4] * 5),
        (43, 8, [1] * 3 + [4] * 10),
    ],
)
def test_calls_that_follow_one_another_share_pieces(
    count: int, groups: int, calls: list[int]
) -> None:
    assert sorted(calls_of(*deep(count), limits=SHARING._replace(groups=groups))) == calls


def test_what_bounds_the_calls_of_a_piece() -> None:
    def f(x: Any, ws: Any) -> Any:
        for w in ws:
            x = jax.jit(layer, outline=True)(x, w)
        return x

    ws, x = weights(12)
    length = len(jax.make_jaxpr(layer)(x, ws[0]).eqns)
    held = 4 * (N * N + 2 * 4 * N)
    assert calls_of(f, x, ws, limits=SHARING._replace(repeated=length)) == [2] * 6
    assert calls_of(f, x, ws, limits=SHARING._replace(repeated=length - 1)) == [1] * 12
    assert calls_of(f, x, ws, limits=SHARING._replace(held=3 * held)) == [2] * 6
    assert (
        calls_of(f, x, ws, limits=SHARING._replace(grouped=8, repeated=11 * length)) == [1] * 12
    )  # groups of 8 leave a rest
    assert calls_of(f, x, ws, limits=FORCED_LIMITS) == [1] * 12


def test_calls_between_which_data_flow_differently_do_not_share_pieces() -> None:
    f, x, ws = deep(24, kept={1})
    assert calls_of(f, x, ws) == [4] * 6  # the first piece is one of its own
    f, x, ws = deep(24, kept={1, 5, 6, 10, 13, 14, 18})
    assert calls_of(f, x, ws) == [1] * 24


def test_functions_without_equations() -> None:
    def f(x: Any) -> Any:
        for _ in range(4):
            _, x = jax.jit(lambda y, z: (z, y), outline=True)(x, x + 1)
            x = jax.jit(layer, outline=True)(x, x)
        return x

    jaxpr = outline(
        jax.make_jaxpr(f)(jnp.ones((4, 4))).jaxpr, ALL
    )  # as traced: optimization takes such functions away
    found = cut(jaxpr, SHARING)
    assert found is not None and sum(not p.jaxpr.eqns for p in found.pieces) == 4


@pytest.mark.parametrize("kept", [(), (1,), (0, 1, 23)])
@pytest.mark.parametrize(
    "of",
    [lambda f: f, lambda f: jax.grad(lambda x, ws: jnp.sum(f(x, ws)[0] ** 2), (0, 1))],
    ids=["f", "grad"],
)
def test_shared_pieces_give_what_the_whole_gives(monkeypatch: Any, of: Any, kept: Any) -> None:
    monkeypatch.setattr(constants, "FORCED_LIMITS", SHARING)
    f, x, ws = deep(24, kept)
    steps = steps_of(of(f), x, ws)
    assert steps is not None and len(steps.steps) <= 20
    same(of(f), x, ws)


def test_arguments_of_shared_pieces_are_donated(monkeypatch: Any) -> None:
    monkeypatch.setattr(constants, "FORCED_LIMITS", SHARING)
    ws, x = weights(24)
    expected = jax.jit(step, outline=False)(ws, x)
    train = jax.jit(step, outline=True, donate_argnums=0)
    steps = steps_of(step, ws, x)
    assert steps is not None and len(steps.steps) < 2 * 22  # of 22 layers
    found = train(ws, x)
    assert all(w.is_deleted() for w in ws)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found, expected
    )


class Edited:
    """Teucer, for a program in which the gelu of one layer is another function."""

    def __init__(self, layer: int | None) -> None:
        self.nn, self.left = self, layer
        self.log_softmax = jax.nn.log_softmax
        self.softmax = jax.nn.softmax

    def gelu(self, x: Any) -> Any:
        self.left = None if self.left is None else self.left - 1
        return jnp.sin(jax.nn.gelu(x)) if self.left == -1 else jax.nn.gelu(x)


def test_an_edit_of_one_layer_leaves_the_functions_of_the_others(monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import programs
    import transformer

    def functions(edited: int | None) -> set[Any]:
        step = programs.train_step(jax, transformer.make_loss(Edited(edited), jnp))
        jaxpr, _ = pieces_of(
            step, transformer.init_params(24), *transformer.make_batch(), costs=COSTS
        )
        return {
            structural_key(eqn.params["jaxpr"].jaxpr)
            for eqn in jaxpr.eqns
            if eqn.primitive is outlined_call_p
        }

    assert len(functions(None)) == 2  # forward and backward
    assert functions(10) >= functions(None)


@pytest.mark.parametrize("together", some([2, 3, 5], 3))
@pytest.mark.parametrize("last", [1, 3])
def test_many_periods_in_short_runs_are_pieces(together: int, last: int) -> None:
    def f(x: Any, ws: Any) -> Any:
        for i, w in enumerate(ws):
            x = layer(x, w)
            if i % together == together - 1 and i < 20 - last:
                x = jnp.sort(x, -1)
        return x

    ws, x = weights(20)
    same(f, x, ws)
    same(jax.grad(lambda x, ws: jnp.sum(f(x, ws))), x, ws)


def edited_step(kind: str = "", place: int = 0, edited: int | None = None, depth: int = 32) -> Any:
    """The training step of a deep network, and its arguments; an edit of it."""

    def at(i: int, here: int, x: Any) -> Any:
        return jnp.sin(x) if kind == "layer" and (i, here) == (edited, place) else x

    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def loss(ws: Any, x: Any) -> Any:
        x = x * 3
        for i, (w, u, scale) in enumerate(ws):
            y = at(i, 0, norm(x) * scale) @ w
            x = at(i, 1, x + jnp.tanh(y) @ u)
            y = at(i, 2, jax.nn.softmax(x @ x.T / 8.0) @ norm(x))
            x = at(i, 3, x + jax.nn.gelu(y @ w) @ u)
            if kind == "print" and i == edited:
                jax.debug.print("{}", jnp.sum(x))
        value = jnp.mean(x**2)
        if kind == "loss":
            value = value + 1e-3 * jnp.mean(jnp.abs(x))
        return (value, jnp.max(x)) if kind == "metric" else value

    # The first rate is equal to another number of the update.
    rate, decay = (0.2, 0.7) if kind == "rate" else (0.25, 0.75)

    def step(state: Any, x: Any) -> Any:
        ws, means = state
        value, gradients = jax.value_and_grad(loss, has_aux=kind == "metric")(ws, x)
        means = jax.tree.map(lambda m, g: decay * m + (1 - decay) * g, means, gradients)
        ws = jax.tree.map(lambda w, m: w - rate * m, ws, means)
        return (ws, means), value

    ws = [tuple(map(np.ones, ((256, 512), (512, 256), 256))) for _ in range(depth)]
    return step, (ws, ws), np.ones((32 if kind == "batch" else 64, 256))


def executables(step: Any, *args: Any) -> dict[Any, int]:
    """The executables of a step, by their structure: of how many equations."""
    jaxpr, _ = pieces_of(step, *args, costs=COSTS)
    found = cut(jaxpr, committed().limits)
    assert found is not None
    return {structural_key(p.jaxpr): equations(p.jaxpr) for p in found.pieces}


def equations(jaxpr: Jaxpr) -> int:
    """Equations of a jaxpr, those of a function once."""
    functions = {id(j): j for eqn in jaxpr.eqns for j in jaxprs_in_params(eqn.params)}
    return len(jaxpr.eqns) + sum(equations(j) for j in functions.values())


UNEDITED = cache(lambda: executables(*edited_step()))
SINGLES = cache(lambda: executables(*edited_step(depth=33)))
PART = 0.4  # of the equations of the whole program


@pytest.mark.parametrize(("layer", "place"), some([(0, 1), (13, 0), (12, 2), (13, 3), (31, 2)], 3))
def test_an_edit_of_one_layer_compiles_that_layer(layer: int, place: int) -> None:
    """Forward and backward, with what the program begins or ends with, and single calls of what the
    other layers are: those serve all later edits."""
    known, found = UNEDITED(), executables(*edited_step("layer", place, layer))
    new = found.keys() - known.keys()
    own = new - SINGLES().keys()
    assert len(new) <= 4 and len(own) <= 2
    assert sum(found[key] for key in own) <= PART * sum(known.values())


@pytest.mark.parametrize(("kind", "most"), [("rate", 0), ("loss", 1), ("metric", 1), ("print", 1)])
def test_other_edits_compile_what_they_change(kind: str, most: int) -> None:
    new = executables(*edited_step(kind, edited=12)).keys() - UNEDITED().keys()
    assert len(new - SINGLES().keys()) <= most


@pytest.mark.parametrize(("depth", "most"), [(24, 0), (30, 2), (33, 2)])
def test_another_number_of_layers_compiles_single_calls(depth: int, most: int) -> None:
    assert len(executables(*edited_step(depth=depth)).keys() - UNEDITED().keys()) <= most


def test_another_batch_compiles_everything() -> None:
    assert not executables(*edited_step("batch")).keys() & UNEDITED().keys()

"""The CPU's cost model: what it predicts, what follows from it, and the file that a user has
measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config
from teucer._devices import processes
from teucer._executables import cpu_features
from teucer._programs.prefetched import PrefetchKey
from teucer._targets.cpu import tuned
from teucer._targets.cpu.constants import CLEAR, COMMITTED, Rates
from teucer._targets.cpu.rates import (
    committed,
    committed_for,
    committed_rates,
    rounded,
    thresholds,
)
from teucer._targets.table import target_of
from teucer._xla.client import jaxlib_version
from teucer.cli import _measures, main

OURS = committed_rates(jaxlib_version)
# A machine on which functions cost next to nothing to compile.
CHEAP_CALLS = OURS._replace(function=OURS.function / 100, called=OURS.called / 100)


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """The path of a file that the option names."""
    tuned._found.cache_clear()
    with config.rates(str(tmp_path / "sub" / "rates.json")):
        yield tmp_path / "sub" / "rates.json"
    tuned._found.cache_clear()


@pytest.mark.parametrize("rates", COMMITTED.values(), ids=str)
def test_predictions_grow_with_programs_and_rates(rates: Rates) -> None:
    sizes = range(10, 5000, 70)
    flat = [rates.flat(n) for n in sizes]
    assert flat == sorted(set(flat))
    assert np.all(np.diff(flat, 2) > 0)  # each equation takes longer than the one before
    outlined = [rates.outlined(n) for n in range(1, 60)]
    assert outlined == sorted(set(outlined)) and rates.looped() > outlined[0]
    for name in ("program", "equation", "function", "called", "rolled"):
        slower = rates._replace(**{name: 2 * getattr(rates, name)})
        assert slower.flat(500) + slower.outlined(9) + slower.looped() > (
            rates.flat(500) + rates.outlined(9) + rates.looped()
        )
    # A deep network is worth functions, one of two layers is not; a deeper one is worth a loop.
    assert rates.outlined(24) < rates.flat(24 * 64) / 2
    assert rates.outlined(2) > rates.flat(2 * 64)
    assert rates.looped() < rates.outlined(24)


@pytest.mark.parametrize("jaxlib", ["0.10.2", "0.11.2", "0.12.0.1"])
def test_committed_rates_give_what_was_measured_on_whole_programs(jaxlib: str) -> None:
    """benchmarks/notes/outlining.md and corpus.md."""
    found = committed_for(jaxlib)
    assert found.costs._asdict() == {
        "short": 16,
        "fused": 64,
        "saved": 48,
        "few": 4,
        "saved_by_few": 256,
        "separated": 64,
        "carried": 3 << 19,
        "many": 16,
        "steps": 4,
        "stacked": 1 << 16,
    }
    assert found.limits == (3 << 19, 512, 4, 6, 512, 1 << 25, 3)
    assert (found.expensive, found.long) == (1 << 12, 1 << 17)


def test_the_release_of_jaxlib_chooses() -> None:
    assert committed_rates("0.10.2") is COMMITTED[0, 10] is committed_rates("0.9.1")
    assert committed_rates("0.11.2") is COMMITTED[0, 10]
    assert committed_rates("0.12.0.1") is COMMITTED[0, 12] is committed_rates("1.0.0")


@pytest.mark.parametrize(
    ("rate", "threshold", "direction"),
    [
        ("function", "saved_by_few", 1),
        ("function", "few", 1),
        ("called", "short", 1),
        ("called", "saved", 1),
        ("called", "steps", -1),
        ("rolled", "steps", 1),
        ("loop", "fused", 1),
        ("loop", "long", 1),
        ("equation", "short", -1),
        ("equation", "fused", -1),
        ("length", "pieces.copied", 1),
        ("length", "pieces.repeated", 1),
        ("dispatch", "pieces.carried", 1),
        ("memory", "carried", 1),
        ("memory", "stacked", 1),
        ("call", "stacked", 1),
        ("call", "expensive", 1),
        ("element", "expensive", -1),
        ("cached", "long", 1),
    ],
)
def test_thresholds_follow_rates(rate: str, threshold: str, direction: int) -> None:
    """Twice the rate, another threshold; and never the other way."""
    values = [
        thresholds(OURS._replace(**{rate: getattr(OURS, rate) * factor})).named()[threshold]
        for factor in (0.25, 0.5, 1, 2, 4)
    ]
    assert values == sorted(values, reverse=direction < 0) and len(set(values)) >= 4


def test_rounded() -> None:
    assert [rounded(n) for n in (0.1, 1, 2.4, 2.5, 4.8, 17, 43, 500, 9e5)] == [
        1,
        1,
        2,
        3,
        4,
        16,
        48,
        512,
        786432,
    ]
    assert all(rounded(n) / 1.3 < n < rounded(n) * 1.3 for n in range(1, 3000))


def test_what_a_measurement_errs_by_changes_nothing() -> None:
    ours = committed()
    near = thresholds(OURS._replace(equation=OURS.equation * 1.3, call=OURS.call / 1.3))
    assert near.settled(ours) == ours and near != ours
    far = thresholds(OURS._replace(equation=OURS.equation * 2 * CLEAR)).settled(ours)
    assert far.costs.short < ours.costs.short and far.expensive == ours.expensive


# --- Files ----------------------------------------------------------------------------------------


def test_a_file_is_read_as_it_was_written(file: Path) -> None:
    assert tuned.current() == committed()
    tuned.write(file, CHEAP_CALLS)
    assert tuned.read(file) == CHEAP_CALLS
    assert tuned.current() == thresholds(CHEAP_CALLS).settled(committed()) != committed()
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    with config.rates("committed"):
        assert tuned.current() == committed() and tuned.path() is None


def test_the_default_is_beside_the_cache_of_the_user(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with config.rates(None):
        assert tuned.path() == tmp_path / "teucer" / f"rates-{jaxlib_version}.json"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "nowhere")
        assert tuned.path() is None


@pytest.mark.parametrize("name", ["jaxlib", "processor"])
def test_another_jaxlib_or_processor_ignores_it(file: Path, name: str) -> None:
    tuned.write(file, CHEAP_CALLS)
    file.write_text(json.dumps(json.loads(file.read_text()) | {name: "another"}))
    tuned._found.cache_clear()
    assert tuned.current() == committed()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\xff",
        "[1, 2]",
        "7",
        '{"jaxlib": "0.10.2", "processor": ',
        '{"jaxlib": "0.10.2", "processor": "x"}',
        '{"jaxlib": "0.10.2", "processor": "x", "rates": {"called": 1}}',
        '{"jaxlib": "0.10.2", "processor": "x", "rates": 3}',
    ],
)
def test_a_damaged_file_is_a_warning_and_ignored(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    with pytest.warns(UserWarning, match=r"rates\.json: the rates of `teucer tune` cannot be read"):
        assert tuned.current() == committed()
    assert tuned.current() == committed()  # one warning


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), "1", True, None])
def test_rates_that_are_no_positive_numbers_are_damage(file: Path, rate: Any) -> None:
    tuned.write(file, CHEAP_CALLS._replace(called=rate))
    with pytest.warns(UserWarning, match="a rate is not a positive number"):
        assert tuned.current() == committed()


def test_a_folder_in_its_place_is_a_warning(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.warns(UserWarning, match="cannot be read, and are ignored"):
        assert tuned.current() == committed()


def test_several_processes_use_the_committed_rates(file: Path, monkeypatch: Any) -> None:
    """Their machines may differ, and their programs must not."""
    tuned.write(file, CHEAP_CALLS)
    assert tuned.current() != committed()
    monkeypatch.setattr(processes.state, "client", object())
    assert tuned.current() == committed()


# --- Programs -------------------------------------------------------------------------------------


def three_layers(x: Any, ws: Any) -> Any:
    for w in ws:
        x = x + jnp.tanh((x - jnp.mean(x)) @ w) * jnp.exp(-x * x) + jnp.cos(x @ w) / (1 + x * x)
    return x


ARGS = np.ones((4, 4), np.float32), [np.ones((4, 4), np.float32) + i for i in range(3)]


def test_a_file_changes_decisions_and_the_keys(file: Path) -> None:
    def calls() -> int:
        jaxpr = jax.make_jaxpr(three_layers)(*ARGS).jaxpr
        return sum(
            eqn.primitive.name == "outlined_call"
            for eqn in target_of("cpu").prepare(jaxpr, "auto").eqns
        )

    def keys() -> tuple[str | None, str]:
        traced = jax.jit(three_layers).trace(*ARGS)
        return PrefetchKey(traced.job, None).fingerprint(), traced.lower().compile().as_text()

    assert calls() == 0
    before = keys()
    tuned.write(file, CHEAP_CALLS)
    assert calls() == 3
    after = keys()
    assert before[0] != after[0] is not None  # what prefetch goes by
    assert before[1] != after[1]  # what goes by the text


def test_programs_of_other_rates_are_others_in_memory(file: Path) -> None:
    tuned.write(file, CHEAP_CALLS)
    f = jax.jit(three_layers)

    def text(rates: str) -> str:
        with config.rates(rates):
            return str(f.lower(*ARGS).compile().as_text())

    assert text(str(file)) != text("committed") == text("committed")


# --- The command ----------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch: Any) -> Any:
    def measure(say: Any) -> Any:
        say("measuring")
        return _measures.Measured(CHEAP_CALLS, {100: 0.5}, {4: 0.25})

    monkeypatch.setattr(_measures, "measure", measure)


@pytest.mark.usefixtures("measured")
def test_tune(file: Path, capsys: Any) -> None:
    assert main(["tune"]) == 0
    out = capsys.readouterr().out
    assert f"jaxlib {jaxlib_version}, {cpu_features.model()}" in out
    assert "ratio" in out and "measuring ..." in out
    assert any(
        line.split()[0:1] == ["called"] and line.endswith("0.01") for line in out.split("\n")
    )
    assert "  saved_by_few            256 ->" in out and "expensive" not in out
    assert f"Written to {file}." in out
    assert tuned.read(file) == CHEAP_CALLS
    assert main(["tune", "--reset"]) == 0 and not file.exists()
    assert main(["tune", "--reset"]) == 0
    assert f"There is nothing to remove: {file}." in capsys.readouterr().out


@pytest.mark.usefixtures("measured")
def test_tune_without_writing(file: Path, capsys: Any) -> None:
    assert main(["tune", "--dry-run"]) == 0
    assert "Nothing was written" in capsys.readouterr().out and not file.exists()


@pytest.mark.usefixtures("measured")
def test_tune_without_a_file(capsys: Any) -> None:
    with config.rates("committed"):
        assert main(["tune"]) == 2
        assert "teucer tune: there is no file for the rates" in capsys.readouterr().err
        assert main(["tune", "--dry-run"]) == 0


@pytest.mark.usefixtures("measured")
def test_tune_says_that_it_cannot_write(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "a file").touch()
    with config.rates(str(tmp_path / "a file" / "rates.json")):
        assert main(["tune"]) == 2
    assert "cannot be used" in capsys.readouterr().err


def test_tune_on_a_busy_machine(file: Path, capsys: Any, monkeypatch: Any) -> None:
    def measure(say: Any) -> Any:
        raise ValueError("length came out as no positive number")

    monkeypatch.setattr(_measures, "measure", measure)
    assert main(["tune"]) == 2 and not file.exists()
    assert "length came out as no positive number" in capsys.readouterr().err


def test_the_fit_finds_what_times_are_made_of() -> None:
    times = {n: 0.2 + 0.001 * n + 1e-9 * n**3 for n in (100, 200, 400, 800)}
    assert np.allclose(_measures._fitted(times, (0, 1, 3)), [0.2, 0.001, 1e-9])
    assert _measures._slope({3: 1.0, 7: 3.0}) == 0.5


@pytest.mark.slow
def test_measuring() -> None:
    found = _measures.measure(lambda what: None)
    assert 0.1 < found.rates.length / OURS.length < 10
    assert set(found.outlined) == set(_measures.CALLED)

"""What plans advise, of parts that are given."""

import dataclasses

import pytest

from teucer._plan import advice, page, text
from teucer._plan.advice import Argument
from teucer._plan.chips import BY_NAME
from teucer._plan.memory import Held, Memory, refusal
from teucer._plan.parts import Part
from teucer._plan.plan import Plan

V5E = BY_NAME["v5e"]
GIB = 2**30


def collective(line, types, waited, *, axes=("data",), again=False, backward=False):
    return Part(
        "collective", "all-reduce", types, axes, "x and y", 4, waited, waited, 0.0, 2**28, 2e9,
        "dot_general", line, backward, again,
    )  # fmt: skip


def plan_of(*parts, peak=GIB, results=0, why="", mesh=None):
    held = (Held("f32[32,16,512,512]", 1, 5 * GIB, "softmax", "step.py:28"),)
    seconds = sum(p.waited for p in parts) or 0.01
    return Plan(
        "step", "v5e-16", 16, V5E, mesh or {"data": 16, "model": 1},
        Memory(peak, int(V5E.memory), GIB, results, 5 * GIB, 0, 0, held, 5 * GIB, why),
        None if why else seconds, parts, 1e12, 1e13, 16384, 1.2, 3.0, (),
    )  # fmt: skip


TOKENS = Argument("tokens", (32, 512), "int32", (("data",), ()), 4096, False, False)
PARAMS = Argument(
    "params['up']", (4, 2048, 8192), "float32", ((), ("data",), ()), 2**24, True, True
)
WHOLE = Argument("params['up']", (4, 2048, 8192), "float32", ((), (), ()), 4 * GIB, True, True)


def test_sums_of_whole_activations():
    """fsdp without a constraint: the line, what it sends, and what to write."""
    found = plan_of(
        collective("step.py:30", "bf16[32,512,8192]", 0.02),
        collective("step.py:26", "bf16[32,512,2048]", 0.01),
        collective("step.py:20", "f32[32,512]", 0.0001),
    )
    said = advice.advice(found, [PARAMS, TOKENS])
    assert "tokens lies along 'data'" in said[0]
    assert "step.py:30, step.py:26 and 1 other line sum values" in said[0]
    assert (
        "Write before step.py:26: h = jax.lax.with_sharding_constraint(h, jax.P('data'))" in said[0]
    )


@pytest.mark.parametrize(
    "part",
    [
        collective("step.py:30", "f32[2048,8192]", 0.02, backward=True),  # a gradient
        collective("step.py:30", "bf16[2,512,8192]", 0.02),  # of a part of the batch
        collective("step.py:30", "bf16[32,512,8192]", 0.02, axes=("model",)),
    ],
)
def test_other_sums_are_as_they_should_be(part):
    said = advice.advice(plan_of(part), [PARAMS, TOKENS])
    assert not any("hold the activations" in one for one in said)


def test_donation_and_results():
    large = dataclasses.replace(plan_of(peak=12 * GIB, results=6 * GIB))
    given = [WHOLE._replace(donated=False), TOKENS]
    said = " ".join(advice.advice(large, given))
    assert "donate_argnames=('params',)) takes 4.0 GiB a device off" in said
    assert "lay results out as arguments: what the step hands back takes 6.0 GiB" in said


def test_what_would_make_it_fit():
    backward = collective("step.py:9", "f32[8,8]", 0.01, backward=True)
    found = plan_of(backward, peak=20 * GIB, why="E1000: CompileTimeHbmOom")
    assert not found.fits
    said = advice.advice(found, [WHOLE, TOKENS])
    assert any(
        "params['up'] as P(None, None, 'data')" in one and "3.8 GiB off" in one for one in said
    )
    assert any("f32[32,16,512,512] of step.py:28" in one for one in said)
    assert found.limit == "memory of the device"


def test_forms():
    found = dataclasses.replace(
        plan_of(collective("step.py:30", "bf16[32,512,8192]", 0.02)), advice=("hold it",)
    )
    shown = text.report(found)
    assert "20 ms, limited by collectives" in shown
    assert "  - hold it" in shown
    # 16 chips for 20 ms at 1.2 an hour, over 16384 tokens.
    assert found.cost_per_million == pytest.approx(16 * 1.2 * 0.02 / 3600 / 16384 * 1e6)
    assert found.utilisation == pytest.approx(1e13 / (0.02 * 16 * V5E.peak))
    assert "<li>hold it</li>" in page.page(found)
    assert text.as_dict(found)["memory"]["held"][0]["bytes"] == 5 * GIB


def test_refusals_of_the_compiler():
    early = (
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
    )
    early += (
        "required for HLO temporaries (26.00G) exceeds available HBM (15.75G). HLO module: jit_f."
    )
    found = refusal(RuntimeError(early), V5E)
    assert (found.peak, found.fits) == (26 * GIB, False)
    assert refusal(RuntimeError("INVALID_ARGUMENT: something else"), V5E) is None

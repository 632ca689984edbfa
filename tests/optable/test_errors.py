"""Laws of bad calls.

They raise, the error says which function and what is wrong with which operand.
"""

from __future__ import annotations

import re

import pytest
from optable.table import Bad, Op, Sample, all_ops
from optable.trees import flat_call

from teucer._derived.staging import make_jaxpr

# A line of its own that says `operand: float32[2,3]`.
LONG = r"\n\s+\w+: (float|int|uint|complex)\d+\["
CASES = [
    pytest.param(op, bad, id=f"{op}-{i}")
    for op in all_ops().values()
    for i, bad in enumerate(op.errors)
]


@pytest.mark.parametrize(("op", "bad"), CASES)
def test_bad_call_raises(op: Op, bad: Bad) -> None:
    """A bad call raises the same error eagerly and while it is traced; lines that name operands
    give their types in the short form."""
    with pytest.raises(bad.error, match=bad.match) as eager:
        op(*bad.args, **bad.kwargs)
    leaves, f = flat_call(op, Sample(bad.args, bad.kwargs))
    with pytest.raises(bad.error, match=bad.match) as traced:
        make_jaxpr(f)(*leaves)
    for raised in (eager, traced):
        assert not re.search(LONG, str(raised.value)), raised.value

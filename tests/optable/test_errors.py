"""Laws of bad calls.

They raise, the error says which function and what is wrong with which operand.
"""

from __future__ import annotations

import pytest
from optable.table import Bad, Op, Sample, all_ops
from optable.trees import flat_call

from teucer._transform.staging import make_jaxpr

CASES = [
    pytest.param(op, bad, id=f"{op}-{i}")
    for op in all_ops().values()
    for i, bad in enumerate(op.errors)
]


@pytest.mark.parametrize(("op", "bad"), CASES)
def test_bad_call_raises(op: Op, bad: Bad) -> None:
    """A bad call raises the same error eagerly and while it is traced."""
    with pytest.raises(bad.error, match=bad.match):
        op(*bad.args, **bad.kwargs)
    leaves, f = flat_call(op, Sample(bad.args, bad.kwargs))
    with pytest.raises(bad.error, match=bad.match):
        make_jaxpr(f)(*leaves)

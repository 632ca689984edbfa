"""The laws of `laws.py` in two processes of two devices, and in two of one."""

import pytest
from processes.launching import launch
from processes.laws import LAWS


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(2, id="two devices"),
        pytest.param(1, id="one device", marks=pytest.mark.slow),
    ],
)
def done(request):
    return launch("all", 2, request.param, "laws.py")


@pytest.mark.parametrize("name", LAWS)
def test_in_both_processes(done, name):
    assert done.stdout.count(f"{name} holds") == 2, done.stdout[-4000:] + done.stderr[-2000:]

"""Arrays that several processes save, and another number of them loads."""

import re

import numpy as np
import pytest
from processes import saving
from processes.launching import launch

from teucer.experimental.array_serialization import pytree_serialization


def test_saved_by_two_processes_and_loaded_by_one(tmp_path):
    done = launch(f"save:{tmp_path}", 2, 2, "saving.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("committed") == 1
    assert re.search(r"\[1\] failed: \[Errno 28\] No space left on device", done.stdout)
    assert re.search(
        r"\[0\] failed: saving to .*: process 1 has failed: OSError: .*No space left", done.stdout
    )
    assert re.search(r"\[0\] late: .* process 1 did not come to this save within 3 s", done.stdout)
    one = saving.jax.sharding.SingleDeviceSharding(saving.jax.devices()[0])
    found = pytree_serialization.load(tmp_path / "tree", one)
    np.testing.assert_array_equal(found["w"], saving.VALUES)
    assert found["step"] == 7


@pytest.mark.slow  # two launches
@pytest.mark.parametrize("n", [2, 4])
def test_saved_by_one_process_and_loaded_by_several(tmp_path, n):
    pytree_serialization.save(saving.tree_over(saving.mesh_of(4, 2)), tmp_path)
    done = launch(f"load:{tmp_path}", n, 2, "saving.py")
    assert done.stdout.count("loaded") == n, done.stdout + done.stderr

"""What programs over four devices give does not depend on how many processes own the devices."""

import pickle

import numpy as np
import pytest
from processes.launching import launch

# Sums over devices are taken in another order over processes.
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "bfloat16": 0.03, "float16": 0.003}


def collected(folder, n, *part):
    """What all processes have of each result."""
    limit = 150 if part == ("sample",) else 900
    done = launch(str(folder), n, 4 // n, "layouts.py", *part, limit=limit)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    parts = [pickle.loads((folder / f"{n}-{i}").read_bytes()) for i in range(n)]
    whole = parts[0]
    for other in parts[1:]:
        assert other.keys() == whole.keys()
        for name, leaves in other.items():
            assert len(leaves) == len(whole[name]), (name, leaves, whole[name])
            for mine, first in zip(leaves, whole[name], strict=True):
                first.setdefault("shards", {}).update(mine.get("shards", {}))
                first.setdefault("others", []).append(
                    {key: value for key, value in mine.items() if key != "shards"}
                )
    return whole


def differences(found, expected):
    """Lines that say where results differ."""
    lines = []
    for name, leaves in expected.items():
        for i, (a, b) in enumerate(zip(found[name], leaves, strict=False)):
            for one in (a, *a.pop("others", ())):
                lines += [
                    f"{name}, result {i}, {key}: {one.get(key)!r:.300}, not {b.get(key)!r:.300}"
                    for key in b.keys() | one.keys()
                    if key != "shards" and not same(one.get(key), b.get(key), b["type"])
                ]
            shards = a.get("shards", {})
            if shards.keys() != b.get("shards", {}).keys():
                lines.append(f"{name}, result {i}: parts {list(shards)}")
                continue
            lines += [
                f"{name}, result {i}, device {d}: {shards[d]!r:.300}, not {b['shards'][d]!r:.300}"
                for d in shards
                if not same(shards[d], b["shards"][d], b["type"])
            ]
        if len(found[name]) != len(leaves):
            lines.append(f"{name}: {found[name]!r:.400}, not {leaves!r:.400}")
    return lines


def same(a, b, dtype):
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return all(same(x, y, dtype) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray | np.generic) or dtype == "float":
        if np.dtype(type(a) if dtype == "float" else a.dtype) in (bool, object):
            return np.array_equal(a, b)
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype.kind in "US":
            return np.array_equal(a, b)
        close = TOLERANCE.get(str(a.dtype), 1e-9 if a.dtype.kind in "fc" else 0)
        close = 2e-5 if dtype == "float" else close
        wide = complex if a.dtype.kind == "c" else float if a.dtype.kind in "fV" else a.dtype
        a, b = a.astype(wide), b.astype(wide)
        scale = max(1.0, np.nanmax(np.abs(b), initial=0, where=np.isfinite(b)))
        return a.shape == b.shape and np.allclose(a, b, close, close * scale, equal_nan=True)
    return a == b


def check(folder, n, *part):
    (folder / "alone").mkdir()
    alone = collected(folder / "alone", 1, *part)
    lines = differences(collected(folder, n, *part), alone)
    assert not lines, "\n".join(lines)
    return alone


def test_results_do_not_depend_on_processes(tmp_path):
    check(tmp_path, 2, "sample")


@pytest.mark.slow  # hundreds of programs
@pytest.mark.parametrize("n", [2, 4])
def test_all_results_do_not_depend_on_processes(tmp_path, n):
    """Nor do programs fail that should not."""
    alone = check(tmp_path, n)
    failed = {name for name, leaves in alone.items() if leaves[0:] and leaves[0]["type"] == "error"}
    assert failed == {name for name in alone if name.startswith("mistake")} | {"typed[wrong]"}


@pytest.mark.slow  # each row of the operation table
@pytest.mark.parametrize("n", [2, 4])
def test_rows_do_not_depend_on_processes(tmp_path, n):
    check(tmp_path, n, "rows")

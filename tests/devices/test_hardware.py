"""Which hardware a machine has, by the files that Linux shows of it."""

import os

import pytest

from teucer._devices import hardware

GVNIC, NVME = ("0x1ae0", "0x020000"), ("0x1ae0", "0x010802")
TPU, GPU, AMD = ("0x1ae0", "0x088000"), ("0x10de", "0x030200"), ("0x1002", "0x038000")
SOUND = ("0x10de", "0x040300")


def machine(root, cards=(), files=()):
    for i, (vendor, kind) in enumerate(cards):
        folder = root / "sys" / "bus" / "pci" / "devices" / f"0000:00:{i:02x}.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "class").write_text(kind + "\n")
    (root / "dev").mkdir()
    for name in ("null", *files):
        (root / "dev" / name).touch()
    return str(root)


@pytest.mark.parametrize(
    ("cards", "files", "there"),
    [
        ((), (), set()),
        ((GVNIC, NVME, SOUND), (), set()),
        ((GVNIC, TPU), (), {"tpu"}),
        ((GPU, SOUND), (), {"cuda"}),
        ((), ("nvidiactl", "nvidia0"), {"cuda"}),
        ((), ("nvmap",), {"cuda"}),
        ((), ("dxg",), {"cuda", "rocm"}),
        ((AMD,), (), {"rocm"}),
        ((TPU,), ("kfd",), {"tpu", "rocm"}),
    ],
)
def test_what_a_machine_has(tmp_path, cards, files, there):
    root = machine(tmp_path, cards, files)
    for platform in ("tpu", "cuda", "rocm"):
        lacked = hardware.lacks(platform, root)
        assert (lacked is None) == (platform in there)
    assert hardware.lacks("mine", root) is None


def test_a_machine_that_shows_nothing(tmp_path):
    assert "no TPU chip" in hardware.lacks("tpu", str(tmp_path / "nowhere"))
    folder = tmp_path / "sys" / "bus" / "pci" / "devices" / "0000:00:00.0"
    folder.mkdir(parents=True)  # a device that has just gone
    assert "no TPU chip" in hardware.lacks("tpu", str(tmp_path))


def test_libtpu_is_told_to_be_quiet_only_where_no_tpu_is(tmp_path, monkeypatch):
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    monkeypatch.setattr(os, "environ", {"TPU_WORKER_ID": "3"})
    hardware.quiet("tpu", machine(tmp_path / "with", [TPU]))
    hardware.quiet("cuda", machine(tmp_path / "without"))
    assert os.environ == {"TPU_WORKER_ID": "3"}
    hardware.quiet("tpu", str(tmp_path / "without"))
    assert os.environ["TPU_SKIP_MDS_QUERY"] == "1" and os.environ["TPU_WORKER_ID"] == "3"

"""The programs of the guides and of examples/parallel over four processes, as users start them."""

import re

import pytest
from processes.launching import HERE, launch

ROOT = HERE.parent.parent


def ranks(done, text):
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(re.findall(rf"^\[(\d)\] .*{text}", done.stdout, re.MULTILINE))


@pytest.mark.slow  # the programs of several devices compile in each process
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("data_parallel", r"greatest difference 0\.\d\d%"),
        ("mixture_of_experts", r"on 8 devices; .*: \d\.\de-0[5-8]$"),
        ("pipeline", r"over 4 devices; .* \d\.\de-0[5-8]$"),
        ("ring_attention", r"on 8 devices; .*: \d\.\de-0[5-8]$"),
        ("transformer", r"manual +: 3\.2103 -> 2\.955\d$"),
    ],
)
def test_parallel_examples(name, text):
    assert ranks(launch("", 4, 2, ROOT / "examples" / "parallel" / f"{name}.py"), text) == [
        "0",
        "1",
        "2",
        "3",
    ]


@pytest.mark.slow  # four processes
def test_the_program_of_the_guide(tmp_path):
    text = (ROOT / "docs" / "guide" / "processes.md").read_text()
    (tmp_path / "program.py").write_text(
        re.search(r"```python no-run\n(.*?)```", text, re.DOTALL)[1]
    )
    assert ranks(launch("", 4, 1, tmp_path / "program.py"), r"12\.0$") == ["0", "1", "2", "3"]

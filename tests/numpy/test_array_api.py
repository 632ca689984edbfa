"""The conformance suite of the Python Array API standard, 2024.12, on `teucer.numpy`.

ARRAY_API_TESTS names a folder with https://github.com/data-apis/array-api-tests and its submodule.
The suite needs the packages that its requirements.txt lists: ARRAY_API_PYTHON names an interpreter
that has them and what Teucer needs. `tests/data/array_api_exceptions.txt` says what it asks for and
`teucer.numpy` does not do, and why.
"""

import fnmatch
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXCEPTIONS = ROOT / "tests" / "data" / "array_api_exceptions.txt"


def exceptions():
    """Pattern of the names of tests -> why they fail."""
    lines = [
        line for line in EXCEPTIONS.read_text().splitlines() if line and not line.startswith("#")
    ]
    return dict(line.split(" :: ", 1) for line in lines)


def unexpected(failed, patterns):
    """The failed tests that no pattern explains."""
    return [
        name
        for name in failed
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def test_every_exception_has_a_reason():
    assert all(why.strip() for why in exceptions().values())
    assert unexpected(["test_setitem[a]", "test_other"], {"test_setitem*": "why"}) == ["test_other"]


@pytest.mark.slow
@pytest.mark.skipif(
    "ARRAY_API_TESTS" not in os.environ, reason="ARRAY_API_TESTS names the folder of the suite"
)
def test_the_suite_passes_but_for_the_exceptions(tmp_path):
    report = tmp_path / "report.xml"
    python = os.environ.get("ARRAY_API_PYTHON", sys.executable)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    told = {
        "ARRAY_API_TESTS_MODULE": "teucer.numpy",
        "ARRAY_API_TESTS_VERSION": "2024.12",
        "JAX_ENABLE_X64": "1",
        "TEUCER_WARN_AFTER_COMPILES": "0",
        "PYTHONPATH": path,
    }
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--max-examples",
        "10",
        "--disable-deadline",
        "array_api_tests",
        f"--junitxml={report}",
    ]
    subprocess.run(
        command, cwd=os.environ["ARRAY_API_TESTS"], env={**os.environ, **told}, check=False
    )
    cases = list(ET.parse(report).iter("testcase"))
    failed = [
        case.get("name")
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    assert len(cases) > 1000 and unexpected(failed, exceptions()) == []

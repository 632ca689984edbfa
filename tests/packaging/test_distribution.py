"""What is published: metadata, and what the source distribution has."""

from __future__ import annotations

import pathlib
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib

import pytest

import teucer

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_versions_agree() -> None:
    for name, pattern in {
        "CITATION.cff": r"^version: (.*)$",
        "packaging/conda/meta.yaml": r'^  version: "(.*)"$',
    }.items():
        assert re.findall(pattern, (ROOT / name).read_text(), re.M) == [teucer.__version__], name
    assert PROJECT["version"] == teucer.__version__


def test_what_conda_needs_is_what_pip_needs() -> None:
    recipe = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
    for needed in PROJECT["dependencies"]:
        name, version = needed.split(">=")
        assert recipe.count(f"- {name} >={version}\n") == 1


def test_classifiers_name_the_pythons() -> None:
    said = [c.rpartition(":: ")[2] for c in PROJECT["classifiers"] if ":: 3." in c]
    assert said == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == ">=3.11"


def test_the_text_of_the_index_has_no_links_that_break() -> None:
    without = runpy.run_path(str(ROOT / "setup.py"))["without_relative_links"]
    text = without((ROOT / "README.md").read_text())
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert all(link.startswith(("https://", "#")) for link in links)
    assert "docs/guide/coming_from_jax.md" in text
    assert without("[a](b.md) [c](https://d.org)") == "a (b.md) [c](https://d.org)"


@pytest.mark.slow  # builds the source distribution, which needs the packages of the build system
def test_the_source_distribution_has_all(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("build", reason="the package build is not installed")
    subprocess.run(
        [sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=600,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as found:
        names = {name.partition("/")[2] for name in found.getnames()}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(tracked) - names == set()

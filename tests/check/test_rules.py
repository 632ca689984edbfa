"""Every rule finds the faults that it is for, and nothing in programs that are near them."""

from collections import Counter

import check.checked_precision
import check.checked_reports
import check.checked_values  # noqa: F401  # both fill the table of cases
import pytest
from check.checked import CASES

import teucer as jax
from teucer._check.numbers import NUMBERS

# Found by other tests: they need a program that runs, devices, or sizes that are symbols.
ELSEWHERE = {
    "T102",
    "T104",
    "T105",
    "T106",
    "T107",
    "T108",
    "T504",
    "T506",
    "T507",
    "T508",
    "T601",
    "T602",
    "T603",
    "T604",
}


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.id)
def test_finds_faults_and_passes_near_misses(case):
    report = jax.debug.check(case.fun, *case.args)
    if not case.found:
        assert case.number not in report.numbers, str(report)
        return
    found = [f for f in report.findings if f.number == case.number]
    assert found, str(report)
    code = case.fun.__code__
    assert found[0].line.file == code.co_filename and found[0].line.line >= code.co_firstlineno
    assert found[0].message and found[0].remedy


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.id)
def test_finds_nothing_else(case):
    """A fault of one kind is not told as several; what is fine has no errors at all."""
    report = jax.debug.check(case.fun, *case.args)
    errors = [f.number for f in report.of("error")]
    assert set(errors) <= ({case.number} if case.found else set()), str(report)


def test_every_rule_has_four_programs_of_each_kind():
    for found in (True, False):
        counts = Counter(case.number for case in CASES.values() if case.found == found)
        few = {n: counts[n] for n in NUMBERS if n not in ELSEWHERE and counts[n] < 4}
        assert not few


def test_public_reports_are_found():
    """Each names its thread; test_devices and test_check have more, which need devices or a run."""
    reports = [case.report for case in CASES.values() if case.report]
    assert len(reports) >= 70 and len(set(reports)) >= 68

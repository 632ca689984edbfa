"""A report as SARIF 2.1.0 (OASIS standard, 2020), which editors and code hosts read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teucer._check.numbers import NUMBERS

_LEVELS = {"error": "error", "warning": "warning", "hint": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_of(findings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The SARIF log of findings, each as `Finding.as_dict` gives it."""
    used = sorted({f["number"] for f in findings})
    rules = [
        {
            "id": number,
            "shortDescription": {"text": NUMBERS[number].title},
            "defaultConfiguration": {"level": _LEVELS[NUMBERS[number].level]},
        }
        for number in used
    ]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "teucer check", "rules": rules}},
                "results": [_result(f, used.index(f["number"])) for f in findings],
            }
        ],
    }


def _result(f: Mapping[str, Any], index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": f["number"],
        "ruleIndex": index,
        "level": _LEVELS[f["level"]],
        "message": {"text": f"{f['message']} {f['remedy']}"},
    }
    if "file" in f:
        region = {"startLine": max(f["line"], 1), "startColumn": max(f["column"], 1)}
        result["locations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(f["file"])},
                    "region": region,
                }
            }
        ]
    return result


def _uri(file: str) -> str:
    """Relative to the working directory where the file lies below it, as code hosts ask."""
    path = Path(os.path.abspath(file))
    below = Path.cwd()
    return path.relative_to(below).as_posix() if path.is_relative_to(below) else path.as_uri()

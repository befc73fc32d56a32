"""Results as Gradescope shows them: the results.json of its autograder specification."""

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.collect import safe_name
from autograder.feedback import message
from autograder.layout import Course
from autograder.result import GRADED, INFRASTRUCTURE, CellResult, Result

NOT_GRADED_YET = (
    "Your notebook has not been graded yet. The grader had a problem of its own; your work is not the reason."
)


def gradescope(result: Result, sentences: Mapping[str, str]) -> dict[str, Any]:
    """One test for each graded cell, in plain text.

    Where the grader itself failed there is no score, which Gradescope reports to the instructor: nobody gets zero
    points for that.

    Args:
        sentences: misconception → the sentence that helps.
    """
    document: dict[str, Any] = {
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",  # what the grader prints is not for students
        "extra_data": {"status": result.status, "cells": {cell.grade_id: cell.status for cell in result.cells}},
    }
    if result.status == INFRASTRUCTURE or any(cell.status == INFRASTRUCTURE for cell in result.cells):
        return document | {"output": NOT_GRADED_YET, "tests": []}
    reason = [result.reason] if result.status != GRADED else []
    return document | {
        "score": round(result.score, 2),
        "output": _plain([*reason, *result.notes]),
        "tests": [_test(number, cell, sentences) for number, cell in enumerate(result.cells, start=1)],
    }


def write_gradescope(
    course: Course, chapter_id: str, results: Mapping[str, Result], sentences: Mapping[str, str]
) -> list[Path]:
    """Write autograder/reports/CHAPTER/results/STUDENT.json for every student, and say where.

    Raises:
        ValueError: a student's id cannot be the name of a file.
    """
    folder = course.reports(chapter_id) / "results"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for student, result in results.items():
        if not student or safe_name(student) != student:
            raise ValueError(f"{student!r} cannot be the name of a file.")
        path = folder / f"{student}.json"
        text = json.dumps(gradescope(result, sentences), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def _test(number: int, cell: CellResult, sentences: Mapping[str, str]) -> dict[str, Any]:
    lines = [cell.status]
    if not cell.passed:
        helpful = [sentences[one] for one in cell.misconceptions if one in sentences]
        lines += [message(cell), *dict.fromkeys(helpful), *cell.notes]
    return {
        "number": str(number),
        "name": cell.exercise,
        "name_format": "text",
        "score": round(cell.score, 2),
        "max_score": round(cell.max_score, 2),
        "status": "passed" if cell.passed else "failed",
        "visibility": "visible",
        "output": _plain(lines),
        "output_format": "text",
    }


def _plain(lines: list[str]) -> str:
    """Lines without what is empty, without control characters, and without halves of characters."""
    text = "\n".join(line for line in lines if line).encode("utf-8", "replace").decode()
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")

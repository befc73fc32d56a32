"""What the instructor reads after grading: a page, marks for a spreadsheet, and results for a program."""

import csv
import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from autograder.collect import Submission
from autograder.exports import harmless
from autograder.feedback import message, sentences, templates
from autograder.gradescope import write_gradescope
from autograder.layout import Course
from autograder.release import Release
from autograder.result import GRADED, INFRASTRUCTURE, Result
from autograder.sandbox.launch import NONE

BINS = 10


@dataclass(frozen=True)
class Bar:
    """One bar of a chart; `share` is its length, between 0 and 1."""

    label: str
    share: float
    text: str


def write_report(
    course: Course,
    release: Release,
    results: Mapping[str, Result],
    refused: Iterable[Submission],
) -> Path:
    """Write report.html, marks.csv, results.json, and results/STUDENT.json for Gradescope.

    Args:
        refused: files that belong to no student, each with its problem.

    Returns:
        The folder autograder/reports/CHAPTER.
    """
    folder = course.reports(release.chapter_id)
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(folder / "marks.csv", release, results)
    _write_json(folder / "results.json", release, results)
    write_gradescope(course, release.chapter_id, results, sentences(release))
    scores = [result.score for result in results.values() if result.status != INFRASTRUCTURE]
    page = templates.get_template("report.html").render(
        chapter=release.chapter_id,
        results=results,
        maximum=release.maximum,
        scores=scores,
        mean=statistics.fmean(scores) if scores else 0.0,
        median=statistics.median(scores) if scores else 0.0,
        distribution=distribution(scores, release.maximum),
        pass_rates=pass_rates(release, results),
        misconceptions=misconceptions(release, results),
        problems=[(student, result.reason) for student, result in results.items() if result.reason]
        + [(submission.path, submission.problem) for submission in refused],
        unsafe=sorted(student for student, result in results.items() if result.isolation == NONE),
        notes=[(student, note) for student, result in results.items() for note in result.notes],
    )
    (folder / "report.html").write_text(page, encoding="utf-8")
    return folder


def distribution(scores: list[float], maximum: float) -> list[Bar]:
    """How many students are in each tenth of the marks; full marks belong to the last one."""
    counts = Counter(min(BINS - 1, int(BINS * score / maximum)) if maximum else 0 for score in scores)
    highest = max(counts.values(), default=1)
    edges = [f"{maximum * i / BINS:g}" for i in range(BINS + 1)]
    return [Bar(f"{edges[i]}–{edges[i + 1]}", counts[i] / highest, str(counts[i])) for i in range(BINS)]


def pass_rates(release: Release, results: Mapping[str, Result]) -> list[Bar]:
    """The share of the graded submissions that pass each exercise."""
    graded = [result for result in results.values() if result.status == GRADED]
    bars = []
    for index, cell in enumerate(release.graded):
        passed = sum(result.cells[index].passed for result in graded)
        share = passed / len(graded) if graded else 0.0
        bars.append(Bar(cell.exercise, share, f"{passed} of {len(graded)} ({share:.0%})"))
    return bars


def misconceptions(release: Release, results: Mapping[str, Result]) -> list[tuple[str, str, int]]:
    """Exercise, sentence and how many students, the most frequent first."""
    known = sentences(release)
    counts = Counter(
        (cell.exercise, sentence)
        for result in results.values()
        for cell in result.cells
        for sentence in {known[one] for one in cell.misconceptions}
    )
    return [(exercise, sentence, count) for (exercise, sentence), count in counts.most_common()]


def _write_csv(path: Path, release: Release, results: Mapping[str, Result]) -> None:
    exercises = [cell.exercise for cell in release.graded]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "total", "max", *map(harmless, exercises), "status", "reason"])
        for student, result in results.items():
            marks = [f"{cell.score:g}" for cell in result.cells]
            totals = [f"{result.score:g}", f"{result.max_score:g}"]
            writer.writerow([harmless(student), *totals, *marks, result.status, harmless(result.reason)])


def _write_json(path: Path, release: Release, results: Mapping[str, Result]) -> None:
    """Everything that was found out, without times and without notebooks: the same for the same submissions."""
    students = []
    for student, result in results.items():
        cells = [
            asdict(cell) | {"score": cell.score, "shown": "" if cell.passed else message(cell)} for cell in result.cells
        ]
        for cell in cells:
            del cell["pictures"]
        outcome = {"status": result.status, "reason": result.reason, "notes": result.notes}
        how = {"seed": result.seed, "isolation": result.isolation}
        totals = {"score": result.score, "max_score": result.max_score}
        students.append({"student": student, **outcome, **how, **totals, "cells": cells})
    document = {"chapter": release.chapter_id, "release": release.digest, "students": students}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

"""Grade the sample class, whose marks are known, and say where the tests give other marks."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from autograder.classroom import How, grade_class
from autograder.collect import collect
from autograder.layout import Chapter, Course
from autograder.release import Release, build_release
from autograder.result import GRADED, UNREADABLE, Result
from autograder.samples import Marks, write_sample_class


def audit(course: Course, chapter: Chapter, how: How | None = None) -> list[str]:
    """Every deviation from the expected marks, in a sentence; none when the tests are sound.

    In a misconception's submission only those exercises are attempted that have to do with it.

    Raises:
        NotPublished, ReleaseError, MisconceptionError: the chapter cannot be graded at all.
    """
    release = build_release(chapter)
    with tempfile.TemporaryDirectory() as folder:
        expected = write_sample_class(chapter, Path(folder), whole=False)
        submissions = collect(Path(folder), chapter)
    results = grade_class(course, release, submissions, how, title=f"auditing {chapter.id}")
    return deviations_from(expected, release, results)


def deviations_from(expected: Mapping[str, Marks | None], release: Release, results: Mapping[str, Result]) -> list[str]:
    """Where the marks of a sample class are not those that `write_sample_class` says."""
    deviations = []
    for student, marks in expected.items():
        result = results[student]
        if marks is None:
            if result.status != UNREADABLE:
                deviations.append(f"{student}: a broken file should be reported as unreadable, and is {result.status}.")
            continue
        if result.status != GRADED:
            deviations.append(f"{student}: not graded. {result.reason}")
            continue
        for cell in result.cells:
            if cell.score != marks[cell.grade_id]:
                why = f" {cell.status}: {cell.message}" if cell.message else ""
                deviations.append(
                    f"{student}: {cell.grade_id} gives {cell.score:g} points, expected {marks[cell.grade_id]:g}.{why}"
                )
        for one in release.misconceptions:
            if student == f"wrong-{one.id}" and not any(one.id in cell.misconceptions for cell in result.cells):
                deviations.append(f"{student}: its own misconception is not recognised.")
    return deviations

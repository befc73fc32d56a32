"""A sample class whose marks are known: the reference, the stub, every misconception, and a broken file."""

import copy
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.export import MARKERS
from autograder.layout import Chapter
from autograder.misconceptions import Misconception, MisconceptionError, load
from autograder.release import NotPublished, Release, build_release
from course import names

Marks = dict[str, float]  # graded cell → score


def write_sample_class(chapter: Chapter, folder: Path, whole: bool = True) -> dict[str, Marks | None]:
    """Write STUDENT.ipynb for every member of the sample class.

    Args:
        whole: every misconception stands among right answers to all other exercises. Otherwise only to those that have
            to do with it, which takes less time; the others are not attempted.

    Returns:
        student → expected marks; None where a problem must be reported.

    Raises:
        NotPublished: the chapter's notebooks have not been built.
        MisconceptionError: a misconception of an exercise that does not exist.
    """
    release = build_release(chapter)
    full = {cell.grade_id: cell.points for cell in release.graded}
    stub = _read(chapter, chapter.student_notebook)
    right = reference(chapter)
    needs = _needs(release)
    samples = {"reference-solution": right, "untouched-stub": stub}
    expected: dict[str, Marks | None] = {"reference-solution": full, "untouched-stub": dict.fromkeys(full, 0.0)}
    for misconception in load(chapter):
        student = f"wrong-{misconception.id}"
        notebook = with_misconception(chapter, right, misconception)
        related = set[str]().union(*(needed for needed in needs.values() if misconception.exercise in needed))
        others = set() if whole else needs.keys() - related
        for cell, untouched in zip(notebook.cells, stub.cells, strict=True):
            if cell.metadata.get("nbgrader", {}).get("grade_id") in others:
                cell.source = untouched.source
        samples[student] = notebook
        expected[student] = full | {f"test_{exercise}": 0.0 for exercise in (misconception.exercise, *others)}
    folder.mkdir(parents=True, exist_ok=True)
    for student, notebook in samples.items():
        (folder / f"{student}.ipynb").write_bytes(_content(notebook))
    (folder / "unreadable-file.ipynb").write_text('{"cells": [', encoding="utf-8")
    return expected | {"unreadable-file": None}


def reference(chapter: Chapter) -> NotebookNode:
    """The student's notebook, completed with the reference solutions."""
    solutions = {
        cell.metadata.nbgrader.grade_id: MARKERS.sub("", cell.source)
        for cell in _read(chapter, chapter.instructor_notebook).cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    notebook = _read(chapter, chapter.student_notebook)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in solutions:
            cell.source = solutions[grade_id]
    return notebook


def with_misconception(chapter: Chapter, right: NotebookNode, misconception: Misconception) -> NotebookNode:
    """The chapter's `reference`, with one answer replaced by a wrong one."""
    notebook = copy.deepcopy(right)
    for cell in notebook.cells:
        options = cell.metadata.get("nbgrader", {})
        if options.get("solution") and options.get("grade_id") == misconception.exercise:
            cell.source = misconception.source
            return notebook
    raise MisconceptionError(
        f"{chapter.misconceptions}: {misconception.id!r} belongs to {misconception.exercise!r}, "
        f"which is no exercise of {chapter.id}."
    )


def _needs(release: Release) -> dict[str, set[str]]:
    """For each exercise the grade ids of the cells that it and its tests use, in turn; its own among them."""
    cells = [cell for cell in release.cells if not cell.is_test]
    sources = [cell.source for cell in cells]
    needs = {}
    for test in release.graded:
        if not test.is_quiz:
            places = names.needed(names.used(test.source) | {test.exercise}, sources)
            needs[test.exercise] = {test.exercise, *(cells[place].grade_id for place in places)}
    return needs


def _content(notebook: NotebookNode) -> bytes:
    """The same bytes wherever a sample is used, so that it is graded once."""
    return nbformat.writes(notebook).encode()


def _read(chapter: Chapter, path: Path) -> NotebookNode:
    if not path.is_file():
        raise NotPublished(f"{chapter.id} is not published yet: run `python -m autograder publish` first.")
    return nbformat.read(path, as_version=4)

"""Tests can fail: full marks for the reference, none for the stub, less for every misconception."""

import pytest

from autograder.audit import audit
from autograder.classroom import How
from autograder.layout import Chapter, Course, here
from autograder.misconceptions import load
from autograder.source import read

every_chapter = pytest.mark.parametrize("chapter", here().chapters, ids=[chapter.id for chapter in here().chapters])


@every_chapter
def test_the_sample_class_gets_the_expected_marks(published: Course, chapter: Chapter, jail: str) -> None:
    # The same numbers in every run. `python -m autograder audit` draws others, which follow from the checkout's secret.
    deviations = audit(published, chapter, How(isolation=jail, seed="tests", progress=False))
    assert not deviations, "\n".join(deviations)


@every_chapter
def test_every_exercise_has_misconceptions(chapter: Chapter) -> None:
    known = load(chapter)
    assert len(known) >= 15
    missing = set(read(chapter).exercises) - {misconception.exercise for misconception in known}
    assert not missing, f"no misconception of {', '.join(sorted(missing))}"

"""Which submissions are alike: a reason to look at them, never a verdict.

Answers are compared exercise by exercise with copydetect's fingerprints, in which names and texts do not count, and
without what the released notebook gave to everybody. Quiz answers are left out: they are alike by nature.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

from copydetect import CodeFingerprint, compare_files
from nbformat import NotebookNode

from autograder.collect import Submission
from autograder.feedback import templates
from autograder.layout import Course
from autograder.rebuild import Unreadable, attempts, read_cells

NOISE = 25  # the shortest run of code that counts, in characters; names and texts are one character long
MAX_ANSWERS = 50_000  # characters of all answers of a student; those of a chapter have about 10,000
SHOWN_PAIRS = 200
SHOWN_IN_FULL = 20


@dataclass(frozen=True)
class Alike:
    """The answers of two students to one exercise."""

    exercise: str
    tokens: int
    first: str
    second: str


@dataclass(frozen=True)
class Pair:
    """Two students. `similarity` is how much of their own code the other one has too: the mean of both shares."""

    first: str
    second: str
    similarity: float
    tokens: int  # how much code they share, in characters, where a name or a text is one character
    exercises: list[Alike]  # those with anything in common, the most first


@dataclass(frozen=True)
class Similarity:
    pairs: list[Pair]  # the most alike first
    threshold: float
    compared: int  # submissions
    skipped: list[tuple[str, str]]  # student or file, and why it was not compared


class AnswersError(ValueError):
    """This submission cannot be compared."""


@dataclass(frozen=True)
class _Answer:
    source: str
    fingerprint: CodeFingerprint


_Overlap = Callable[[CodeFingerprint, CodeFingerprint], tuple[int, int]]


def similar(submissions: Iterable[Submission], template: NotebookNode, threshold: float = 0.5) -> Similarity:
    """Compare every submission with every other one.

    Args:
        template: the released notebook. Its stubs say which cells are compared, and what everybody was given.
        threshold: pairs below it are left out.
    """
    stubs = _stubs(template)
    given = {exercise: list(_fingerprint(stub).hashes) for exercise, stub in stubs.items()}
    known: dict[tuple[str, str], CodeFingerprint] = {}  # answers that differ in names only are compared once
    students: dict[str, dict[str, _Answer]] = {}
    skipped = []
    for submission in sorted(submissions, key=lambda submission: (submission.student, submission.path)):
        who = submission.student or submission.path
        try:
            sources = answers(submission, stubs)
        except AnswersError as error:
            skipped.append((who, str(error)))
            continue
        own = {}
        for exercise, source in sources.items():
            found = _fingerprint(source, given[exercise])
            if found.token_coverage:
                own[exercise] = _Answer(source, known.setdefault((exercise, found.filtered_code), found))
        if own:
            students[who] = own
        else:
            skipped.append((who, "There is no answer that is long enough to be compared."))
    overlap = cache(_overlap)
    both = combinations(students.items(), 2)
    candidates = (_pair(first, second, one, other, overlap) for (first, one), (second, other) in both)
    pairs = [pair for pair in candidates if pair.similarity >= threshold]
    pairs.sort(key=lambda pair: (-round(pair.similarity, 2), -pair.tokens, pair.first, pair.second))
    return Similarity(pairs, threshold, len(students), skipped)


def answers(submission: Submission, stubs: Mapping[str, str]) -> dict[str, str]:
    """exercise → the source that grading would take.

    Raises:
        AnswersError: the file is no notebook, or too long.
    """
    if submission.content is None:
        raise AnswersError(submission.problem or "There is no file.")
    try:
        found = attempts(read_cells(submission.content), stubs)
    except Unreadable as error:
        raise AnswersError(str(error)) from error
    if (length := sum(map(len, found.values()))) > MAX_ANSWERS:
        raise AnswersError(f"Its answers are too long: {length} characters, and {MAX_ANSWERS} are compared.")
    return found


def write_similarity_report(course: Course, chapter_id: str, similarity: Similarity) -> Path:
    """Write autograder/reports/CHAPTER/similar.html: the pairs in order, the first ones with their answers."""
    page = templates.get_template("similar.html").render(
        chapter=chapter_id,
        similarity=similarity,
        listed=similarity.pairs[:SHOWN_PAIRS],
        in_full=similarity.pairs[:SHOWN_IN_FULL],
    )
    path = course.reports(chapter_id) / "similar.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _stubs(template: NotebookNode) -> dict[str, str]:
    stubs = {}
    for cell in template.cells:
        options = cell.metadata.get("nbgrader", {})
        if options.get("solution") and cell.cell_type == "code" and "quiz" not in cell.metadata.get("course", {}):
            stubs[options["grade_id"]] = cell.source
    return stubs


def _fingerprint(source: str, given: list[int] | None = None) -> CodeFingerprint:
    """Every run of NOISE characters (a window of one), so that the same class gives the same page."""
    return CodeFingerprint("answer.py", NOISE, 1, given, language="python", fp=io.StringIO(source))


def _overlap(one: CodeFingerprint, other: CodeFingerprint) -> tuple[int, int]:
    """How much of each is in the other, in characters."""
    if one is other:
        return int(one.token_coverage), int(one.token_coverage)
    if one.hashes.isdisjoint(other.hashes):
        return 0, 0
    _, shares, _ = compare_files(one, other)
    return round(shares[0] * one.token_coverage), round(shares[1] * other.token_coverage)


def _pair(first: str, second: str, one: Mapping[str, _Answer], other: Mapping[str, _Answer], overlap: _Overlap) -> Pair:
    alike, shared = [], [0, 0]
    for exercise in one.keys() & other.keys():
        in_one, in_other = overlap(one[exercise].fingerprint, other[exercise].fingerprint)
        shared[0] += in_one
        shared[1] += in_other
        if in_one:
            alike.append(Alike(exercise, min(in_one, in_other), one[exercise].source, other[exercise].source))
    alike.sort(key=lambda answer: (-answer.tokens, answer.exercise))
    similarity = (shared[0] / _size(one) + shared[1] / _size(other)) / 2
    return Pair(first, second, similarity, min(shared), alike)


def _size(answers: Mapping[str, _Answer]) -> int:
    return sum(int(answer.fingerprint.token_coverage) for answer in answers.values())

"""The command line: what it says, what it writes, and how it ends."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from click.testing import Result
from tiny_course import HIDDEN, completed, content, make_course
from typer.testing import CliRunner

from autograder import commands_grade
from autograder.layout import Chapter
from autograder.release import Release
from autograder.result import GRADED, INFRASTRUCTURE, UNREADABLE, CellResult
from autograder.result import Result as WholeResult
from autograder.sandbox.launch import BUBBLEWRAP

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def chapter(jail: str, tmp_path_factory: pytest.TempPathFactory) -> Chapter:
    return make_course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def run(chapter: Chapter) -> Run:
    app = typer.Typer()
    commands_grade.register(app, lambda: chapter.course)

    def run(*arguments: object) -> Result:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "Traceback" not in done.output
        return done

    return run


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "grade check audit sample sample-class"),
        ("grade", "SUBMISSIONS --chapter --workers --scheduler --isolation --seed"),
        ("check", "NOTEBOOK students visible"),
        ("audit", "--chapter --rounds misconception"),
        ("sample", "expected"),
        ("sample-class", "FOLDER --chapter"),
    ],
)
def test_help(run: Run, command: str, words: str) -> None:
    done = run(*command.split(), "--help")
    assert done.exit_code == 0
    assert not [word for word in words.split() if word.lower() not in done.output.lower()]


def test_a_sample_class_is_graded(run: Run, chapter: Chapter, tmp_path: Path) -> None:
    written = run("sample-class", tmp_path / "class", "--chapter", chapter.id)
    assert written.exit_code == 0 and "wrong-square: 8 points" in written.output
    assert "unreadable-file: reported as unreadable" in written.output
    graded = run("grade", tmp_path / "class", "--chapter", chapter.id)
    assert graded.exit_code == 0, graded.output
    assert "4 of 5 submissions" in graded.output and "unreadable-file: The file is not a notebook" in graded.output
    named = dict(
        line.split(maxsplit=1) for line in graded.output.splitlines() if line.startswith(("report:", "marks:"))
    )
    assert Path(named["report:"]).is_file()
    with open(named["marks:"], encoding="utf-8") as file:
        totals = {row[0]: row[1] for row in csv.reader(file)}
    assert totals == {
        "student": "total",
        "reference-solution": "10",
        "unreadable-file": "0",
        "untouched-stub": "0",
        "wrong-first-value": "7",
        "wrong-square": "8",
    }
    assert run("audit", "--chapter", chapter.id).output.splitlines()[-1] == "01-tiny: as expected"


def test_the_sample_class_is_graded_once(run: Run, chapter: Chapter, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("sample")
    assert first.exit_code == 0 and "4 of 5 submissions" in first.output and "as expected" in first.output
    graded, grade = [], commands_grade._grade
    monkeypatch.setattr(commands_grade, "_grade", lambda *arguments: graded.append(1) or grade(*arguments))
    again = run("sample")
    assert again.exit_code == 0 and not graded, again.output
    assert again.output.splitlines()[-4:] == first.output.splitlines()[-4:]  # where everything is, and the verdict
    report = chapter.course.build / "sample-class" / "reports" / chapter.id / "report.html"
    assert f"report:   {report}" in again.output
    report.unlink()
    assert run("sample").exit_code == 0 and len(graded) == 1 and report.is_file()
    before = chapter.misconceptions.read_text()
    try:
        chapter.misconceptions.write_text(before.replace("not only the first", "not the first alone"))
        assert run("sample").exit_code == 0 and len(graded) == 2
        # What is not as expected is looked at every time.
        monkeypatch.setattr(commands_grade, "deviations_from", lambda *_: ["reference-solution: no points."])
        chapter.misconceptions.write_text(before.replace("not only the first", "not one alone"))
        for count in (3, 4):
            done = run("sample")
            assert done.exit_code == 1 and "1 deviations" in done.output and len(graded) == count
    finally:
        chapter.misconceptions.write_text(before)


def test_a_deviation_ends_the_audit_with_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands_grade, "audit", lambda *_: ["wrong-square: test_double gives 2 points, expected 0."])
    done = run("audit", "--isolation", "none", "--workers", 1)
    assert done.exit_code == 1 and "01-tiny: 1 deviations" in done.output
    assert "wrong-square: test_double gives 2 points, expected 0." in done.output


def test_further_rounds_of_the_audit_have_numbers_of_their_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []
    monkeypatch.setattr(commands_grade, "audit", lambda _, __, how: seeds.append(how.seed) or [f"round {len(seeds)}"])
    done = run("audit", "--rounds", 3)
    assert done.exit_code == 1 and "01-tiny: 3 deviations" in done.output
    assert seeds[0] is None and len(set(seeds)) == 3
    lines = done.output.splitlines()
    assert "round 1" in lines and f"round 2 (seed {seeds[1]})" in lines and f"round 3 (seed {seeds[2]})" in lines
    assert run("audit", "--rounds", 0).exit_code == 2


def test_without_a_sandbox_it_says_so(run: Run, chapter: Chapter, tmp_path: Path) -> None:
    (tmp_path / "ada.ipynb").write_bytes(content(completed(chapter)))
    done = run("grade", tmp_path, "--chapter", chapter.id, "--isolation", "none", "--seed", "abc", "--workers", 1)
    assert done.exit_code == 0 and "Grading without a sandbox" in done.output
    page = (chapter.course.grading / "reports" / chapter.id / "feedback" / "ada.html").read_text()
    assert "Graded without a sandbox" in page and "<code>abc</code>" in page


def test_mistakes_get_a_sentence(run: Run, chapter: Chapter, tmp_path: Path) -> None:
    nowhere = run("grade", tmp_path / "nowhere", "--chapter", chapter.id)
    assert nowhere.exit_code == 2 and "There is no folder" in nowhere.output
    nobody = run("grade", tmp_path, "--chapter", chapter.id)
    assert nobody.exit_code == 2 and "There are no submissions to 01-tiny" in nobody.output
    unknown = run("grade", tmp_path, "--chapter", "99-x")
    assert unknown.exit_code == 1 and "There is no chapter '99-x'" in unknown.output
    assert run("grade", tmp_path, "--chapter", chapter.id, "--isolation", "chroot").exit_code == 2
    assert run("grade", tmp_path, "--chapter", chapter.id, "--workers", 0).exit_code == 2
    assert run("check", tmp_path / "nothing.ipynb").exit_code == 2


def test_not_published(tmp_path: Path) -> None:
    chapter = make_course(tmp_path / "course")
    chapter.instructor_notebook.unlink()
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "ada.ipynb").write_bytes(b"{}")
    app = typer.Typer()
    commands_grade.register(app, lambda: chapter.course)
    for command in (["grade", str(tmp_path / "class")], ["sample-class", str(tmp_path / "new")]):
        done = CliRunner().invoke(app, [*command, "--chapter", chapter.id])
        assert done.exit_code == 2 and "python -m autograder publish" in done.output


# --- check: what students run ----------------------------------------------------------------------------------------


def test_check_gives_visible_verdicts_only(jail: str, tmp_path: Path) -> None:
    """From the students' notebook alone: there are no sources, and what only hidden tests find is not found."""
    public = make_course(tmp_path / "public")
    answers = {
        "double": "def double(x):\n    return {1: 2}.get(x, 7)",
        "total": "def total(values):\n    return 4",
        "shift": "def shift(x):\n    print('why')\n    return x / 0",
        "quiz_color": 'quiz_color = "a"',
    }
    (tmp_path / "mine.ipynb").write_bytes(content(completed(public, **answers)))
    for path in [public.instructor_notebook, public.misconceptions]:
        path.unlink()
    app = typer.Typer()
    commands_grade.register(app, lambda: public.course)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "mine.ipynb")])
    assert done.exit_code == 1, done.output
    assert "✓ double: right" in done.output and "✓ quiz_color: right" in done.output
    assert "✗ total: wrong" in done.output and "total([1, 2]) should be 3, not 4." in done.output
    assert "✗ shift: crashed" in done.output and "ZeroDivisionError: division by zero" in done.output
    assert "in shift, line 3: return x / 0" in done.output
    assert "2 of 4 pass the tests that you can see." in done.output
    assert HIDDEN not in done.output and "the key is" not in done.output
    assert not (public.course.grading / "gradebook.db").exists()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("right", 0, "4 of 4 pass"),
        ("wrong", 1, "0 of 4 pass"),
        (UNREADABLE, 2, "no reason"),
        (INFRASTRUCTURE, 2, "reason"),
    ],
)
def test_how_check_ends(
    run: Run, chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, code: int, words: str
) -> None:
    @contextmanager
    def a_grader(release: Release, isolation: str) -> Iterator[Any]:
        assert "HIDDEN" not in release.to_json() and isolation == BUBBLEWRAP
        cells = [CellResult(one.grade_id, one.exercise, False, one.points, status) for one in release.graded]
        whole = status if status in (UNREADABLE, INFRASTRUCTURE) else GRADED
        yield SimpleNamespace(grade=lambda submission, seed: WholeResult(whole, "no reason", cells))

    monkeypatch.setattr(commands_grade, "a_grader", a_grader)
    (tmp_path / "mine.ipynb").write_bytes(content(completed(chapter)))
    done = run("check", tmp_path / "mine.ipynb")
    assert done.exit_code == code and words in done.output


def test_check_of_another_notebook(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.ipynb"
    other.write_text('{"nbformat": 4, "cells": []}')
    done = run("check", other)
    assert done.exit_code == 2 and "no notebook of the course" in done.output

"""Grading: marks, robustness, feedback, reports, and agreement with nbgrader's own autograder."""

import csv
import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import typer
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from tiny_course import HIDDEN, changed, completed, content, make_course, without
from typer.testing import CliRunner

from autograder import classroom, commands_grade
from autograder.audit import audit
from autograder.classroom import grade_class
from autograder.collect import CollectError, Submission, collect, safe_name
from autograder.feedback import write_feedback
from autograder.grade import Result, no_marks
from autograder.gradebook import write_marks
from autograder.layout import Chapter, Course
from autograder.misconceptions import MisconceptionError, load
from autograder.publish import nbgrader_config
from autograder.release import NotPublished, Release, ReleaseError, build_release
from autograder.report import write_report
from autograder.samples import recognise, write_sample_class

FULL = {"test_double": 2.0, "test_total": 3.0, "test_quiz_color": 1.0}
NOTHING = dict.fromkeys(FULL, 0.0)
WARNS = "import warnings\ndef double(x):\n    warnings.warn('old', stacklevel=2)\n    return 2 * x"
RED = 'def double(x):\n    raise ValueError("\\x1b[31m<script>red</script>")'
KILLS = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)"
SQUARE = "def double(x):\n    return x * x"


def notebooks(chapter: Chapter) -> dict[str, bytes]:
    """One submission of every kind."""
    good = completed(chapter)
    duplicated = completed(chapter, double=SQUARE)
    duplicated.cells.insert(2, changed(good.cells[1], lambda cell: cell.update(id="again")))
    skipping = completed(chapter, double=SQUARE)
    for cell in skipping.cells:
        cell.metadata["tags"] = ["skip-execution"]
    rewritten = completed(chapter, double=SQUARE)
    rewritten.cells[2].source = "pass"
    unmarked = completed(chapter)
    unmarked.cells[2].metadata["nbgrader"] = {"grade_id": "test_double"}
    return {
        "full": content(good),
        "stub": chapter.student_notebook.read_bytes(),
        "squares": content(completed(chapter, double=SQUARE)),
        "thrice": content(completed(chapter, double="def double(x):\n    return 3 * x")),
        "hidden-only": content(completed(chapter, double="def double(x):\n    return {1: 2}.get(x, 7)")),
        "red": content(completed(chapter, double=RED)),
        "warns": content(completed(chapter, double=WARNS)),
        "quizzed": content(completed(chapter, quiz_color='quiz_color = "a"')),
        "no-tests": content(without(good, "test_total")),
        "no-answer": content(without(good, "total")),
        "duplicated": content(duplicated),
        "skipping": content(skipping),
        "rewritten": content(rewritten),
        "unmarked": content(unmarked),
        "endless": content(completed(chapter, double="def double(x):\n    while True:\n        pass")),
        "exits": content(completed(chapter, total="import os\nos._exit(0)")),
        "broken": b'{"cells": [',
        "empty": b"",
        "list": b"[1, 2]",
        "deep": b"[" * 100_000,
        "binary": b"\x89PNG\r\n\x1a\n\x00\x01",
        "old": json.dumps({"nbformat": 3, "nbformat_minor": 0, "worksheets": []}).encode(),
        "odd-cells": json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [7, None]}).encode(),
        "other": json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}).encode(),
    }


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Chapter:
    return make_course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def release(chapter: Chapter) -> Release:
    return build_release(chapter, cell_timeout=5)


@pytest.fixture(scope="module")
def submissions(chapter: Chapter) -> list[Submission]:
    return [Submission(student, f"{student}.ipynb", data) for student, data in notebooks(chapter).items()]


@pytest.fixture(scope="module")
def results(chapter: Chapter, release: Release, submissions: list[Submission]) -> dict[str, Result]:
    return grade_class(chapter.course, release, submissions, progress=False)


@pytest.fixture(scope="module")
def recognised(chapter: Chapter, release: Release):
    return recognise(chapter.course, chapter, release, progress=False)


def marks(result: Result) -> dict[str, float]:
    return {cell.grade_id: cell.score for cell in result.cells}


pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


# --- marks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("student", "lost"),
    [
        ("full", []),
        ("stub", list(FULL)),
        ("squares", ["test_double"]),
        ("thrice", ["test_double"]),
        ("hidden-only", ["test_double"]),
        ("red", ["test_double"]),
        ("warns", ["test_double"]),
        ("quizzed", ["test_quiz_color"]),
        ("no-tests", ["test_total"]),
        ("no-answer", ["test_total"]),
        ("duplicated", []),
        ("skipping", ["test_double"]),
        ("rewritten", ["test_double"]),
        ("unmarked", []),
        ("endless", ["test_double"]),
    ],
)
def test_marks(results: dict[str, Result], student: str, lost: list[str]) -> None:
    assert results[student].status == "graded"
    assert marks(results[student]) == FULL | dict.fromkeys(lost, 0.0)


@pytest.mark.parametrize(
    ("student", "status", "reason"),
    [
        ("exits", "failed", "ended its Python process. This happened in the cell total."),
        ("broken", "unreadable", "not a notebook"),
        ("empty", "unreadable", "empty"),
        ("list", "unreadable", "no list of cells"),
        ("deep", "unreadable", "not a notebook"),
        ("binary", "unreadable", "not a notebook"),
        ("old", "unreadable", "format 3"),
        ("odd-cells", "unreadable", "structure is broken"),
        ("other", "unreadable", "another notebook"),
    ],
)
def test_no_marks_with_a_reason(results: dict[str, Result], student: str, status: str, reason: str) -> None:
    assert results[student].status == status
    assert reason in results[student].reason
    assert marks(results[student]) == NOTHING


def test_messages_and_notes(results: dict[str, Result]) -> None:
    cells = {student: {cell.grade_id: cell for cell in result.cells} for student, result in results.items()}
    assert cells["squares"]["test_double"].message == "double(1) should be 2, not 1."
    assert cells["red"]["test_double"].message == "<script>red</script>"
    assert "more than 5 seconds" in cells["endless"]["test_double"].message
    assert "UserWarning: old" in cells["warns"]["test_double"].message
    assert "itself fails with NotImplementedError" in cells["stub"]["test_quiz_color"].notes[0]
    assert cells["no-answer"]["test_total"].notes == ["The cell of total is missing."]
    assert results["no-tests"].notes == ["The cell test_total is missing."]
    assert results["duplicated"].notes == ["The cell double is there 2 times; the last one counts."]


def test_same_marks_as_nbgrader(
    chapter: Chapter, results: dict[str, Result], submissions: list[Submission], tmp_path: Path
) -> None:
    """`nbgrader autograde` itself, on honest submissions and on those it can cope with."""
    chosen = ["full", "stub", "squares", "hidden-only", "warns", "quizzed", "no-tests", "no-answer", "rewritten"]
    config = nbgrader_config(chapter.course)
    config.CourseDirectory.db_url = f"sqlite:///{chapter.course.root / 'stock.db'}"
    config.CourseDirectory.submitted_directory = str(tmp_path / "submitted")
    config.CourseDirectory.autograded_directory = str(tmp_path / "autograded")
    for submission in submissions:
        if submission.student in chosen and submission.content:
            folder = tmp_path / "submitted" / submission.student / chapter.id
            folder.mkdir(parents=True)
            (folder / f"{chapter.name}.ipynb").write_bytes(submission.content)
    assert NbGraderAPI(config=config).autograde(chapter.id, "*")["success"]
    with Gradebook(config.CourseDirectory.db_url) as gradebook:
        for student in chosen:
            grades = gradebook.find_submission_notebook(chapter.name, chapter.id, student).grades
            assert {grade.name: float(grade.auto_score or 0) for grade in grades} == marks(results[student]), student


# --- the class -------------------------------------------------------------------------------------------------------


def test_second_run_is_cached(
    chapter: Chapter, release: Release, submissions: list[Submission], results: dict[str, Result], monkeypatch
) -> None:
    monkeypatch.setattr(classroom, "_Worker", None)
    assert grade_class(chapter.course, release, submissions, progress=False) == results


def test_a_changed_test_is_graded_again(chapter: Chapter, release: Release) -> None:
    assert build_release(chapter, cell_timeout=6).digest != release.digest
    assert build_release(chapter, cell_timeout=5) == release


def test_worker_crash_concerns_one_student(chapter: Chapter, release: Release) -> None:
    """A notebook that kills the grader's process, which is its kernel's parent."""
    killing = content(completed(chapter, total=KILLS))
    fine = content(completed(chapter, double="def double(x):\n    return x * 2"))
    members = [Submission("killer", "", killing), Submission("fine", "", fine)]
    graded = grade_class(chapter.course, release, members, workers=1, progress=False)
    assert graded["killer"].status == "infrastructure"
    assert marks(graded["fine"]) == FULL
    kept = chapter.course.build / "grading" / release.digest
    assert [(kept / f"{member.digest}.json").is_file() for member in members] == [False, True]


def test_interrupt_keeps_what_is_graded(chapter: Chapter, release: Release, monkeypatch) -> None:
    fast = Submission("fast", "", content(completed(chapter, double="def double(x):\n    return x * 2 + 0")))
    slow = Submission("slow", "", content(completed(chapter, double="import time\ntime.sleep(4)")))
    original = classroom.write_atomically

    def interrupted(path: Path, data: bytes) -> None:
        original(path, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(classroom, "write_atomically", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grade_class(chapter.course, release, [fast, slow], workers=2, progress=False)
    kept = chapter.course.build / "grading" / release.digest
    assert (kept / f"{fast.digest}.json").is_file()
    assert not (kept / f"{slow.digest}.json").exists()


def test_not_published(tmp_path: Path) -> None:
    with pytest.raises(NotPublished, match="python -m autograder publish"):
        build_release(Chapter(Course(tmp_path), "01-tiny"))


# --- collecting ------------------------------------------------------------------------------------------------------


def found(path: Path, chapter: Chapter) -> dict[str, str | bytes | None]:
    return {submission.student: submission.problem or submission.content for submission in collect(path, chapter)}


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


LAYOUTS = [
    {"ada.ipynb": b"1", "bob.ipynb": b"2"},
    {"ada/tiny.ipynb": b"1", "bob/tiny.ipynb": b"2"},
    {"ada/01-tiny/tiny.ipynb": b"1", "ada/02-other/other.ipynb": b"x", "bob/01-tiny/tiny.ipynb": b"2"},
    {"ada/renamed (1).ipynb": b"1", "bob/tiny.ipynb": b"2"},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(chapter: Chapter, tmp_path: Path, layout: dict[str, bytes]) -> None:
    expected = {"ada": b"1", "bob": b"2"}
    assert found(fill(tmp_path / "class", layout), chapter) == expected
    junk = {"__MACOSX/._ada.ipynb": b"junk", ".DS_Store": b"junk"}
    assert found(pack(tmp_path / "class.zip", layout | junk), chapter) == expected
    wrapped = {f"class/{name}": data for name, data in layout.items()}
    assert found(pack(tmp_path / "wrapped.zip", wrapped | junk), chapter) == expected


def test_moodle_folders(chapter: Chapter, tmp_path: Path) -> None:
    files = {"Ada Łovelace_123_assignsubmission_file/tiny.ipynb": b"1", "李雷_124_assignsubmission_file_/x.ipynb": b"2"}
    assert found(pack(tmp_path / "moodle.zip", files), chapter) == {"Ada-Łovelace_123": b"1", "李雷_124": b"2"}


def test_duplicates_and_missing_notebooks_are_reported(chapter: Chapter, tmp_path: Path) -> None:
    files = ["ada.ipynb", "ada/01-tiny/tiny.ipynb", "bob/report.pdf"]
    files += ["cy.ipynb", "cy/tiny.ipynb", "eve/a.ipynb", "eve/b.ipynb"]
    problems = found(fill(tmp_path / "class", dict.fromkeys(files, b"1")), chapter)
    assert all("2 notebooks" in str(problems[student]) for student in ("ada", "cy", "eve"))
    assert "no notebook, only bob/report.pdf" in str(problems["bob"])


def test_unsafe_files_are_refused(chapter: Chapter, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("autograder.collect.MAX_FILE", 1000)
    link = zipfile.ZipInfo("link.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = pack(tmp_path / "class.zip", {"../../evil.ipynb": b"1", "/etc/evil.ipynb": b"1", "C:\\evil.ipynb": b"1"})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("bomb.ipynb", b"0" * 5000)
        archive.writestr("ada.ipynb", b"1")
        archive.writestr("-rf.ipynb", b"1")
    taken = collect(path, chapter)
    assert [submission.student for submission in taken] == ["ada", "", "", "", "", "", ""]
    problems = " ".join(submission.problem or "" for submission in taken)
    assert problems.count("out of the zip file") == 3
    assert "link" in problems and "too large" in problems and "cannot be a student's id" in problems
    assert sorted(os.listdir(tmp_path)) == ["class.zip"]


def test_links_in_a_folder_are_refused(chapter: Chapter, tmp_path: Path) -> None:
    folder = fill(tmp_path / "class", {"ada.ipynb": b"1"})
    (folder / "eve.ipynb").symlink_to("/etc/passwd")
    (folder / "loop").symlink_to(tmp_path)
    assert [(s.student, s.problem) for s in collect(folder, chapter)] == [
        ("ada", None),
        ("", "It is a link, not a file."),
        ("", "It is a link, not a file."),
    ]


def test_damaged_zip(chapter: Chapter, tmp_path: Path) -> None:
    path = pack(tmp_path / "class.zip", {"ada.ipynb": b"1" * 1000, "bob.ipynb": b"2"})
    data = bytearray(path.read_bytes())
    data[45] ^= 0xFF
    path.write_bytes(bytes(data))
    assert found(path, chapter)["bob"] == b"2"
    assert "cannot be unpacked" in str(found(path, chapter)[""])
    with pytest.raises(CollectError, match="no folder or zip file"):
        collect(tmp_path / "nowhere", chapter)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "-x", ".x", "=1+1", "a\0b", "x" * 200, "a..b", "a*b", "<b>"])
def test_unsafe_names(name: str) -> None:
    assert safe_name(name) == ""


# --- gradebook -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(chapter: Chapter, release: Release, submissions: list[Submission], results: dict[str, Result]) -> Course:
    write_marks(chapter.course, release, submissions, results)
    return chapter.course


def scores(course: Course, chapter: Chapter, student: str) -> dict[str, float]:
    with Gradebook(course.gradebook) as gradebook:
        grades = gradebook.find_submission_notebook(chapter.name, chapter.id, student).grades
        return {grade.name: float(grade.score) for grade in grades}


def test_gradebook_holds_the_marks(chapter: Chapter, written: Course, results: dict[str, Result]) -> None:
    for student, result in results.items():
        assert scores(written, chapter, student) == marks(result), student


def test_nbgrader_goes_on_working(chapter: Chapter, written: Course, tmp_path: Path) -> None:
    feedback = NbGraderAPI(config=nbgrader_config(written)).generate_feedback(chapter.id, force=False)
    assert feedback["success"], feedback
    assert (written.grading / "feedback" / "full" / chapter.id / f"{chapter.name}.html").is_file()
    table = tmp_path / "grades.csv"
    export = [sys.executable, "-m", "nbgrader", "export", f"--CourseDirectory.db_url={written.gradebook}"]
    subprocess.run([*export, "--NbGrader.logfile=", "--to", str(table)], cwd=tmp_path, check=True, capture_output=True)
    rows = {row["student_id"]: row for row in csv.DictReader(table.open())}
    assert float(rows["full"]["score"]) == 6 and float(rows["squares"]["score"]) == 4
    assert float(rows["exits"]["score"]) == 0


def test_grading_again_replaces_autogrades_and_keeps_manual_scores(
    chapter: Chapter, written: Course, release: Release, results: dict[str, Result]
) -> None:
    def regrade(content_of: str) -> dict[str, float]:
        again = Submission("regraded", "", notebooks(chapter)[content_of])
        write_marks(written, release, [again], {"regraded": results[content_of]})
        return scores(written, chapter, "regraded")

    assert regrade("full") == FULL
    assert regrade("no-tests") == FULL | {"test_total": 0.0}
    with Gradebook(written.gradebook) as gradebook:
        gradebook.find_grade("test_double", chapter.name, chapter.id, "regraded").manual_score = 1.5
        gradebook.db.commit()
    assert regrade("stub") == NOTHING | {"test_double": 1.5}
    infrastructure = {"regraded": no_marks(release, "infrastructure", "")}
    write_marks(written, release, [Submission("regraded", "", b"")], infrastructure)
    assert regrade("broken") == NOTHING | {"test_double": 1.5}
    assert not (written.grading / "autograded" / "regraded" / chapter.id).exists()


def test_other_cells_are_refused_when_there_are_marks(
    written: Course, release: Release, results: dict[str, Result]
) -> None:
    other = Release(**{**vars(release), "notebook": release.notebook.replace(b"test_total", b"test_sum")})
    with pytest.raises(ReleaseError, match="submissions associated"):
        write_marks(written, other, [Submission("full", "", b"")], results)


# --- feedback and report ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages(chapter: Chapter, release: Release, results: dict[str, Result], recognised) -> dict[str, str]:
    paths = write_feedback(chapter.course, release, results, recognised)
    return {path.stem: path.read_text() for path in paths}


def test_feedback_names_the_misconception(pages: dict[str, str]) -> None:
    sentence = "Doubling is not &lt;b&gt;squaring&lt;/b&gt;."
    assert sentence in pages["squares"]
    assert not any(sentence in pages[student] for student in ("full", "stub", "thrice", "hidden-only", "red"))


def test_feedback_holds_no_secret_and_no_script(pages: dict[str, str]) -> None:
    assert "double(21) should be 42, not 7." in pages["hidden-only"].replace("&#39;", "'")
    assert "not the right choice" in pages["quizzed"]
    for student, page in pages.items():
        assert HIDDEN not in page and "assert " not in page, student
        assert "the key is" not in page, student
        assert "<script" not in page and "http" not in page, student


def test_feedback_says_what_is_wrong_with_a_file(pages: dict[str, str]) -> None:
    assert "could not be graded" in pages["broken"] and "0 of 6 points" in pages["broken"]
    assert "6 of 6 points" in pages["full"]
    assert "The cell test_total is missing." in pages["no-tests"]


def test_report(chapter: Chapter, release: Release, results: dict[str, Result], recognised) -> None:
    refused = [Submission("", "<i>link</i>.ipynb", problem="It is a link, not a file.")]
    folder = write_report(chapter.course, release, results, refused, recognised)
    page = (folder / "report.html").read_text()
    assert "&lt;i&gt;link&lt;/i&gt;.ipynb" in page and "<script" not in page
    assert "Doubling is not &lt;b&gt;squaring&lt;/b&gt;." in page
    document = json.loads((folder / "results.json").read_text())
    by_student = {entry["student"]: entry for entry in document["students"]}
    told = [student for student, entry in by_student.items() if "square" in entry["cells"][0]["misconceptions"]]
    assert told == ["squares", "skipping", "rewritten"]
    table = {row[0]: row[1:] for row in csv.reader((folder / "marks.csv").open(encoding="utf-8"))}
    assert table["student"] == ["total", "max", "double", "total", "quiz_color", "status", "reason"]
    assert table["squares"] == ["4", "6", "0", "3", "1", "graded", ""]
    assert table["broken"][5] == "unreadable" and table["broken"][6]


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_csv_holds_no_formula(release: Release, recognised, tmp_path: Path, formula: str) -> None:
    results = {formula: no_marks(release, "unreadable", formula)}
    folder = write_report(Course(tmp_path), release, results, [], recognised)
    with (folder / "marks.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[1][0] == rows[1][-1] == f"'{formula}"


# --- misconceptions, samples, audit, commands ------------------------------------------------------------------------


def test_misconceptions_are_read_without_running_them(chapter: Chapter, tmp_path: Path) -> None:
    square, first = load(chapter)
    assert square.sentence == "Doubling is not <b>squaring</b>."
    assert square.source == "def double(x):\n    return x ** 2\n"
    assert (first.exercise, first.id) == ("total", "first-value")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def f(:", r":1: "),
        ('@misconception("a", "b")\ndef f(): ...', r":1: write @misconception"),
        ('@misconception("a", "b", name)\ndef f(): ...', r":1: write @misconception"),
        ('@misconception("a", "../b", "c")\ndef f(): ...', r":1: the id"),
        (2 * '@misconception("a", "b", "c")\ndef f(): ...\n', r":3: the id 'b' is used"),
    ],
)
def test_bad_misconceptions(tmp_path: Path, text: str, problem: str) -> None:
    chapter = Chapter(Course(tmp_path), "01-tiny")
    chapter.folder.mkdir(parents=True)
    chapter.misconceptions.write_text(text)
    with pytest.raises(MisconceptionError, match=r"misconceptions\.py" + problem):
        load(chapter)


def test_misconception_keeps_other_decorators(tmp_path: Path) -> None:
    chapter = Chapter(Course(tmp_path), "01-tiny")
    chapter.folder.mkdir(parents=True)
    source = "@cache\ndef a():\n    # why\n    return torch.ones(1)\n"
    chapter.misconceptions.write_text('@misconception("a", "b", "c")\n' + source)
    assert load(chapter)[0].source == source


def test_sample_class(chapter: Chapter, tmp_path: Path) -> None:
    expected = write_sample_class(chapter.course, chapter, tmp_path)
    assert expected == {
        "reference-solution": FULL,
        "untouched-stub": NOTHING,
        "wrong-square": FULL | {"test_double": 0.0},
        "wrong-first-value": FULL | {"test_total": 0.0},
        "unreadable-file": None,
    }
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(expected)
    assert "### BEGIN" not in (tmp_path / "reference-solution.ipynb").read_text()


def test_audit_finds_a_misconception_that_passes(chapter: Chapter) -> None:
    assert audit(chapter.course, chapter, progress=False) == []
    before = chapter.misconceptions.read_text()
    try:
        chapter.misconceptions.write_text(before.replace("return x ** 2", "return x * 2"))
        deviations = audit(chapter.course, chapter, progress=False)
        assert deviations == ["wrong-square: test_double gives 2 points, expected 0."]
    finally:
        chapter.misconceptions.write_text(before)


def test_misconceptions_are_graded_once_for_audit_and_feedback(chapter: Chapter, monkeypatch) -> None:
    assert audit(chapter.course, chapter, progress=False) == []
    monkeypatch.setattr(classroom, "_Worker", None)
    known = recognise(chapter.course, chapter, build_release(chapter), progress=False)
    assert len(known.by_signature) == 2


def test_commands(chapter: Chapter, tmp_path: Path) -> None:
    app = typer.Typer()
    commands_grade.register(app, lambda: chapter.course)
    run = CliRunner().invoke
    assert run(app, ["sample-class", str(tmp_path / "class"), "--chapter", chapter.id]).exit_code == 0
    graded = run(app, ["grade", str(tmp_path / "class"), "--chapter", chapter.id])
    assert graded.exit_code == 0, graded.output
    assert "4 of 5 submissions" in graded.output and "unreadable-file: The file is not a notebook" in graded.output
    for line in graded.output.splitlines():
        if line.startswith(("report:", "marks:")):
            assert Path(line.split(maxsplit=1)[1]).is_file()
    nowhere = run(app, ["grade", str(tmp_path / "nowhere"), "--chapter", chapter.id])
    assert nowhere.exit_code == 2 and "There is no folder" in nowhere.output
    unknown = run(app, ["grade", str(tmp_path), "--chapter", "99-x"])
    assert unknown.exit_code == 1 and "There is no chapter '99-x'" in unknown.output

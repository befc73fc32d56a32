"""Marks for Canvas and Moodle: every mark beside the right name, none lost, and no formula in a cell."""

import csv
import shutil
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.exports import ExportError, harmless, number, write_canvas, write_moodle
from autograder.layout import Course

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

HEADER = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook of two chapters with 6 points, without students. Making one takes nbgrader seconds."""
    course = Course(tmp_path_factory.mktemp("empty"))
    course.grading.mkdir()
    with Gradebook(course.gradebook) as gradebook:
        for chapter in ("01-tiny", "02-self-attention"):
            gradebook.add_assignment(chapter)
            gradebook.add_notebook("notebook", chapter)
            for cell, points in (("test_a", 2), ("test_b", 4)):
                gradebook.add_grade_cell(cell, "notebook", chapter, max_score=points, cell_type="code")
    return course.grading / "gradebook.db"


@pytest.fixture
def course(empty: Path, tmp_path: Path) -> Course:
    course = Course(tmp_path, tmp_path / "grading")
    course.grading.mkdir()
    shutil.copy(empty, course.grading)
    return course


def enrol(course: Course, student: str, **names: str) -> None:
    with Gradebook(course.gradebook) as gradebook:
        gradebook.update_or_create_student(student, **names)


def submit(
    course: Course,
    student: str,
    auto: tuple[float | None, float | None],
    *,
    chapter: str = "01-tiny",
    manual: float | None = None,
    penalty: float = 0.0,
) -> None:
    """Marks of the two cells by the tests; a mark by hand is for the second one."""
    enrol(course, student)
    with Gradebook(course.gradebook) as gradebook:
        notebook = gradebook.update_or_create_submission(chapter, student).notebooks[0]
        notebook.late_submission_penalty = penalty
        for cell, score in zip(("test_a", "test_b"), auto, strict=True):
            grade = gradebook.find_grade(cell, "notebook", chapter, student)
            grade.auto_score, grade.needs_manual_grade = score, False
        gradebook.find_grade("test_b", "notebook", chapter, student).manual_score = manual
        gradebook.db.commit()


def table(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def roster(tmp_path: Path, *rows: list[str], encoding: str = "utf-8", delimiter: str = ",") -> Path:
    path = tmp_path / "roster.csv"
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


# --- marks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auto", "manual", "penalty", "mark"),
    [
        ((2, 4), None, 0, "6"),
        ((0, 0), None, 0, "0"),
        ((2, 0), 1.5, 0, "3.5"),  # a mark by hand replaces that of the tests
        ((2, 4), 0, 0, "2"),  # even when it is zero
        ((2, 4), None, 1.25, "4.75"),
        ((2, 0), None, 5, "0"),  # a penalty that is larger than the score
        ((2, 0), 4 / 3, 0, "3.33"),
    ],
)
def test_marks_after_manual_marks_and_penalties(course, tmp_path, auto, manual, penalty, mark) -> None:
    submit(course, "ada", auto, manual=manual, penalty=penalty)
    write_canvas(course, tmp_path / "canvas.csv", ["01-tiny"])
    write_moodle(course, tmp_path / "moodle.csv", ["01-tiny"])
    assert table(tmp_path / "canvas.csv")[-1][-1] == mark
    assert table(tmp_path / "moodle.csv")[-1][-1] == mark


def test_nothing_submitted_is_empty_and_not_zero(course, tmp_path) -> None:
    submit(course, "ada", (0, 0))
    enrol(course, "bob")
    submit(course, "cy", (None, None))  # taken in, but not graded
    summary = write_canvas(course, tmp_path / "canvas.csv")
    assert [row[-2:] for row in table(tmp_path / "canvas.csv")[2:]] == [["0", ""], ["", ""], ["", ""]]
    assert summary.rows == 3
    assert summary.notes == ["01-tiny: the submission of cy is not graded yet. The cell is empty."]
    write_moodle(course, tmp_path / "moodle.csv")
    assert [row[-2:] for row in table(tmp_path / "moodle.csv")[1:]] == [["0", ""], ["", ""], ["", ""]]


def test_says_who_waits_for_a_mark_by_hand(course, tmp_path) -> None:
    submit(course, "ada", (2, 0))
    with Gradebook(course.gradebook) as gradebook:
        gradebook.find_grade("test_b", "notebook", "01-tiny", "ada").needs_manual_grade = True
        gradebook.db.commit()
    assert write_canvas(course, tmp_path / "c.csv").notes == ["01-tiny: still to be graded by hand: ada."]


def test_impossible_mark_is_refused(course, tmp_path) -> None:
    submit(course, "ada", (2, 0), manual=float("inf"))
    with pytest.raises(ExportError, match="the mark of ada is inf"):
        write_canvas(course, tmp_path / "c.csv")
    assert not (tmp_path / "c.csv").exists()


def test_chapters_in_the_order_asked_for(course, tmp_path) -> None:
    submit(course, "ada", (2, 0), chapter="01-tiny")
    submit(course, "ada", (2, 4), chapter="02-self-attention")
    write_canvas(course, tmp_path / "c.csv", ["02-self-attention", "01-tiny"])
    header, points, ada = table(tmp_path / "c.csv")
    assert header == [*HEADER, "02-self-attention", "01-tiny"]
    assert points == ["    Points Possible", "", "", "", "", "6", "6"]
    assert ada == ["ada", "", "", "ada", "", "6", "2"]
    with pytest.raises(ExportError, match="no 09-nothing"):
        write_canvas(course, tmp_path / "c.csv", ["09-nothing"])


def test_no_gradebook_is_not_made(tmp_path) -> None:
    with pytest.raises(ExportError, match="grade a class first"):
        write_moodle(Course(tmp_path), tmp_path / "m.csv")
    assert list(tmp_path.iterdir()) == []


# --- text ------------------------------------------------------------------------------------------------------------

FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "＝1", "＋1", "－1", "＠x"]
FORMULAS += [" =1", "\n=1", "\u00a0=1", "\u200b=1", "\ufeff=1"]  # after what cannot be seen


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_become_text(course, tmp_path, text: str) -> None:
    assert harmless(text) == f"'{text}"
    submit(course, "ada", (2, 0))
    enrol(course, "ada", last_name=text, email=text)
    write_canvas(course, tmp_path / "c.csv")
    write_moodle(course, tmp_path / "m.csv", id_column="email")
    names = roster(tmp_path, HEADER, [text, "1", "", "ada", text])
    write_canvas(course, tmp_path / "r.csv", roster=names)
    cells = [c for name in ("c.csv", "m.csv", "r.csv") for row in table(tmp_path / name) for c in row]
    assert cells.count(f"'{text}") == 5
    assert text not in cells


@pytest.mark.parametrize("text", ["", "ada", "Müller-Lüdenscheidt, 李", "a=b", "a@b.de", "3.5", "x\n=1"])
def test_other_text_stays(text: str) -> None:
    assert harmless(text) == text


def test_an_id_like_a_formula_is_mentioned(course, tmp_path) -> None:
    submit(course, "-ada", (2, 0))
    assert "The id -ada begins like a formula" in write_canvas(course, tmp_path / "c.csv").notes[0]
    assert "The id -ada begins like a formula" in write_moodle(course, tmp_path / "m.csv").notes[0]


@pytest.mark.parametrize("name", ["Ångström", "李, 雷", 'O"Neil', "two\nlines", "semi;colon", "عمر", "😀"])
def test_names_survive_the_file(course, tmp_path, name: str) -> None:
    submit(course, "ada", (2, 4))
    enrol(course, "ada", first_name=name, last_name="Last")
    write_canvas(course, tmp_path / "c.csv", ["01-tiny"])
    write_moodle(course, tmp_path / "m.csv", ["01-tiny"])
    assert table(tmp_path / "c.csv")[2] == [f"Last, {name}", "", "", "ada", "", "6"]
    assert table(tmp_path / "m.csv")[1] == ["ada", f"Last, {name}", "6"]
    again = roster(tmp_path, [*HEADER, "01-tiny (7)"], [name, "1", "", "ada", ""])
    write_canvas(course, tmp_path / "c.csv", ["01-tiny"], again)
    assert table(tmp_path / "c.csv")[1] == [name, "1", "", "ada", "", "6"]


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.0, "0"), (100.0, "100"), (10.5, "10.5"), (2 / 3, "0.67"), (0.001, "0")]
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


# --- Canvas ----------------------------------------------------------------------------------------------------------


def test_canvas_roster(course, tmp_path) -> None:
    """As Canvas exports it: BOM, a row for the posting policy, points possible, other columns, an excused student."""
    submit(course, "ada", (2, 4))
    submit(course, "sis-2", (2, 0))
    submit(course, "103", (0, 0))
    submit(course, "eve", (2, 4))
    rows = [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Notes", "Tiny (55)", "Essay (56)", "Final Score"],
        ["", "", "", "", "", "", "Manual Posting", "", "(read only)"],
        ["    Points Possible", "", "", "", "", "", "10.00", "5", "(read only)"],
        ["Lovelace, Ada", "101", "sis-1", "ada", "A and B", "n", "1.00", "3", "7"],
        ["Babbage, Bob", "102", "sis-2", "bob", "A", "n", "", "3", "7"],
        ["Cyr, Cy", "103", "sis-3", "cy", "A", "n", "", "3", "7"],
        ["Dee, Dee", "104", "sis-4", "dee", "A", "n", "EX", "3", "7"],
    ]
    path = roster(tmp_path, *rows, encoding="utf-8-sig")
    summary = write_canvas(course, tmp_path / "c.csv", ["01-tiny"], path)
    assert (tmp_path / "c.csv").read_bytes().startswith(b"Student,")
    assert table(tmp_path / "c.csv") == [
        [*HEADER, "Tiny (55)"],
        ["", "", "", "", "", "Manual Posting"],
        ["    Points Possible", "", "", "", "", "10.00"],
        ["Lovelace, Ada", "101", "sis-1", "ada", "A and B", "6"],
        ["Babbage, Bob", "102", "sis-2", "bob", "A", "2"],
        ["Cyr, Cy", "103", "sis-3", "cy", "A", "0"],
        ["Dee, Dee", "104", "sis-4", "dee", "A", "EX"],
    ]
    assert summary.rows == 4
    assert summary.unmatched == ["eve"]
    assert summary.without_marks == ["Dee, Dee"]
    assert summary.notes == ["Canvas has 10.00 points for 01-tiny, and the chapter 6."]


def test_canvas_column_that_is_new(course, tmp_path) -> None:
    submit(course, "ada", (2, 4))
    path = roster(tmp_path, HEADER, ["    Points Possible", "", "", "", ""], ["Ada", "1", "", "ada", ""])
    summary = write_canvas(course, tmp_path / "c.csv", ["01-tiny"], path)
    assert [row[-1] for row in table(tmp_path / "c.csv")] == ["01-tiny", "6", "6"]
    assert summary.notes == [
        "Canvas has no column for 01-tiny. Importing the file makes a new assignment of that name."
    ]


def test_canvas_roster_with_semicolons(course, tmp_path) -> None:
    submit(course, "ada", (2, 4))
    rows = [*HEADER, "01-tiny (7)"], ["Ada, A; B", "1", "", "ada", "", "1,5"], ["Bob", "2", "", "bob", "", "2,5"]
    write_canvas(course, tmp_path / "c.csv", ["01-tiny"], roster(tmp_path, *rows, delimiter=";"))
    assert [row[-1] for row in table(tmp_path / "c.csv")] == ["01-tiny (7)", "6", "2,5"]


def test_canvas_never_guesses(course, tmp_path) -> None:
    """Equal names are no matter; ids that fit two rows, or two students for one row, get no mark."""
    submit(course, "7", (2, 4))
    submit(course, "cy", (2, 4))
    submit(course, "sis-cy", (2, 0))
    submit(course, "sam", (2, 0))
    rows = [
        [*HEADER, "01-tiny"],
        ["Sam", "1", "s1", "7", ""],
        ["Sam", "7", "s2", "sam", ""],
        ["Cy", "3", "sis-cy", "cy", ""],
    ]
    summary = write_canvas(course, tmp_path / "c.csv", ["01-tiny"], roster(tmp_path, *rows))
    assert [row[-1] for row in table(tmp_path / "c.csv")[1:]] == ["", "", ""]
    assert summary.unmatched == ["7", "cy", "sam", "sis-cy"]
    assert "7 cannot be told from others in the roster (row 2, 3)." in summary.notes


def test_equal_names(course, tmp_path) -> None:
    submit(course, "sam1", (2, 4))
    submit(course, "sam2", (2, 0))
    rows = [*HEADER, "01-tiny"], ["Sam", "1", "", "sam2", ""], ["Sam", "2", "", "sam1", ""]
    assert write_canvas(course, tmp_path / "c.csv", ["01-tiny"], roster(tmp_path, *rows)).unmatched == []
    assert [row[-1] for row in table(tmp_path / "c.csv")[1:]] == ["2", "6"]


@pytest.mark.parametrize("student", ["lovelaceada_101_9_self-attention", "lovelaceada_LATE_101_9_self_attention-1"])
def test_names_of_files_downloaded_from_canvas(course, tmp_path, student: str) -> None:
    submit(course, student, (2, 4))
    rows = [*HEADER, "01-tiny"], ["Ada", "101", "9", "ada", ""], ["Bob", "9", "101", "bob", ""]
    assert write_canvas(course, tmp_path / "c.csv", ["01-tiny"], roster(tmp_path, *rows)).unmatched == []
    assert [row[-1] for row in table(tmp_path / "c.csv")[1:]] == ["6", ""]


def test_canvas_id_of_the_gradebook(course, tmp_path) -> None:
    submit(course, "ada", (2, 4))
    enrol(course, "ada", lms_user_id="101")
    rows = [*HEADER, "01-tiny"], ["Bob", "102", "", "ada", ""], ["Ada", "101", "", "other", ""]
    write_canvas(course, tmp_path / "c.csv", ["01-tiny"], roster(tmp_path, *rows))
    assert [row[-1] for row in table(tmp_path / "c.csv")[1:]] == ["", "6"]
    write_canvas(course, tmp_path / "c.csv", ["01-tiny"])
    assert table(tmp_path / "c.csv")[-1] == ["ada", "101", "", "ada", "", "6"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"name,mark\nada,3\n", "no gradebook of Canvas"),
        (b"Student,ID,Section\n\xff\xfe,1,\n", "not UTF-8"),
        (b"Student,ID,Section,Tiny (1),01-tiny (2)\n", "Several columns"),
        (b"Student,ID,ID,Section\n", "more than one column ID"),
        (None, "cannot be read"),
    ],
)
def test_rosters_that_cannot_be_used(course, tmp_path, content: bytes | None, message: str) -> None:
    path = tmp_path / "roster.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ExportError, match=message):
        write_canvas(course, tmp_path / "c.csv", ["01-tiny"], path)


# --- Moodle ----------------------------------------------------------------------------------------------------------


def test_moodle_columns_of_ids(course, tmp_path) -> None:
    submit(course, "ada", (2, 4))
    enrol(course, "ada", email="ada@uni.de", first_name="Ada", last_name="Lovelace")
    submit(course, "bob@uni.de", (2, 0))
    submit(course, "cy", (2, 0))
    mark = "Assignment: 01-tiny (Real)"
    write_moodle(course, tmp_path / "m.csv", ["01-tiny"])
    assert table(tmp_path / "m.csv")[:2] == [["Username", "Full name", mark], ["ada", "Lovelace, Ada", "6"]]
    write_moodle(course, tmp_path / "m.csv", ["01-tiny"], id_column="idnumber")
    assert table(tmp_path / "m.csv")[0] == ["ID number", "Full name", mark]
    summary = write_moodle(course, tmp_path / "m.csv", ["01-tiny"], id_column="email")
    assert [row[0] for row in table(tmp_path / "m.csv")] == ["Email address", "ada@uni.de", "bob@uni.de"]
    assert (summary.rows, summary.unmatched) == (2, ["cy"])
    with pytest.raises(ExportError, match="Known: username, idnumber, email, participant"):
        write_moodle(course, tmp_path / "m.csv", id_column="name")


def test_moodle_students_with_one_address(course, tmp_path) -> None:
    for student in ("ada", "bob"):
        submit(course, student, (2, 4))
        enrol(course, student, email="both@uni.de")
    summary = write_moodle(course, tmp_path / "m.csv", id_column="email")
    assert (summary.rows, summary.unmatched) == (0, ["ada", "bob"])


def test_moodle_roster(course, tmp_path) -> None:
    """Marks that Moodle has stay where there is none; a row without an id would give its marks to the row above."""
    submit(course, "ada", (2, 4))
    submit(course, "s-2", (2, 0))
    submit(course, "dee", (2, 0))
    submit(course, "eve", (2, 0))
    rows = [
        [
            "First name",
            "Last name",
            "ID number",
            "Department",
            "Email address",
            "Assignment: Tiny (Real)",
            "Course total",
        ],
        ["Ada", "Lovelace", "ada", "x", "ada@uni.de", "1.00", "9"],
        ["Bob", "Babbage", "s-2", "x", "bob@uni.de", "-", "9"],
        ["Cy", "Cyr", "s-3", "x", "cy@uni.de", "4.50", "9"],
        ["Dee", "Dee", "dee", "x", "", "-", "9"],
        ["Fay", "Fay", "s-4", "x", "fay@uni.de", "-", "9"],
    ]
    summary = write_moodle(course, tmp_path / "m.csv", ["01-tiny"], roster(tmp_path, *rows), "email")
    assert table(tmp_path / "m.csv") == [
        ["Email address", "First name", "Last name", "Assignment: Tiny (Real)"],
        ["ada@uni.de", "Ada", "Lovelace", "6"],
        ["bob@uni.de", "Bob", "Babbage", "2"],
        ["cy@uni.de", "Cy", "Cyr", "4.50"],
        ["fay@uni.de", "Fay", "Fay", ""],
    ]
    assert summary.rows == 4
    assert summary.unmatched == ["eve", "dee"]
    assert summary.without_marks == ["cy@uni.de", "fay@uni.de"]
    assert summary.notes == ["Row 5 of the roster has no Email address and was left out."]
    with pytest.raises(ExportError, match="has no column Username"):
        write_moodle(course, tmp_path / "m.csv", ["01-tiny"], roster(tmp_path, *rows))


def test_moodle_grading_worksheet(course, tmp_path) -> None:
    submit(course, "Ada-Lovelace_4711", (2, 4))
    submit(course, "4712", (2, 4))
    rows = [
        ["Identifier", "Full name", "Status", "Grade", "Maximum Grade", "Last modified (grade)"],
        ["Participant 4711", "Ada Lovelace", "Submitted", "", "6.00", "Monday"],
        ["Participant 4712", "Bob", "Submitted", "3.00", "6.00", "Monday"],
    ]
    path = roster(tmp_path, *rows)
    summary = write_moodle(course, tmp_path / "m.csv", ["01-tiny"], path, "participant")
    assert table(tmp_path / "m.csv") == [
        ["Identifier", "Full name", "Last modified (grade)", "Grade"],
        ["Participant 4711", "Ada Lovelace", "Monday", "6"],
        ["Participant 4712", "Bob", "Monday", "3.00"],
    ]
    assert summary.unmatched == ["4712"]
    with pytest.raises(ExportError, match="name one chapter"):
        write_moodle(course, tmp_path / "m.csv", None, path, "participant")
    with pytest.raises(ExportError, match="give it as the roster"):
        write_moodle(course, tmp_path / "m.csv", ["01-tiny"], None, "participant")

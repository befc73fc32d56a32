"""Marks as the files that Canvas and Moodle import: nbgrader's gradebook, after late penalties and marks by hand.

Whoever a mark belongs to is never guessed: a student who fits no row of a roster, or more than one, is reported.
"""

import csv
import io
import math
import re
import unicodedata
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nbgrader.api import Grade, Gradebook, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import or_
from sqlalchemy.exc import SAWarning

from autograder.layout import Course

CANVAS_COLUMNS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
CANVAS_IDS = ["SIS Login ID", "SIS User ID", "ID"]
CANVAS_POINTS = "    Points Possible"
MOODLE_IDS = {
    "username": "Username",
    "idnumber": "ID number",
    "email": "Email address",
    "participant": "Identifier",  # of an assignment's grading worksheet
}
MOODLE_NAMES = ["Full name", "First name", "Last name"]
# What downloaded submissions are called: the number is the ID in Canvas, and the participant in Moodle.
CANVAS_DOWNLOAD = re.compile(r"[^_]+(?:_LATE)?_(\d+)_\d+_.+")
MOODLE_DOWNLOAD = re.compile(r".+_(\d+)")

Key = tuple[str, str]  # column and what it says


class ExportError(ValueError):
    """The gradebook or the roster cannot be used; says what to do."""


@dataclass(frozen=True)
class Summary:
    """What was written, and what was not."""

    rows: int  # of students
    unmatched: list[str] = field(default_factory=list)  # students of the gradebook whose marks are not in the file
    without_marks: list[str] = field(default_factory=list)  # rows of the roster that are no student of the gradebook
    notes: list[str] = field(default_factory=list)  # what the instructor should look at before importing


@dataclass(frozen=True)
class _Student:
    id: str
    name: str  # "Last, First", or the id
    email: str
    lms_id: str
    marks: dict[str, float]  # chapter → mark; a chapter without a graded submission is missing


@dataclass(frozen=True)
class _Marks:
    maximum: dict[str, float]  # chapter → points, in the order of the columns
    students: list[_Student]
    notes: list[str]


@dataclass(frozen=True)
class _Roster:
    header: list[str]
    rows: list[dict[str, str]]  # by column


def write_canvas(course: Course, path: Path, chapters: list[str] | None = None, roster: Path | None = None) -> Summary:
    """Write a gradebook that Canvas imports.

    With a roster its rows stay, with the columns up to "Section" and those of the chapters. Where there is no mark,
    what Canvas had in the cell stays too: an empty cell would delete it.

    Args:
        chapters: by default all in the gradebook.
        roster: the gradebook as exported from Canvas. Without it, students go by their id, as "SIS Login ID".

    Raises:
        ExportError: nothing was graded, a chapter is unknown, or the roster is not Canvas's.
    """
    marks = _read_marks(course, chapters)
    ids = list(marks.maximum)
    if roster is None:
        table = [[CANVAS_POINTS, "", "", "", "", *map(number, marks.maximum.values())]]
        for student in marks.students:
            table.append([harmless(student.name), harmless(student.lms_id), "", harmless(student.id), ""])
            table[-1] += [number(student.marks.get(chapter)) for chapter in ids]
        _write(path, [*CANVAS_COLUMNS, *map(harmless, ids)], table)
        return Summary(len(marks.students), notes=marks.notes + _escaped(student.id for student in marks.students))

    read = _read_roster(roster)
    if not {"ID", "Section"} <= set(read.header) or read.header[0] not in ("Student", "LastName"):
        raise ExportError(f"{roster} is no gradebook of Canvas: there is no column Student, ID or Section.")
    head = read.header[: read.header.index("Section") + 1]
    columns = {chapter: _column(read.header, chapter, r"\s*\(\d+\)$") for chapter in ids}
    notes = [
        f"Canvas has no column for {chapter}. Importing the file makes a new assignment of that name."
        for chapter in ids
        if columns[chapter] is None
    ]
    owners, unmatched, ambiguous = _match(marks.students, read, CANVAS_IDS, _canvas_keys)
    table, without_marks = [], []
    for index, row in enumerate(read.rows):
        is_points = "Points Possible" in row[head[0]]
        owner = owners.get(index)
        if owner is None and not is_points and any(row.get(column) for column in CANVAS_IDS):
            without_marks.append(row[head[0]])
        cells = []
        for chapter, column in columns.items():
            had = row[column] if column else ""
            if is_points:
                cells.append(_kept(had) or number(marks.maximum[chapter]))
                notes += _other_maximum(chapter, had, marks.maximum[chapter])
            else:
                cells.append(_cell(owner, chapter, had))
        table.append([*(harmless(row[column]) for column in head), *cells])
    _write(path, [*map(harmless, head), *(harmless(column or chapter) for chapter, column in columns.items())], table)
    students = sum(any(row.get(column) for column in CANVAS_IDS) for row in read.rows)
    return Summary(students, unmatched, without_marks, marks.notes + notes + ambiguous)


def write_moodle(
    course: Course,
    path: Path,
    chapters: list[str] | None = None,
    roster: Path | None = None,
    id_column: str = "username",
) -> Summary:
    """Write a CSV file that Moodle imports.

    No row without an id is ever written: Moodle would give its marks to the student of the row above.

    Args:
        chapters: by default all in the gradebook.
        roster: a CSV file exported from Moodle with the column of `id_column`. Its students and their ids are kept.
            Without it, students go by their id, or by their e-mail address.
        id_column: "username", "idnumber" or "email", which is what to choose as *Map to* in Moodle; or "participant"
            when the roster is the grading worksheet of one assignment, which the same assignment takes back.

    Raises:
        ExportError: nothing was graded, a chapter is unknown, or the roster lacks the column.
    """
    if id_column not in MOODLE_IDS:
        raise ExportError(f"{id_column!r} is no column of ids. Known: {', '.join(MOODLE_IDS)}.")
    marks = _read_marks(course, chapters)
    label, worksheet = MOODLE_IDS[id_column], id_column == "participant"
    if roster is None:
        if worksheet:
            raise ExportError("Participants are known by Moodle's grading worksheet only: give it as the roster.")
        own = {student.id: _moodle_id(student, id_column) for student in marks.students}
        shared = Counter(own.values())
        unmatched = [student for student, value in own.items() if not value or shared[value] > 1]
        written = [student for student in marks.students if student.id not in unmatched]
        table = [
            [harmless(own[student.id]), harmless(student.name), *(number(student.marks.get(c)) for c in marks.maximum)]
            for student in written
        ]
        _write(path, [label, "Full name", *(harmless(_moodle_column(chapter)) for chapter in marks.maximum)], table)
        notes = [f"{student} has no {label} of their own." for student in unmatched]
        return Summary(len(table), unmatched, notes=marks.notes + notes + _escaped(own[s.id] for s in written))

    read = _read_roster(roster)
    needed = [label, "Grade", "Last modified (grade)"] if worksheet else [label]
    if missing := [column for column in needed if column not in read.header]:
        raise ExportError(f"{roster} has no column {', '.join(missing)}. It has: {', '.join(read.header)}.")
    if worksheet and len(marks.maximum) != 1:
        raise ExportError("A grading worksheet belongs to one assignment: name one chapter.")
    head = [label, *(name for name in MOODLE_NAMES if name in read.header), *needed[2:]]
    affix = r"^\w+:\s*|\s*\(Real\)$"
    columns = {c: "Grade" if worksheet else _column(read.header, c, affix) for c in marks.maximum}
    owners, unmatched, notes = _match(marks.students, read, list(MOODLE_IDS.values()), _moodle_keys)
    table, without_marks = [], []
    for index, row in enumerate(read.rows):
        owner = owners.get(index)
        if not row[label]:
            notes.append(f"Row {index + 2} of the roster has no {label} and was left out.")
            unmatched += [owner.id] if owner else []
            continue
        if owner is None:
            without_marks.append(row[label])
        cells = [_cell(owner, chapter, row[column] if column else "") for chapter, column in columns.items()]
        table.append([*(harmless(row[column]) for column in head), *cells])
    _write(path, [*map(harmless, head), *(harmless(col or _moodle_column(c)) for c, col in columns.items())], table)
    notes += _escaped(row[label] for row in read.rows)
    return Summary(len(table), unmatched, without_marks, marks.notes + notes)


def harmless(text: str) -> str:
    """Text that a spreadsheet cannot take for a formula."""
    first = next((c for c in text if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf")), "")
    formula = unicodedata.normalize("NFKC", first).startswith(("=", "+", "-", "@"))
    return f"'{text}" if formula or text.startswith(("\t", "\r", "\n")) else text


def number(value: float | None) -> str:
    """At most two decimals, without trailing zeros; empty when there is no value."""
    return "" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def _read_marks(course: Course, chapters: list[str] | None) -> _Marks:
    if not (course.grading / "gradebook.db").is_file():
        raise ExportError(f"There is no gradebook in {course.grading}: grade a class first.")
    marks: dict[str, dict[str, float]] = defaultdict(dict)
    notes: list[str] = []
    with Gradebook(course.gradebook) as gradebook, warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)  # nbgrader relies on what SQLAlchemy advises against
        known = {assignment.name: assignment for assignment in gradebook.assignments}
        chosen = sorted(known) if chapters is None else list(dict.fromkeys(chapters))
        if unknown := [chapter for chapter in chosen if chapter not in known]:
            has = ", ".join(sorted(known)) or "none"
            raise ExportError(f"The gradebook has no {', '.join(unknown)}. It has: {has}.")
        for chapter in chosen:
            for student, mark in _marks_of(gradebook, chapter, known[chapter].id, notes).items():
                marks[student][chapter] = mark
        students = [
            _Student(
                student.id,
                ", ".join(name for name in (student.last_name, student.first_name) if name) or student.id,
                student.email or "",
                student.lms_user_id or "",
                marks[student.id],
            )
            for student in sorted(gradebook.students, key=lambda student: student.id)
        ]
        return _Marks({chapter: float(known[chapter].max_score) for chapter in chosen}, students, notes)


def _marks_of(gradebook: Gradebook, chapter: str, assignment_id: str, notes: list[str]) -> dict[str, float]:
    """student → mark. `SubmittedAssignment.score` includes marks given by hand, but not the late penalty."""
    columns = (
        SubmittedAssignment.student_id,
        SubmittedAssignment.score,
        SubmittedAssignment.late_submission_penalty,
        SubmittedAssignment.needs_manual_grade,
    )
    rows = gradebook.db.query(*columns).filter(SubmittedAssignment.assignment_id == assignment_id).all()
    graded = (
        gradebook.db.query(SubmittedAssignment.student_id)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
        .filter(SubmittedAssignment.assignment_id == assignment_id)
        .filter(or_(Grade.auto_score.is_not(None), Grade.manual_score.is_not(None)))
    )
    with_marks = {student for (student,) in graded}
    marks, waiting = {}, []
    for student, score, penalty, needs_manual_grade in sorted(rows):
        if student not in with_marks:
            notes.append(f"{chapter}: the submission of {student} is not graded yet. The cell is empty.")
            continue
        marks[student] = max(0.0, float(score) - float(penalty))
        if not math.isfinite(marks[student]):
            raise ExportError(f"{chapter}: the mark of {student} is {marks[student]}. Correct it in the formgrader.")
        waiting += [student] if needs_manual_grade else []
    if waiting:
        notes.append(f"{chapter}: still to be graded by hand: {', '.join(waiting)}.")
    return marks


def _read_roster(path: Path) -> _Roster:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExportError(f"{path} is not UTF-8. Export it again, and do not save it in a spreadsheet.") from error
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}.") from error
    delimiter = re.search(r"[,;\t]", text)  # the first column's name has none in it
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter[0] if delimiter else ",")
    lines = [line for line in reader if any(line)]
    if not lines:
        raise ExportError(f"{path} is empty.")
    header = [column.strip() for column in lines[0]]
    if twice := sorted(column for column, count in Counter(header).items() if column and count > 1):
        raise ExportError(f"{path} has more than one column {', '.join(twice)}.")
    rows = [dict.fromkeys(header, "") | dict(zip(header, line, strict=False)) for line in lines[1:]]
    return _Roster(header, rows)


def _match(
    students: list[_Student], roster: _Roster, columns: list[str], keys_of: Callable[[_Student], list[list[Key]]]
) -> tuple[dict[int, _Student], list[str], list[str]]:
    """row → student, the students without a row, and why some of them have none."""
    index: dict[Key, set[int]] = defaultdict(set)
    for number_of_row, row in enumerate(roster.rows):
        for column in columns:
            if value := _comparable(row.get(column, "")):
                index[column, value].add(number_of_row)
    fitting: dict[str, set[int]] = {}
    for student in students:
        groups = [set().union(*(index.get((c, _comparable(v)), set()) for c, v in keys)) for keys in keys_of(student)]
        fitting[student.id] = next((rows for rows in groups if rows), set())
    claims = Counter(row for rows in fitting.values() for row in rows)
    owners, unmatched, notes = {}, [], []
    for student in students:
        rows = fitting[student.id]
        if len(rows) == 1 and claims[min(rows)] == 1:
            owners[min(rows)] = student
            continue
        unmatched.append(student.id)
        if rows:
            lines = ", ".join(str(row + 2) for row in sorted(rows))
            notes.append(f"{student.id} cannot be told from others in the roster (row {lines}).")
    return owners, unmatched, notes


def _canvas_keys(student: _Student) -> list[list[Key]]:
    """What identifies a student, the best first."""
    download = CANVAS_DOWNLOAD.fullmatch(student.id)
    by_id = [(column, student.id) for column in CANVAS_IDS]
    return [[("ID", student.lms_id)], by_id, [("ID", download[1])] if download else []]


def _moodle_keys(student: _Student) -> list[list[Key]]:
    download = MOODLE_DOWNLOAD.fullmatch(student.id)
    by_id = [(column, student.id) for column in MOODLE_IDS.values()]
    by_email = [(MOODLE_IDS["email"], student.email)]
    return [by_id, by_email, [(MOODLE_IDS["participant"], f"Participant {download[1]}")] if download else []]


def _comparable(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def _column(header: list[str], chapter: str, affix: str) -> str | None:
    """The column of a chapter, called by its id or by its name; `affix` is what the system adds."""

    def plain(text: str) -> str:
        return re.sub(r"[\W_]+", "", text.casefold())

    wanted = {plain(chapter), plain(chapter.split("-", 1)[-1])}
    found = [column for column in header if plain(re.sub(affix, "", column)) in wanted]
    if len(found) > 1:
        raise ExportError(f"Several columns of the roster could be {chapter}: {', '.join(found)}. Leave one.")
    return found[0] if found else None


def _moodle_id(student: _Student, id_column: str) -> str:
    if id_column != "email":
        return student.id
    return student.email or (student.id if "@" in student.id else "")


def _moodle_column(chapter: str) -> str:
    return f"Assignment: {chapter} (Real)"


def _cell(owner: _Student | None, chapter: str, had: str) -> str:
    """The mark; without one, what the roster has there."""
    return (number(owner.marks.get(chapter)) if owner else "") or _kept(had)


def _kept(cell: str) -> str:
    """What the roster has in a cell of marks; Moodle's sign for no mark is a hyphen."""
    cell = cell.strip()
    return "" if cell == "-" else cell if re.fullmatch(r"-?\d+([.,]\d+)?", cell) else harmless(cell)


def _other_maximum(chapter: str, cell: str, maximum: float) -> list[str]:
    try:
        same = math.isclose(float(cell.replace(",", ".")), maximum, abs_tol=0.005)
    except ValueError:
        same = True  # no number, nothing to compare
    return [] if same else [f"Canvas has {cell.strip()} points for {chapter}, and the chapter {number(maximum)}."]


def _escaped(ids: Iterable[str]) -> list[str]:
    return [f"The id {one} begins like a formula; correct it after importing." for one in ids if harmless(one) != one]


def _write(path: Path, header: list[str], rows: list[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])

"""What submissions are graded against, as data; and nbgrader's converters, run in silence."""

import hashlib
import json
import logging
import os
import tempfile
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder.export import MARKERS, export
from autograder.layout import Chapter, Course, here
from autograder.misconceptions import Misconception, load
from autograder.publish import nbgrader_config


class NotPublished(FileNotFoundError):
    """The chapter's notebooks have not been built yet."""


class ReleaseError(RuntimeError):
    """nbgrader does not accept the instructor's notebook."""


@dataclass(frozen=True)
class Cell:
    """A code cell of the notebook."""

    grade_id: str  # empty for a cell that is only shown
    is_test: bool
    source: str  # with solutions and hidden tests
    stub: str  # as students get it
    points: float = 0.0
    is_quiz: bool = False

    @property
    def exercise(self) -> str:
        return self.grade_id.removeprefix("test_")


@dataclass(frozen=True)
class Release:
    """Everything a submission is graded against, as data: it can be sent to any process or machine."""

    chapter_id: str
    name: str
    notebook: str  # the instructor's, as JSON
    released: str  # the students', as JSON
    cells: tuple[Cell, ...]
    misconceptions: tuple[Misconception, ...]
    packages: dict[str, str]  # the files of `course` and of earlier chapters that a submission may import
    cell_timeout: int  # seconds
    digest: str

    @property
    def graded(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.is_test]

    @property
    def is_visible_only(self) -> bool:
        """Made for a student's own check, without hidden tests."""
        return self.notebook == self.released

    @property
    def maximum(self) -> float:
        return sum(cell.points for cell in self.graded)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | bytes) -> "Release":
        data = json.loads(text)
        cells = tuple(Cell(**cell) for cell in data.pop("cells"))
        known = tuple(Misconception(**one) for one in data.pop("misconceptions"))
        return Release(cells=cells, misconceptions=known, **data)


def build_release(chapter: Chapter, cell_timeout: int | None = None) -> Release:
    """What publishing made, put together for grading.

    Args:
        chapter: published before.
        cell_timeout: seconds a cell may run; by default what nbgrader_config.py says.

    Raises:
        NotPublished: there is no instructor's or student's notebook.
        MisconceptionError: misconceptions.py cannot be read.
    """
    for path in (chapter.instructor_notebook, chapter.student_notebook):
        if not path.is_file():
            raise NotPublished(f"{chapter.id} is not published yet: run `python -m autograder publish` first.")
    notebook, released = chapter.instructor_notebook.read_text("utf-8"), chapter.student_notebook.read_text("utf-8")
    timeout = cell_timeout or nbgrader_config(chapter.course).ExecutePreprocessor.timeout
    packages = _course_files(chapter.course) | _earlier_chapters(chapter)
    parts = [chapter.id, notebook, released, str(timeout), json.dumps(packages, sort_keys=True), *grader_sources()]
    known = tuple(load(chapter))
    digest = _digest(*(part.encode() for part in parts), repr(known).encode())
    cells = _cells(nbformat.reads(notebook, as_version=4), nbformat.reads(released, as_version=4))
    return Release(chapter.id, chapter.name, notebook, released, cells, known, packages, timeout, digest)


def visible_release(course: Course, submission: bytes, cell_timeout: int | None = None) -> Release:
    """What a student's own check is made of: the released notebook that the submission belongs to, and nothing else.

    Raises:
        NotPublished: it belongs to none of the notebooks in chapters/.
    """
    found = []
    for path in sorted((course.root / "chapters").glob("[0-9][0-9]-*/*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        ids = [id for cell in notebook.cells if (id := cell.metadata.get("nbgrader", {}).get("grade_id"))]
        found.append((sum(json.dumps(id).encode() in submission for id in ids), path, notebook))
    count, path, notebook = max(found, key=lambda one: one[0], default=(0, Path(), None))
    if not count or notebook is None:
        raise NotPublished("This is no notebook of the course: none of the exercises in chapters/ is in it.")
    chapter, text = Chapter(course, path.parent.name), path.read_text("utf-8")
    timeout = cell_timeout or nbgrader_config(course).ExecutePreprocessor.timeout
    packages = _course_files(course) | _earlier_chapters(chapter)
    digest = _digest(
        b"visible", text.encode(), json.dumps(packages, sort_keys=True).encode(), *map(str.encode, grader_sources())
    )
    return Release(chapter.id, chapter.name, text, text, _cells(notebook, notebook), (), packages, timeout, digest)


def _cells(instructor: NotebookNode, released: NotebookNode) -> tuple[Cell, ...]:
    pairs = zip(instructor.cells, released.cells, strict=True)
    found = []
    for cell, stub in pairs:
        if cell.cell_type == "code":
            options, course = cell.metadata.get("nbgrader", {}), cell.metadata.get("course", {})
            graded, id = bool(options.get("grade")), options.get("grade_id", "")
            points = float(options["points"]) if graded else 0.0
            found.append(Cell(id, graded, MARKERS.sub("", cell.source), stub.source, points, "quiz" in course))
    return tuple(found)


def _course_files(course: Course) -> dict[str, str]:
    root = next((root for root in (course.root, here().root) if (root / "course").is_dir()), course.root)
    files = (path for path in sorted((root / "course").rglob("*")) if path.suffix in (".py", ".json"))
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in files}


def _earlier_chapters(chapter: Chapter) -> dict[str, str]:
    """The reference package as far as it was written before this chapter: its own solutions stay out."""
    earlier = [one.instructor_notebook for one in chapter.course.chapters if one.id < chapter.id]
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "mytransformer"
        modules = export(earlier, package, {path: path.name for path in earlier})
        return {f"mytransformer/{path.name}": path.read_text("utf-8") for path in modules}


def grader_sources() -> list[str]:
    """The code that decides over marks: its digest is the grader's version."""
    folder = here().root / "autograder"
    own = [*sorted((folder / "referee").glob("*.py")), *sorted((folder / "sandbox").glob("*.py"))]
    return [path.read_text("utf-8") for path in (folder / "rebuild.py", folder / "parts.py", *own)]


def register_assignment(course: Course, chapter_id: str, name: str, notebook: str) -> None:
    """Let nbgrader enter the assignment into `course.gradebook`; what it releases on the way is thrown away.

    Raises:
        ReleaseError: nbgrader's reasons.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        source = scratch / "solutions" / chapter_id / f"{name}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(notebook, encoding="utf-8")
        config = converter_config(scratch, course.gradebook)
        config.CourseDirectory.assignment_id = chapter_id
        problems = run_converter(GenerateAssignment, config)
    if problems:
        raise ReleaseError(f"nbgrader does not accept the notebook of {chapter_id}:\n" + "\n".join(problems))


def converter_config(root: Path, db_url: str) -> Config:
    config = nbgrader_config(Course(root))
    config.CourseDirectory.db_url = db_url
    return config


def run_converter(converter: type, config: Config) -> list[str]:
    """Run one of nbgrader's converters in silence; its errors, if any."""
    errors = _Errors()
    log = logging.Logger("nbgrader", logging.ERROR)
    log.addHandler(errors)
    coursedir = CourseDirectory(config=config, log=log)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # nbgrader relies on what SQLAlchemy advises against
            converter(coursedir=coursedir, config=config, log=log).start()
    except Exception as error:
        return [*errors.lines, f"{type(error).__name__}: {error}"]
    return []


class _Errors(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _digest(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()[:24]


def write_atomically(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as temporary:
        temporary.write(content)
    os.replace(temporary.name, path)

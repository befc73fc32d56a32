"""What submissions are graded against: the instructor's notebook, and nbgrader's gradebook with only the assignment."""

import hashlib
import logging
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder.layout import Chapter, Course, here
from autograder.publish import nbgrader_config


class NotPublished(FileNotFoundError):
    """The chapter's notebooks have not been built yet."""


class ReleaseError(RuntimeError):
    """nbgrader does not accept the instructor's notebook."""


@dataclass(frozen=True)
class GradedCell:
    grade_id: str
    exercise: str
    points: float
    is_quiz: bool


@dataclass(frozen=True)
class Release:
    """Everything a submission is graded against, as data: it can be sent to any process or machine."""

    chapter_id: str
    name: str
    notebook: bytes
    database: bytes
    cell_timeout: int  # seconds
    digest: str

    @property
    def cells(self) -> list[GradedCell]:
        return graded_cells(nbformat.reads(self.notebook.decode(), as_version=4))


def build_release(chapter: Chapter, cell_timeout: int | None = None) -> Release:
    """The instructor's notebook and a gradebook that holds only the assignment, made once per content.

    Args:
        chapter: published before.
        cell_timeout: seconds a cell may run; by default what nbgrader_config.py says.

    Raises:
        NotPublished: there is no instructor's notebook.
        ReleaseError: nbgrader does not accept it.
    """
    if not chapter.instructor_notebook.is_file():
        raise NotPublished(f"{chapter.id} is not published yet: run `python -m autograder publish` first.")
    notebook = chapter.instructor_notebook.read_bytes()
    timeout = cell_timeout or nbgrader_config(chapter.course).ExecutePreprocessor.timeout
    settings = f"{timeout} {os.environ.get('COURSE_SEED', '')}".encode()
    digest = _digest(notebook, settings, *_code(chapter.course))
    cached = chapter.course.build / "grading" / digest / "release.db"
    if not cached.is_file():
        with tempfile.TemporaryDirectory() as folder:
            temporary = Course(Path(folder).resolve())
            temporary.grading.mkdir()
            register_assignment(temporary, chapter.id, chapter.name, notebook)
            write_atomically(cached, (temporary.grading / "gradebook.db").read_bytes())
    return Release(chapter.id, chapter.name, notebook, cached.read_bytes(), timeout, digest)


def register_assignment(course: Course, chapter_id: str, name: str, notebook: bytes) -> None:
    """Let nbgrader enter the assignment into `course.gradebook`; what it releases on the way is thrown away.

    Raises:
        ReleaseError: nbgrader's reasons.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        source = scratch / "solutions" / chapter_id / f"{name}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_bytes(notebook)
        config = converter_config(scratch, course.gradebook)
        config.CourseDirectory.assignment_id = chapter_id
        problems = run_converter(GenerateAssignment, config)
    if problems:
        raise ReleaseError(f"nbgrader does not accept the notebook of {chapter_id}:\n" + "\n".join(problems))


def graded_cells(notebook: NotebookNode) -> list[GradedCell]:
    """The graded cells of an instructor's notebook, in order."""
    found = []
    for cell in notebook.cells:
        options, course = cell.metadata.get("nbgrader", {}), cell.metadata.get("course", {})
        if options.get("grade"):
            exercise = options["grade_id"].removeprefix("test_")
            found.append(GradedCell(options["grade_id"], exercise, float(options["points"]), "quiz" in course))
    return found


def _code(course: Course) -> list[bytes]:
    """The code that decides over marks: these files, and what the notebooks import."""
    packages = ("course", "mytransformer")
    folders = [next((r / p for r in (course.root, here().root) if (r / p).is_dir()), course.root / p) for p in packages]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".json")]
    grading = [here().root / "autograder" / name for name in ("release.py", "grade.py")]
    return [path.read_bytes() for path in (*grading, *files)]


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

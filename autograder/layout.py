"""Where everything of a course lies. Every other module asks here for a path."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Chapter:
    """One folder of `solutions/`, such as `02-self-attention`."""

    course: "Course"
    id: str

    @property
    def name(self) -> str:
        """The notebook's name: the id without its number."""
        return self.id.split("-", 1)[1]

    @property
    def folder(self) -> Path:
        return self.course.root / "solutions" / self.id

    @property
    def source(self) -> Path:
        """The MyST notebook that everything is derived from."""
        return self.folder / f"{self.name}.md"

    @property
    def quiz(self) -> Path:
        return self.folder / "quiz.yml"

    @property
    def misconceptions(self) -> Path:
        return self.folder / "misconceptions.py"

    @property
    def instructor_notebook(self) -> Path:
        """With solutions, hidden tests and nbgrader's metadata. Built, never committed."""
        return self.folder / f"{self.name}.ipynb"

    @property
    def student_notebook(self) -> Path:
        return self.course.root / "chapters" / self.id / f"{self.name}.ipynb"

    @property
    def page(self) -> Path:
        """The page of the site: the student's cells with the outputs of the solutions."""
        return self.course.build / "pages" / f"{self.id}.ipynb"


@dataclass(frozen=True)
class Course:
    """A checkout of the course, or a small one made for a test.

    Raises `FileNotFoundError` when a chapter is asked for that has no source.
    """

    root: Path
    grading_folder: Path | None = None  # by default `autograder/`

    @property
    def build(self) -> Path:
        return self.root / "_build"

    @property
    def site(self) -> Path:
        return self.build / "html"

    @property
    def package(self) -> Path:
        """The reference package, exported from the solutions."""
        return self.root / "mytransformer"

    @property
    def grading(self) -> Path:
        """Submissions, graded notebooks, feedback, reports and the gradebook."""
        return self.grading_folder or self.root / "autograder"

    def reports(self, chapter_id: str) -> Path:
        """A chapter's report, marks and feedback."""
        return self.grading / "reports" / chapter_id

    @property
    def gradebook(self) -> str:
        return f"sqlite:///{self.grading / 'gradebook.db'}"

    @cached_property
    def chapters(self) -> list[Chapter]:
        found = [Chapter(self, folder.name) for folder in sorted((self.root / "solutions").glob("[0-9][0-9]-*"))]
        return [chapter for chapter in found if chapter.source.is_file()]

    def chapter(self, chapter_id: str) -> Chapter:
        for chapter in self.chapters:
            if chapter.id == chapter_id:
                return chapter
        known = ", ".join(chapter.id for chapter in self.chapters) or "none"
        raise FileNotFoundError(f"There is no chapter {chapter_id!r} in {self.root / 'solutions'}. Known: {known}.")


def here() -> Course:
    """The checkout this file belongs to."""
    return Course(Path(__file__).resolve().parent.parent)

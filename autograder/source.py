"""Read a chapter's MyST source and expand its short cell options into the notebooks that are derived from it."""

import hashlib
import re
from dataclasses import dataclass

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.layout import Chapter
from autograder.portable import Portable, SourceError, split_blocks
from autograder.quiz import Rendered, load_quiz

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@dataclass(frozen=True)
class Exercise:
    """What the options of an exercise's two cells say."""

    name: str
    points: int
    difficulty: int
    minutes: int

    @property
    def summary(self) -> str:
        points = "1 point" if self.points == 1 else f"{self.points} points"
        return f"**{points}** · difficulty {self.difficulty} of 5 · about {self.minutes} minutes"


@dataclass
class Source:
    """One chapter as its author wrote it: cells in order, exercises, and the quiz."""

    chapter: Chapter
    notebook: NotebookNode
    exercises: dict[str, Exercise]
    questions: dict[str, list[Rendered]]  # variant ("page", "graded") → questions


def read(chapter: Chapter) -> Source:
    """Read and check a chapter.

    Raises:
        SourceError: a cell option, directive or exercise that is not as CONTRIBUTING.md says; names the file.
    """
    try:
        notebook = jupytext.read(chapter.source, fmt="md:myst")
    except Exception as error:
        raise SourceError(f"{chapter.source}: {error}") from error
    variants = ("page", "graded")
    questions = {v: load_quiz(chapter.quiz, v) if chapter.quiz.is_file() else [] for v in variants}
    return Source(chapter, notebook, _exercises(chapter, notebook), questions)


def _exercises(chapter: Chapter, notebook: NotebookNode) -> dict[str, Exercise]:
    solutions: dict[str, dict] = {}
    tests: dict[str, dict] = {}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        first_line = cell.source.strip().partition("\n")[0]
        where = f"{chapter.source}: the cell that begins {first_line!r}"
        unknown = set(cell.metadata) - {"exercise", "difficulty", "minutes", "tests", "points", "tags", "alt"}
        if unknown:
            raise SourceError(f"{where} has unknown options: {', '.join(sorted(unknown))}")
        if "exercise" in cell.metadata:
            name = cell.metadata["exercise"]
            if name in solutions:
                raise SourceError(f"{where}: the exercise {name!r} exists already")
            if "### BEGIN SOLUTION" not in cell.source:
                raise SourceError(f"{where}: an exercise needs ### BEGIN SOLUTION and ### END SOLUTION")
            solutions[name] = cell.metadata
        elif "tests" in cell.metadata:
            name = cell.metadata["tests"]
            if name not in solutions or name in tests:
                raise SourceError(f"{where}: tests of {name!r} must follow its exercise, once")
            if "### BEGIN HIDDEN TESTS" not in cell.source:
                raise SourceError(f"{where}: every graded cell needs a hidden part")
            tests[name] = cell.metadata
        elif re.search(r"### (BEGIN|END) (SOLUTION|HIDDEN)", cell.source):
            raise SourceError(f"{where}: a solution or hidden test outside a cell marked :exercise: or :tests:")
    if missing := set(solutions) - set(tests):
        raise SourceError(f"{chapter.source}: no tests for {', '.join(sorted(missing))}")
    try:
        return {
            name: Exercise(name, int(tests[name]["points"]), int(options["difficulty"]), int(options["minutes"]))
            for name, options in solutions.items()
        }
    except KeyError as error:
        raise SourceError(f"{chapter.source}: an exercise lacks the option {error}") from error
    except ValueError as error:
        raise SourceError(f"{chapter.source}: points, difficulty and minutes are whole numbers: {error}") from error


def instructor_notebook(source: Source, portable: Portable) -> NotebookNode:
    """The notebook nbgrader reads: plain Markdown, solutions, all tests, nbgrader's metadata, the graded quiz.

    Raises:
        SourceError: a directive, role or reference that does not exist; names the file.
    """
    cells: list[NotebookNode] = []
    for cell in source.notebook.cells:
        if cell.cell_type == "code":
            cells.append(_code_cell(cell))
            continue
        try:
            cells += _markdown_cells(source, cell.source, portable)
        except SourceError as error:
            raise SourceError(f"{source.chapter.source}: {error}") from error
    return _notebook(_join_markdown(cells))


def _markdown_cells(source: Source, markdown: str, portable: Portable) -> list[NotebookNode]:
    cells: list[NotebookNode] = []
    for kind, argument, text in split_blocks(markdown):
        if kind == "quiz":
            for question in source.questions["graded"]:
                cells += _question_cells(question, portable)
        elif text.strip():
            cells.append(new_markdown_cell(portable.block(kind, argument, text, source.exercises)))
    return cells


def page_notebook(source: Source) -> NotebookNode:
    """The notebook behind the site's page: MyST as written, the page's quiz, code as in the instructor's notebook."""
    cells: list[NotebookNode] = []
    for cell in source.notebook.cells:
        if cell.cell_type == "code":
            cells.append(_code_cell(cell))
            continue
        parts = []
        for kind, argument, text in split_blocks(cell.source):
            if kind == "exercise":
                exercise = _known_exercise(source, argument)
                parts.append(f":::{{exercise}} {argument}\n{exercise.summary}\n\n{text.strip()}\n:::")
            elif kind == "quiz":
                parts.append("````{quiz}\n" + "".join(q.as_yaml() for q in source.questions["page"]) + "````")
            elif kind:
                parts.append(f":::{{{kind}}} {argument}\n{text.strip()}\n:::".replace("} \n", "}\n"))
            else:
                parts.append(text.strip("\n"))
        cells.append(new_markdown_cell("\n\n".join(part for part in parts if part.strip())))
    return _notebook(cells)


def _known_exercise(source: Source, name: str) -> Exercise:
    if name not in source.exercises:
        raise SourceError(f"{source.chapter.source}: {{exercise}} {name} has no cell with :exercise: {name}")
    return source.exercises[name]


def _code_cell(cell: NotebookNode) -> NotebookNode:
    options = dict(cell.metadata)
    metadata: dict = {"tags": options["tags"]} if "tags" in options else {}
    if "alt" in options:
        metadata["mystnb"] = {"image": {"alt": options["alt"]}}
    if "exercise" in options:
        name = options["exercise"]
        metadata["nbgrader"] = _nbgrader(name, solution=True)
        metadata["course"] = {"exercise": name, "difficulty": options["difficulty"], "minutes": options["minutes"]}
    elif "tests" in options:
        metadata["nbgrader"] = _nbgrader(f"test_{options['tests']}", points=options["points"])
        metadata["course"] = {"tests": options["tests"]}
    return new_code_cell(cell.source, metadata=metadata)


def _nbgrader(grade_id: str, solution: bool = False, points: int | None = None) -> dict:
    """nbgrader's cell metadata: a solution cell, or a locked cell of tests that is worth points."""
    graded = {"points": points} if points is not None else {}
    return {
        "grade": points is not None,
        "grade_id": grade_id,
        "locked": points is not None,
        "schema_version": 3,
        "solution": solution,
        "task": False,
        **graded,
    }


def _question_cells(question: Rendered, portable: Portable) -> list[NotebookNode]:
    """A question in the notebook: its text, a cell for the answer, and the graded cell with the hidden key."""
    name = f"quiz_{question.id.replace('-', '_')}"
    points = "1 point" if question.points == 1 else f"{question.points} points"
    many = " Several options may be right." if question.multiple else ""
    options = "\n".join(f"- **{option.label})** {option.text}" for option in question.options)
    letters = "".join(option.label for option in question.options)
    example = "ab" if question.multiple else "b"
    answer = (
        f'# Replace the next line by your answer, for example: {name} = "{example}"\n'
        f"### BEGIN SOLUTION\n{name} = {question.key!r}\n### END SOLUTION"
    )
    tests = (
        "# Here only the form of your answer is checked. Whether it is right is decided when the notebook is graded.\n"
        "from course.checks import check_choice\n\n"
        f'chosen = check_choice("{name}", {name}, "{letters}")\n'
        "### BEGIN HIDDEN TESTS\n"
        f"assert chosen == set({question.key!r}), "
        f'f"{name} is {{{name}!r}}, which is not the right choice. Read the question again, option by option."\n'
        "### END HIDDEN TESTS"
    )
    text = f"**Question `{name}`** ({points}). {question.stem.strip()}{many}\n\n{options}"
    graded = _nbgrader(f"test_{name}", points=question.points)
    course = {"quiz": question.id}
    return [
        new_markdown_cell(portable.text(text)),
        new_code_cell(answer, metadata={"nbgrader": _nbgrader(name, solution=True), "course": course}),
        new_code_cell(tests, metadata={"nbgrader": graded, "course": course}),
    ]


def _join_markdown(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Splitting at directives leaves neighbours; a new cell begins only where a heading or code does."""
    joined: list[NotebookNode] = []
    for cell in cells:
        follows = joined and joined[-1].cell_type == cell.cell_type == "markdown"
        if follows and not cell.source.startswith(("#", "**Question")):
            joined[-1].source = f"{joined[-1].source.rstrip()}\n\n{cell.source.strip()}"
        else:
            joined.append(cell)
    return joined


def _notebook(cells: list[NotebookNode]) -> NotebookNode:
    """A notebook whose cell ids are derived, so that publishing twice gives the same bytes."""
    seen: dict[str, int] = {}
    for cell in cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        base = grade_id or hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        base = re.sub(r"[^A-Za-z0-9_-]", "-", base)[:56]
        seen[base] = seen.get(base, 0) + 1
        cell["id"] = base if seen[base] == 1 else f"{base}-{seen[base]}"
    return NotebookNode(
        cells=cells,
        metadata=NotebookNode(kernelspec=KERNEL, language_info={"name": "python"}),
        nbformat=4,
        nbformat_minor=5,
    )

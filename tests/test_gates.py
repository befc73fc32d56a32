"""What must hold for every chapter of the course, each of these seen to go wrong in some other course."""

import ast
import re
import shutil
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from autograder.layout import Chapter, Course, here
from autograder.quiz import load_quiz
from autograder.source import read

CHAPTERS = here().chapters
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)
SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)

every_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=[chapter.id for chapter in CHAPTERS])


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def normal(text: str) -> str:
    """Without white space, so that a line is found however it is broken."""
    return re.sub(r"\s+|\\n|\\\\?(?=[\"'])", "", text)


def readable(path: Path) -> str:
    """A file's text; of a page also what a browser shows, without the markup that colours code."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return text + BeautifulSoup(text, "html.parser").get_text() if path.suffix == ".html" else text


def public_texts(course: Course) -> dict[str, str]:
    """Everything that students and readers can open, as text."""
    files = [p for p in (course.root / "chapters").rglob("*") if p.is_file()]
    kinds = {".html", ".ipynb", ".md", ".txt", ".js", ".json", ".py", ".inv"}
    files += [p for p in course.site.rglob("*") if p.suffix in kinds and "vendor" not in p.parts]
    return {str(p.relative_to(course.root)): normal(readable(p)) for p in files}


def shown_on_purpose(chapter: Chapter) -> str:
    shown = "".join(SOLUTION.sub("", HIDDEN.sub("", c.source)) for c in code_cells(chapter.instructor_notebook))
    return normal(shown + "".join(c.source for c in read(chapter).notebook.cells if c.cell_type == "markdown"))


def secrets(chapter: Chapter) -> list[str]:
    """Lines of solutions and hidden tests that occur nowhere in what is public on purpose.

    A short line may also stand in another chapter: what everybody writes, such as a loop over dtypes.
    """
    shown = shown_on_purpose(chapter)
    elsewhere = "".join(shown_on_purpose(other) for other in CHAPTERS if other.id != chapter.id)
    found = []
    for cell in code_cells(chapter.instructor_notebook):
        for block in [*HIDDEN.findall(cell.source), *SOLUTION.findall(cell.source)]:
            found += [line for line in map(normal, block.splitlines()) if len(line) > 24 and line not in shown]
    return [line for line in found if len(line) >= 80 or line not in elsewhere]


@every_chapter
def test_no_solution_hidden_test_or_key_is_public(published: Course, chapter: Chapter) -> None:
    lines = secrets(chapter)
    assert len(lines) > 10, "the search has nothing to look for"
    graded = load_quiz(chapter.quiz, "graded")
    keys = [normal(f"quiz_{q.id.replace('-', '_')} = {q.key!r}") for q in graded]
    feedback = {normal(o.why) for q in graded for o in q.options}
    feedback -= {normal(o.why) for q in load_quiz(chapter.quiz, "page") for o in q.options}
    texts = public_texts(published)
    assert any(name.startswith("_build/html/_sources") for name in texts), "the site's sources were not searched"
    assert "_build/html/searchindex.js" in texts
    leaks = [
        f"{name}: {secret}"
        for name, text in texts.items()
        for secret in [*lines, *keys, *feedback, "###BEGINSOLUTION", "###BEGINHIDDENTESTS"]
        if secret in text
    ]
    assert not leaks, "\n".join(leaks)


@every_chapter
def test_the_search_for_secrets_finds_them(published: Course, chapter: Chapter) -> None:
    instructor = normal("".join(cell.source for cell in code_cells(chapter.instructor_notebook)))
    assert all(secret in instructor for secret in secrets(chapter))


@every_chapter
def test_the_committed_notebook_is_the_generated_one(published: Course, chapter: Chapter) -> None:
    if not shutil.which("git") or not (published.root / ".git").exists():
        pytest.skip("not a git checkout: nothing is committed")
    path = str(chapter.student_notebook.relative_to(published.root))
    tracked = subprocess.run(
        ["git", "ls-files", "--", path], cwd=published.root, capture_output=True, text=True, check=True
    )
    assert tracked.stdout.strip() == path, f"git add {path}"
    differs = subprocess.run(["git", "diff", "--quiet", "--", path], cwd=published.root, check=False).returncode
    assert not differs, f"{path} differs from what the source generates: git add it"


@every_chapter
def test_the_notebook_holds_no_raw_myst(published: Course, chapter: Chapter) -> None:
    for cell in nbformat.read(chapter.student_notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"(`+)[\s\S]+?\1", "", cell.source)
            assert not re.search(r"^:::|^`{3,}\{|\{[a-z]+(:[a-z]+)?\}`|^\([\w-]+\)=$", text, re.MULTILINE), cell.source


@every_chapter
def test_formulas_are_found_by_every_notebook_program(published: Course, chapter: Chapter) -> None:
    """Visual Studio Code wants no letter before the first dollar sign, no digit after the last, and no space within."""
    markdown = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, allow_space=False, allow_digits=False)
    cells = nbformat.read(chapter.student_notebook, as_version=4).cells
    inline = [t for c in cells if c.cell_type == "markdown" for t in markdown.parse(c.source) if t.type == "inline"]
    parts = [part for token in inline for part in token.children or []]
    assert any(part.type == "math_inline" for part in parts)
    assert not [part.content for part in parts if part.type == "text" and "$" in part.content]
    pairs = [pair for token in inline for pair in pairwise(token.children or [])]
    before = [part.content for part, formula in pairs if formula.type == "math_inline" and part.type == "text"]
    assert not [text for text in before if text[-1:].isalpha()]


@every_chapter
def test_every_exercise_states_its_points_and_has_three_hints(published: Course, chapter: Chapter) -> None:
    source = read(chapter)
    text = "\n".join(c.source for c in source.notebook.cells if c.cell_type == "markdown")
    for exercise in source.exercises.values():
        assert 1 <= exercise.points <= 5
        assert 1 <= exercise.difficulty <= 5
        parts = text.split(f"{{exercise}} {exercise.name}\n")
        assert len(parts) == 2, f"{exercise.name} needs one {{exercise}} directive"
        hints = re.match(r"(?:(?!\{exercise\})[\s\S])*", parts[1])
        assert hints
        assert hints[0].count("{hint}") == 3, f"{exercise.name} should have three hints"
    assert source.exercises


@every_chapter
def test_graded_cells_raise_and_never_print(published: Course, chapter: Chapter) -> None:
    """No check prints instead of raising, and no comparison stands without an assert."""
    for cell in code_cells(chapter.instructor_notebook):
        if not cell.metadata.get("nbgrader", {}).get("grade"):
            continue
        tree = ast.parse(cell.source)
        for node in ast.walk(tree):
            where = f"{cell.metadata.nbgrader.grade_id}: {ast.unparse(node)}" if isinstance(node, ast.Expr) else ""
            if isinstance(node, ast.Expr):
                assert not isinstance(node.value, ast.Compare | ast.BoolOp), f"{where} is compared and thrown away"
                assert not (isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "print"), (
                    f"{where} prints instead of raising"
                )
            if isinstance(node, ast.Assert):
                assert node.msg is not None, f"an assert without a message: {ast.unparse(node)}"
        assert any(
            isinstance(n, ast.Assert | ast.Raise) or (isinstance(n, ast.Call) and "check" in ast.unparse(n.func))
            for n in ast.walk(tree)
        ), f"{cell.metadata.nbgrader.grade_id} checks nothing"


@every_chapter
def test_the_page_does_not_give_away_the_graded_quiz(chapter: Chapter) -> None:
    page = {q.id: q for q in load_quiz(chapter.quiz, "page")}
    for question in load_quiz(chapter.quiz, "graded"):
        right = {normal(o.text) for o in question.options if o.right}
        twin = {normal(o.text) for o in page[question.id].options if o.right}
        same_question = normal(question.stem) == normal(page[question.id].stem)
        assert not (same_question and right & twin), (
            f"{question.id}: the page shows a right option of the graded variant"
        )


@every_chapter
def test_quiz_keys_are_balanced(chapter: Chapter) -> None:
    for variant in ("page", "graded"):
        questions = [q for q in load_quiz(chapter.quiz, variant) if not q.multiple]
        counts = Counter(q.key for q in questions)
        assert max(counts.values()) <= len(questions) / 2, f"{variant}: one letter is right too often, {counts}"


def test_no_source_names_a_path_of_this_machine() -> None:
    """No source names the machine on which it was written."""
    root = here().root
    files = [p for k in ("solutions", "course", "autograder", "book", "tests") for p in (root / k).rglob("*")]
    for path in files:
        if (
            path.suffix in {".py", ".md", ".yml", ".json"}
            and "__pycache__" not in path.parts
            and path != Path(__file__)
        ):
            text = path.read_text(encoding="utf-8")
            assert str(root) not in text, path


@every_chapter
def test_the_page_says_what_running_it_takes(chapter: Chapter) -> None:
    """And in words that `make bench-notebooks` understands; whether it is true, a timed test could not say."""
    stated = re.findall(r"All cells together run in about \d+ seconds", chapter.source.read_text(encoding="utf-8"))
    assert len(stated) == 1

"""Publishing: every view is derived from one source, twice the same, and without anything secret."""

import fcntl
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue

import nbformat
import pytest
from tiny_source import TINY_CHAPTER, TINY_QUIZ, write_tiny_source

from autograder.layout import Course
from autograder.portable import Portable, SourceError
from autograder.publish import PublishError, publish
from autograder.quiz import load_quiz
from autograder.source import read


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(write_tiny_source(tmp_path))


def run(course: Course) -> list[str]:
    lines: list[str] = []
    publish(course, lines.append, site=False)
    return lines


def contents(course: Course) -> dict[str, bytes]:
    kinds = ("chapters/**/*", "mytransformer/*.py", "solutions/**/*.ipynb", "_build/pages/*")
    return {str(p.relative_to(course.root)): p.read_bytes() for k in kinds for p in course.root.glob(k) if p.is_file()}


def cells(path: Path, cell_type: str) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == cell_type]


def test_publishing_writes_every_view_and_twice_the_same(course: Course) -> None:
    assert run(course)
    first = contents(course)
    assert set(first) == {
        "chapters/01-tiny/tiny.ipynb",
        "mytransformer/__init__.py",
        "mytransformer/tiny.py",
        "solutions/01-tiny/tiny.ipynb",
        "_build/pages/01-tiny.ipynb",
    }
    assert run(course) == [], "a second run had something to do"
    for stamp in (course.build / "stamps").iterdir():
        stamp.unlink()
    assert run(course), "without stamps everything should be built again"
    assert contents(course) == first, "publishing twice gave other bytes"


def test_an_edit_and_a_damaged_output_are_both_noticed(course: Course) -> None:
    run(course)
    chapter = course.chapter("01-tiny")
    expected = chapter.student_notebook.read_bytes()
    chapter.student_notebook.write_text("{}")
    assert run(course)
    assert chapter.student_notebook.read_bytes() == expected
    chapter.source.write_text(TINY_CHAPTER.replace("Return twice", "Give back twice"), encoding="utf-8")
    assert run(course)
    assert "Give back twice" in chapter.student_notebook.read_text(encoding="utf-8")


def test_an_edit_during_the_build_is_built_the_next_time(course: Course) -> None:
    chapter = course.chapter("01-tiny")
    edited = TINY_CHAPTER.replace("Return twice", "Give back twice")
    publish(course, lambda line: chapter.source.write_text(edited, encoding="utf-8"), site=False)
    assert "Return twice" in chapter.student_notebook.read_text(encoding="utf-8")
    assert run(course), "the edit was taken for published"
    assert "Give back twice" in chapter.student_notebook.read_text(encoding="utf-8")


def test_a_run_that_was_killed_while_it_finished(course: Course) -> None:
    run(course)
    (course.build / "stamps" / "01-tiny.json").write_text('{"inputs": "')
    assert run(course)


def test_two_runs_do_not_write_at_once(course: Course) -> None:
    course.build.mkdir()
    lines: SimpleQueue[str] = SimpleQueue()
    with (course.build / "publish.lock").open("w") as other, ThreadPoolExecutor() as pool:
        fcntl.flock(other, fcntl.LOCK_EX)
        second = pool.submit(publish, course, lines.put, site=False)
        assert "waiting" in lines.get(timeout=30)
        with pytest.raises(Empty):
            lines.get(timeout=2)  # what it does is said before it is done
        fcntl.flock(other, fcntl.LOCK_UN)
        assert second.result(timeout=60)


def test_nothing_secret_is_published(course: Course) -> None:
    run(course)
    chapter = course.chapter("01-tiny")
    instructor = chapter.instructor_notebook.read_text(encoding="utf-8")
    for secret in ("secret_of_double", "1234", "SOLUTION", "HIDDEN TESTS", "The key of this variant"):
        assert secret in instructor or "key" in secret, f"the instructor's notebook lacks {secret}"
        assert secret not in chapter.student_notebook.read_text(encoding="utf-8"), (
            f"{secret} is in the student's notebook"
        )
        if "key" not in secret:
            assert secret not in chapter.page.read_text(encoding="utf-8"), f"{secret} is on the page"
    assert [p.name for p in chapter.student_notebook.parent.iterdir()] == ["tiny.ipynb"], "other files were released"


def test_the_page_shows_stubs_with_the_outputs_of_the_solutions(course: Course) -> None:
    run(course)
    page = nbformat.read(course.chapter("01-tiny").page, as_version=4)
    sources = [cell.source for cell in page.cells]
    assert any("raise NotImplementedError" in source for source in sources)
    outputs = [output["text"] for cell in page.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs == ["42\n"]


def test_the_notebook_is_plain_markdown(course: Course) -> None:
    run(course)
    text = "\n".join(cells(course.chapter("01-tiny").student_notebook, "markdown"))
    assert "> **Note.** An aside with\n>\n> $$\n> x = 1\n> $$" in text
    assert "#### Exercise: `double`\n\n**2 points** · difficulty 1 of 5 · about 2 minutes" in text
    assert "<summary>Hint 1</summary>\n\nThink of addition." in text
    assert "<summary>Hint 2</summary>" in text
    assert "([Vaswani et al., 2017](../../_build/html/book/references.html))" in text
    assert "[query](../../_build/html/book/glossary.html#term-query)" in text
    assert "([E-03](../../_build/html/book/errata.html#e-03))" in text
    assert "`{term}` in code" in text, "code was touched"
    assert ":::" not in text
    assert "```{" not in text


def test_links_follow_the_address_of_the_site(course: Course) -> None:
    (course.root / "_config.yml").write_text("html:\n  baseurl: https://example.org/course/\n")
    link = "https://example.org/course/book/glossary.html#term-query"
    assert Portable(course).text("{term}`query`") == f"[query]({link})"
    page = "https://example.org/course/chapters/01-tiny/tiny.html"
    assert Portable(course).text("{doc}`chapter 01 </chapters/01-tiny/tiny>`") == f"[chapter 01]({page})"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (":::{note}", ":::{mystery}", "mystery"),
        ("{term}`query`", "{numref}`query`", "numref"),
        ("{cite:p}`vaswani2017attention`", "{cite:p}`nobody2017`", "nobody2017"),
        ("{term}`query`", "{doc}`/book/glossary`", "a link needs words"),
        ("{exercise} double", "{exercise} triple", "triple"),
        (":points: 2\n", "", "points"),
        (":points: 2\n", ":points: two\n", "whole numbers.*two"),
        (":minutes: 2", ":minuets: 2", "minuets"),
        ("### BEGIN HIDDEN TESTS\n", "", "hidden part"),
        ("    ### BEGIN SOLUTION\n", "", "BEGIN SOLUTION"),
    ],
)
def test_a_mistake_in_the_source_is_named(course: Course, old: str, new: str, words: str) -> None:
    assert old in TINY_CHAPTER
    course.chapter("01-tiny").source.write_text(TINY_CHAPTER.replace(old, new), encoding="utf-8")
    with pytest.raises(SourceError, match=f"tiny.md: .*{words}"):
        run(course)


def test_a_reference_that_fails_its_tests_is_not_published(course: Course) -> None:
    broken = TINY_CHAPTER.replace("return secret_of_double * x", "return x")
    course.chapter("01-tiny").source.write_text(broken, encoding="utf-8")
    with pytest.raises(PublishError, match=r"double\(1\) should be 2"):
        run(course)


@pytest.mark.parametrize(
    ("code", "minutes", "words"),
    [("__import__('time').sleep(60)", 1 / 30, "ran for more than"), ("__import__('os')._exit(1)", 60, "Python ended")],
)
def test_a_page_that_does_not_end_well_is_named(
    course: Course, monkeypatch: pytest.MonkeyPatch, code: str, minutes: float, words: str
) -> None:
    monkeypatch.setattr("autograder.publish.CELL_MINUTES", minutes)
    text = TINY_CHAPTER.replace("return secret_of_double * x", f"return {code}")
    course.chapter("01-tiny").source.write_text(text, encoding="utf-8")
    with pytest.raises(PublishError, match=rf"tiny\.md: (.|\n)*{words}"):
        run(course)


def test_ids_are_derived(course: Course) -> None:
    run(course)
    notebook = json.loads(course.chapter("01-tiny").student_notebook.read_text(encoding="utf-8"))
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    assert {"double", "test_double", "quiz_q_one", "test_quiz_q_one"} <= set(ids)


def test_quiz_variants_have_other_numbers_and_computed_keys(course: Course) -> None:
    page, graded = (load_quiz(course.chapter("01-tiny").quiz, variant)[0] for variant in ("page", "graded"))
    assert page.stem != graded.stem
    right = {variant: next(o.text for o in q.options if o.right) for variant, q in (("page", page), ("graded", graded))}
    assert right["page"] == r"$\begin{bmatrix} 0.71 & 0.71 \\ 0.71 & 0.00 \end{bmatrix}$"
    assert right["graded"] == r"$\begin{bmatrix} 0.71 & 0.00 \\ 0.71 & 0.71 \end{bmatrix}$"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (", right: true", "", "no option is right"),
        (', why: "Multiplied instead of divided."', "", "no feedback"),
        ("twice | matrix", "right | matrix", "read the same"),
        ("{{ twice | matrix(2) }}", "$x = {{ twice | matrix(2) }}$", "dollar signs"),
        ("{{ twice | matrix(2) }}", "$x = {{ twice | matrix(2) }}", "dollar signs"),
        ("np.sqrt(2)", "np.sqrt(two)", "two"),
        ("- id: ", "- {id: ", "line 2"),
        (TINY_QUIZ, "", "no list"),
    ],
)
def test_a_mistake_in_the_quiz_is_named(course: Course, old: str, new: str, words: str) -> None:
    assert old in TINY_QUIZ
    course.chapter("01-tiny").quiz.write_text(TINY_QUIZ.replace(old, new), encoding="utf-8")
    with pytest.raises(SourceError, match=rf"quiz\.yml(.|\n)*{words}"):
        read(course.chapter("01-tiny"))

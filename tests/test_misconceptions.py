"""Misconceptions: read without being run, made into sample submissions, audited."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_course import FULL, NOTHING

from autograder.audit import audit
from autograder.classroom import How
from autograder.layout import Chapter, Course
from autograder.misconceptions import MisconceptionError, load
from autograder.release import NotPublished, build_release
from autograder.samples import write_sample_class


@pytest.fixture
def restored(chapter: Chapter) -> Iterator[Chapter]:
    """The chapter, whose misconceptions the test may change."""
    before = chapter.misconceptions.read_text()
    yield chapter
    chapter.misconceptions.write_text(before)


def test_they_are_read_without_running_them(chapter: Chapter) -> None:
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
        ('@misconception("a", "b", " ")\ndef f(): ...', r":1: write @misconception"),
        ("@misconception\ndef f(): ...", r":1: write @misconception"),
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


def test_other_decorators_are_kept(tmp_path: Path) -> None:
    chapter = Chapter(Course(tmp_path), "01-tiny")
    assert load(chapter) == []
    chapter.folder.mkdir(parents=True)
    source = "@cache\ndef a():\n    # why\n    return torch.ones(1)\n"
    chapter.misconceptions.write_text('@misconception("a", "b", "c")\n' + source)
    assert load(chapter)[0].source == source


SOLVED = """---
kernelspec: {name: python3, display_name: Python 3}
---

```{code-cell}
:exercise: absolute
:difficulty: 1
:minutes: 1

#| export
def absolute(x):
    \"\"\"The size of x.\"\"\"
    ### BEGIN SOLUTION
    size = x
    if x < 0:
        size = -x
    return size
    ### END SOLUTION
```

```{code-cell}
:tests: absolute
:points: 1

### BEGIN HIDDEN TESTS
assert absolute(-1) == 1, "wrong"
### END HIDDEN TESTS
```
"""


def edited(root: Path, edits: str, exercise: str = "absolute") -> str:
    """What load makes of an edit of the solution above."""
    chapter = Chapter(Course(root), "01-tiny")
    chapter.folder.mkdir(parents=True)
    chapter.source.write_text(SOLVED)
    chapter.misconceptions.write_text(f'from somewhere import x\n\nwrong_edit("{exercise}", "b", "Help.", {edits})\n')
    (found,) = load(chapter)
    assert (found.exercise, found.id, found.sentence) == (exercise, "b", "Help.")
    return found.source


def test_an_edit_of_the_reference_solution(tmp_path: Path) -> None:
    source = edited(tmp_path, '{"size = -x": "size = x"}')
    assert "### BEGIN" not in source and source == (
        '#| export\ndef absolute(x):\n    """The size of x."""\n'
        "    size = x\n    if x < 0:\n        size = x\n    return size\n"
    )


def test_two_edits_and_a_new_line(tmp_path: Path) -> None:
    source = edited(tmp_path, '{"= -x": "= x\\nsize *= size", "return " "size": "return -size"}')
    assert source.endswith("    if x < 0:\n        size = x\n        size *= size\n    return -size\n")


def test_two_texts_change_places(tmp_path: Path) -> None:
    source = edited(tmp_path, '{"size = x": "size = -x", "size = -x": "size = x"}')
    assert "    size = -x\n    if x < 0:\n        size = x\n" in source


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        ('{"size = +x": "size = x"}', r"'b': 'size = \+x' does not stand in the reference solution"),
        ('{"size = ": ""}', r"'b': 'size = ' stands 2 times in the reference solution"),
        ('{"if x < 0": "if x >", "size = x": "y"}', r"'b': invalid syntax after the edit, in 'if x >:'"),
        ('{"return size": "return x", "return size": "return 1"}', r"'b': two edits overlap, at 'return size'"),
        ('{"size = -x": "y = x", "0:\\n        size = -": "0: y = "}', r"'b': two edits overlap, at 'size = -'"),
        ("{}", r"write wrong_edit\("),
        ('{"size": x}', r"write wrong_edit\("),
        ('{"": "x"}', r"write wrong_edit\("),
        ('{**x, "return size": "return x"}', r"write wrong_edit\("),
        ('"size", "x"', r"write wrong_edit\("),
        ("", r"write wrong_edit\("),
    ],
)
def test_bad_edits(tmp_path: Path, edits: str, problem: str) -> None:
    with pytest.raises(MisconceptionError, match=r"misconceptions\.py:3: " + problem):
        edited(tmp_path, edits)


def test_an_edit_of_no_exercise(tmp_path: Path) -> None:
    with pytest.raises(
        MisconceptionError, match=r"misconceptions\.py:3: 'b' belongs to 'triple', which is no exercise"
    ):
        edited(tmp_path, '{"size = x": "size = 1"}', exercise="triple")


def test_sample_class(chapter: Chapter, tmp_path: Path) -> None:
    expected = write_sample_class(chapter, tmp_path)
    assert expected == {
        "reference-solution": FULL,
        "untouched-stub": NOTHING,
        "wrong-square": FULL | {"test_double": 0.0},
        "wrong-first-value": FULL | {"test_total": 0.0},
        "unreadable-file": None,
    }
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(expected)
    assert "### BEGIN" not in (tmp_path / "reference-solution.ipynb").read_text()


def test_a_misconception_of_no_exercise(restored: Chapter, tmp_path: Path) -> None:
    restored.misconceptions.write_text('@misconception("triple", "b", "c")\ndef triple(x): ...\n')
    with pytest.raises(MisconceptionError, match="'triple', which is no exercise of 01-tiny"):
        write_sample_class(restored, tmp_path)


def test_not_published(tmp_path: Path) -> None:
    chapter = Chapter(Course(tmp_path), "01-tiny")
    for attempt in (lambda: build_release(chapter), lambda: write_sample_class(chapter, tmp_path / "class")):
        with pytest.raises(NotPublished, match="python -m autograder publish"):
            attempt()


def test_audit_finds_a_misconception_that_passes(jail: str, restored: Chapter) -> None:
    restored.misconceptions.write_text(restored.misconceptions.read_text().replace("return x ** 2", "return x * 2"))
    assert audit(restored.course, restored, How(progress=False)) == [
        "wrong-square: test_double gives 2 points, expected 0.",
        "wrong-square: its own misconception is not recognised.",
    ]

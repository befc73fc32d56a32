"""Right answers written in another way than ours earn full marks: loops, einsum, PyTorch's own operators."""

import ast
from pathlib import Path

import nbformat
import pytest

from autograder.classroom import How, grade_class
from autograder.collect import Submission
from autograder.layout import Chapter, Course, here
from autograder.release import build_release
from autograder.samples import reference

STYLES = Path(__file__).parent / "styles"


def answers(path: Path) -> dict[str, str]:
    """Top-level name → the source that defines it."""
    text = path.read_text(encoding="utf-8")
    found = {}
    for node in ast.parse(text).body:
        name = node.targets[0].id if isinstance(node, ast.Assign) else node.name
        found[name] = ast.get_source_segment(text, node)
    return found


@pytest.mark.parametrize("chapter", here().chapters, ids=[chapter.id for chapter in here().chapters])
def test_other_styles_earn_full_marks(published: Course, chapter: Chapter, jail: str) -> None:
    styles = sorted((STYLES / chapter.id).glob("*.py"))
    assert len(styles) >= 3, f"{chapter.id} needs three other styles in {STYLES.name}/"
    submissions = []
    for path in styles:
        notebook, mine = reference(chapter), answers(path)
        for cell in notebook.cells:
            course = cell.metadata.get("course", {})
            if "exercise" in course:
                cell.source = mine.pop(course["exercise"])
        assert not mine, f"{path.name} answers what is not asked: {', '.join(mine)}"
        submissions.append(Submission(path.stem, "", nbformat.writes(notebook).encode()))
    how = How(isolation=jail, seed="tests", progress=False)
    results = grade_class(published, build_release(chapter), submissions, how)
    lost = [
        f"{style}: {cell.grade_id}: {cell.message}"
        for style, result in results.items()
        for cell in result.cells
        if not cell.passed
    ]
    assert [result.status for result in results.values()] == ["graded"] * len(styles)
    assert not lost, "\n".join(lost)

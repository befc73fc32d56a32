"""From chapter to chapter with one's own parts: the package is the student's, and the reference fills gaps."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.layout import Course, here
from autograder.samples import reference

MARK = "# written by the student"
LAST = "99-end"  # a folder after the last chapter


@pytest.fixture
def folder(published: Course, tmp_path: Path) -> Path:
    """A student's folder: each chapter's notebook, solved with the sample solutions."""
    for chapter in published.chapters:
        notebook = reference(chapter)
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell.source.startswith("#| export"):
                cell.source += f"\n{MARK}"
        (tmp_path / chapter.id).mkdir()
        nbformat.write(notebook, tmp_path / chapter.id / f"{chapter.name}.ipynb")
    (tmp_path / LAST).mkdir()
    return tmp_path


def run(folder: Path, chapter_id: str, code: str = "") -> str:
    """What a notebook of the chapter prints at its beginning, and then the code."""
    program = f"from course.carry_over import use_earlier\nuse_earlier({chapter_id!r})\n{code}"
    environment = {**os.environ, "PYTHONPATH": str(here().root), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder / chapter_id, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def replace(folder: Path, chapter_id: str, grade_id: str, change: tuple[str, str]) -> None:
    """Change a student's answer."""
    path = next((folder / chapter_id).glob("*.ipynb"))
    notebook = nbformat.read(path, as_version=4)
    cell = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)
    assert change[0] in cell.source
    cell.source = cell.source.replace(*change)
    nbformat.write(notebook, path)


def test_chapter_by_chapter(folder: Path, published: Course) -> None:
    seen: dict[str, str] = {}
    for chapter in [*published.chapters[1:], None]:
        output = run(folder, chapter.id if chapter else LAST)
        told = dict(re.findall(r"^(\w+): (\w+)", output, flags=re.MULTILINE))
        assert seen.keys() <= told.keys()
        assert set(told.values()) == {"yours"}, output
        seen = told
    assert {"softmax", "scaled_dot_product_attention", "SelfAttention"} <= seen.keys()
    for module in (folder / "mytransformer").glob("[a-z]*.py"):
        assert MARK in module.read_text(encoding="utf-8")


def test_the_reference_steps_in(folder: Path) -> None:
    replace(folder, "02-self-attention", "softmax", ("return", "return 2 *"))
    code = "import torch\nfrom mytransformer import attention\nprint('sum', attention.softmax(torch.zeros(3), 0).sum())"
    output = run(folder, LAST, code)
    assert re.search(r"^softmax: reference, because yours fails its test \(softmax of four zeros", output, re.MULTILINE)
    assert "causal_average: yours" in output and "sum tensor(1.)" in output


def test_a_cell_that_is_no_python(folder: Path) -> None:
    replace(folder, "02-self-attention", "causal_average", ("return", "return return"))
    output = run(folder, LAST)
    assert "02-self-attention: a cell that is no Python was left out." in output
    assert "softmax: yours" in output


def test_no_earlier_notebooks(tmp_path: Path) -> None:
    (tmp_path / LAST).mkdir()
    assert "come from the reference" in run(tmp_path, LAST, "import mytransformer.attention")

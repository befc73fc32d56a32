"""Shows, for each chapter, its executed page instead of the notebook that students open.

The document `chapters/NN-name/name` is the student's notebook, so that the download button and the links to Binder
and Colab lead to it. What is read for it is `_build/pages/NN-name.ipynb`, which publishing makes: the same cells,
with the outputs that the solutions produce.
"""

from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError


def page_of(app: Sphinx, docname: str) -> Path | None:
    """The page for a document of `chapters/`, None for any other document."""
    parts = PurePosixPath(docname).parts
    if len(parts) != 3 or parts[0] != "chapters":
        return None
    return Path(app.srcdir) / "_build" / "pages" / f"{parts[1]}.ipynb"


def read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    page = page_of(app, docname)
    if page is None:
        return
    if not page.is_file():
        raise ExtensionError(f"There is no page for {docname}: {page} is missing. Run: python -m autograder publish")
    app.env.note_dependency(str(page))
    source[0] = page.read_text(encoding="utf-8")


def changed_pages(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """Documents whose page is newer than the last reading (`env.all_docs`, in microseconds)."""
    outdated = []
    for docname in env.found_docs - added - changed:
        page = page_of(app, docname)
        if page is not None and page.is_file() and page.stat().st_mtime_ns // 1000 > env.all_docs.get(docname, 0):
            outdated.append(docname)
    return outdated


def setup(app: Sphinx) -> dict:
    app.connect("source-read", read_page)
    app.connect("env-get-outdated", changed_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Derive everything from `solutions/`: reference package, student notebooks, pages, site."""

import fcntl
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions
from traitlets.config import Config, PyFileConfigLoader

from autograder import stamps
from autograder.export import export
from autograder.layout import Chapter, Course, here
from autograder.portable import Portable, SourceError
from autograder.source import Source, instructor_notebook, page_notebook, read

Report = Callable[[str], None]
CELL_MINUTES = 60  # the longest cell takes one or two, and many times that on a machine that is busy


class PublishError(RuntimeError):
    """A chapter or the site could not be built. The message says where and why."""


def publish(course: Course, report: Report, site: bool = True) -> bool:
    """Bring everything that is derived from the sources up to date.

    Args:
        course: the checkout.
        report: called with one line whenever something is about to be built.
        site: whether to build the site as well.

    Returns:
        Whether anything had to be built.

    Raises:
        SourceError, PublishError: with the file and the reason. What was built before stays usable.
    """
    with _alone(course, report):
        # Inputs are looked at before they are read: what is edited during the build is built the next time.
        inputs = {chapter.id: stamps.digest(_chapter_inputs(chapter)) for chapter in course.chapters}
        sources = [read(chapter) for chapter in course.chapters]
        portable = Portable(course)
        for source in sources:
            _write(source.chapter.instructor_notebook, instructor_notebook(source, portable))
        changed = _export(course)
        package = stamps.digest(stamps.files(course.package, "*.py"))
        for source in sources:
            chapter = source.chapter
            wanted, outputs = inputs[chapter.id] + package, [chapter.student_notebook, chapter.page]
            if stamps.is_current(course, chapter.id, wanted, outputs):
                continue
            changed = True
            report(f"{chapter.id}: releasing the student notebook")
            release(course, chapter)
            report(f"{chapter.id}: running the solutions for the page")
            _write(chapter.page, _executed_page(course, source))
            stamps.stamp(course, chapter.id, wanted, outputs)
        wanted = stamps.digest(_site_inputs(course)) if site else ""
        if site and not stamps.is_current(course, "site", wanted, _site_outputs(course)):
            changed = True
            report("building the site")
            _build_site(course)
            stamps.stamp(course, "site", wanted, _site_outputs(course))
        return changed


@contextmanager
def _alone(course: Course, report: Report) -> Iterator[None]:
    """Wait until nobody else publishes here; the kernel ends the wait when the other process ends, however it does."""
    course.build.mkdir(parents=True, exist_ok=True)
    with (course.build / "publish.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another run that publishes this course")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def nbgrader_config(course: Course) -> Config:
    """The settings of `nbgrader_config.py`, for any course folder."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(here().root / "autograder")).load_config()
    config.CourseDirectory.root = str(course.root)
    config.CourseDirectory.db_url = course.gradebook
    return config


def release(course: Course, chapter: Chapter) -> None:
    """`nbgrader generate_assignment`: the student notebook, and the assignment in the gradebook."""
    course.grading.mkdir(parents=True, exist_ok=True)
    config = nbgrader_config(course)
    logging.disable()  # a missing exchange folder is no concern here
    api = NbGraderAPI(config=config)
    logging.disable(logging.NOTSET)
    api.log.setLevel(logging.ERROR)
    result = api.generate_assignment(chapter.id, force=True)
    if not result["success"]:
        advice = ""
        if "submissions associated" in result["log"] + result["error"]:
            advice = (
                f"\nThe gradebook holds marks for an earlier version of {chapter.id}. Export them with "
                f"`nbgrader export`, then remove them: `nbgrader db assignment remove {chapter.id} --force`."
            )
        raise PublishError(f"nbgrader could not release {chapter.id}:\n{result['log']}{result['error']}{advice}")


def _export(course: Course) -> bool:
    """The reference package; untouched when it would not change."""
    notebooks = [chapter.instructor_notebook for chapter in course.chapters]
    origin = {c.instructor_notebook: str(c.source.relative_to(course.root)) for c in course.chapters}
    with tempfile.TemporaryDirectory() as temporary:
        fresh = Path(temporary) / course.package.name
        export(notebooks, fresh, origin)
        if _contents(fresh) == _contents(course.package):
            return False
        shutil.rmtree(course.package, ignore_errors=True)
        shutil.copytree(fresh, course.package)
    return True


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.py")}


def _executed_page(course: Course, source: Source) -> NotebookNode:
    """Run the page with the solutions, then take solutions and hidden tests out and keep the outputs."""
    notebook = page_notebook(source)
    path = os.pathsep.join(filter(None, [str(course.root), str(here().root), os.environ.get("PYTHONPATH")]))
    client = NotebookClient(notebook, kernel_name="python3", store_widget_state=False, record_timing=False)
    client.timeout, client.extra_arguments = round(CELL_MINUTES * 60), ["--log-level=ERROR"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            client.resources["metadata"] = {"path": folder}
            client.execute(env={**os.environ, "PYTHONPATH": path})
    except CellExecutionError as error:
        raise PublishError(f"{source.chapter.source}: a cell fails with the reference solutions.\n{error}") from error
    except CellTimeoutError as error:
        reason = f"a cell ran for more than {CELL_MINUTES} minutes"
        raise PublishError(f"{source.chapter.source}: {reason}.\n{error}") from error
    except DeadKernelError as error:
        reason = "Python ended while it ran the page, most often because the memory was used up"
        raise PublishError(f"{source.chapter.source}: {reason}.") from error
    config = nbgrader_config(course)
    for preprocessor in (ClearSolutions(config=config), ClearHiddenTests(config=config)):
        notebook, _ = preprocessor.preprocess(notebook, {})
    notebook.metadata.pop("widgets", None)
    return notebook


def _build_site(course: Course) -> None:
    # Jupyter Book cannot be run with -m. --all, because Sphinx does not notice changes of extensions and templates.
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command = [*program, "build", ".", "-W", "-n", "--keep-going", "--all"]
    finished = subprocess.run(command, cwd=course.root, capture_output=True, text=True, check=False)
    if finished.returncode:
        log = course.build / "site.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(finished.stdout + finished.stderr, encoding="utf-8")
        said = (finished.stdout + finished.stderr).splitlines()
        problems = [line for line in said if "WARNING" in line or "ERROR" in line]
        reasons = "\n".join(problems[:20] or finished.stderr.splitlines()[-5:])
        raise PublishError(f"The site was not built:\n{reasons}\nThe whole log is in {log}.")


def _write(path: Path, notebook: NotebookNode) -> None:
    """Write a notebook at once or not at all; an equal file is left alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = nbformat.writes(notebook, version=4) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _chapter_inputs(chapter: Chapter) -> list[Path]:
    """What a chapter's notebook and page depend on, beside the reference package."""
    root, code = chapter.course.root, here().root
    publishing = ["source", "portable", "quiz", "publish", "stamps", "nbgrader_config"]
    return [
        *stamps.files(chapter.folder, "*.md", "*.yml"),
        *stamps.files(code / "course", "*.py", "*.json"),
        *(code / "autograder" / f"{name}.py" for name in publishing),
        *(
            path
            for name in ("_config.yml", "book/references.bib", "requirements.txt")
            if (path := root / name).is_file()
        ),
    ]


def _site_inputs(course: Course) -> list[Path]:
    pages = [path for chapter in course.chapters for path in (chapter.page, chapter.student_notebook)]
    book = [path for path in stamps.files(course.root / "book", "*") if path.is_file()]
    return [*pages, *book, *(course.root / name for name in ("_config.yml", "_toc.yml", "requirements.txt"))]


def _site_outputs(course: Course) -> list[Path]:
    return [course.site / "index.html", *(course.site / "chapters" / c.id / f"{c.name}.html" for c in course.chapters)]


__all__ = ["PublishError", "SourceError", "nbgrader_config", "publish", "release"]

"""What many tests use: the course itself, published once; a tiny course; a student's notebook behind a line."""

import os
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny_course import make_course

from autograder.graders import kit
from autograder.layout import Chapter, Course, here
from autograder.publish import publish
from autograder.release import Release, build_release
from autograder.sandbox.launch import BUBBLEWRAP, NONE, Jail, JailError, bubblewrap

if TYPE_CHECKING:  # PyTorch, which most tests can do without
    from autograder.referee.proxies import Line


@pytest.fixture(scope="session")
def published() -> Course:
    """This checkout with everything built; quick when `make test` has just done so."""
    course = here()
    publish(course, print)
    return course


@pytest.fixture(scope="session")
def jail() -> str:
    """The isolation to test with. Without bubblewrap there is nothing to test: an error in CI, else loudly skipped."""
    try:
        command = bubblewrap(Path("/usr"), {"PATH": "/usr/bin:/bin"})
        subprocess.run([*command, "true"], check=True, capture_output=True, text=True)
    except (JailError, subprocess.CalledProcessError) as error:
        reason = f"NO SANDBOX ON THIS MACHINE, nothing about it was tested: {getattr(error, 'stderr', '') or error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
    return BUBBLEWRAP


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Chapter:
    """The tiny course's only chapter; each file of tests has a copy of its own."""
    return make_course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def release(chapter: Chapter) -> Release:
    return build_release(chapter)


@pytest.fixture(scope="module")
def free_jail(release: Release) -> Iterator[Jail]:
    """A warm parent of workers that is not confined: for tests of what crosses the line."""
    jail = Jail(kit(release), NONE)
    yield jail
    jail.close()


@pytest.fixture(scope="module")
def line(free_jail: Jail) -> "Iterator[Line]":
    """The line to a notebook that has run `tiny_worker.CODE`."""
    from tiny_worker import connect

    worker, line = connect(free_jail)
    yield line
    worker.end()


@pytest.fixture
def get(line: "Line") -> Callable[[str], Any]:
    """The value of a name in that notebook."""
    return line.get

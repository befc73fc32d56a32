"""Submissions that cheat or do harm: each gets what an honest grader would give, and nobody else notices."""

import copy
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from red_team.attacks import ATTACKS, HTML, LISTENER_NAME, LISTENER_PORT, Attack, forbidden_files

from autograder.classroom import How, grade_class
from autograder.collect import Submission
from autograder.feedback import write_feedback
from autograder.layout import Chapter, Course, here
from autograder.release import Release, build_release
from autograder.report import write_report
from autograder.result import GRADED, UNREADABLE, Result
from autograder.samples import reference

HONEST = 5  # submissions among the attacks that must not notice anything
SECRETS = ("a shift must change nothing", "torch.exp(x - x.amax(")  # what the thefts look for


@pytest.fixture(scope="module")
def chapter(published: Course) -> Chapter:
    return here().chapter("02-self-attention")


@pytest.fixture(scope="module")
def release(chapter: Chapter) -> Release:
    return build_release(chapter, cell_timeout=4)


@pytest.fixture(scope="module")
def submissions(chapter: Chapter) -> list[Submission]:
    honest = reference(chapter)
    found = []
    for number, attack in enumerate(ATTACKS.values()):
        made = attack.make(copy.deepcopy(honest))
        # nbformat would refuse what some of them are made of
        data = made if isinstance(made, bytes) else json.dumps(made).encode("utf-8", "surrogatepass")
        found.append(Submission(attack.name, "", data))
        if number % (len(ATTACKS) // HONEST) == 0:
            notebook = copy.deepcopy(honest)
            notebook.cells[0].source += f"\n\n{number}"
            found.append(Submission(f"honest-{number}", "", nbformat.writes(notebook).encode()))
    return found


@pytest.fixture(scope="module")
def connections() -> Iterator[list[str]]:
    """Who connected to the two sockets that listen on this machine."""
    seen: list[str] = []
    listeners = [socket.socket(socket.AF_INET), socket.socket(socket.AF_UNIX)]
    listeners[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listeners[0].bind(("127.0.0.1", LISTENER_PORT))
    listeners[1].bind(f"\0{LISTENER_NAME}")

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            seen.append(str(listener.family))
            connection.close()

    for listener in listeners:
        listener.listen()
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
    yield seen
    for listener in listeners:
        listener.close()


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return Course(tmp_path_factory.mktemp("red-team"))


@pytest.fixture(scope="module")
def results(
    course: Course, release: Release, submissions: list[Submission], connections: list[str], jail: str
) -> dict[str, Result]:
    return grade_class(course, release, submissions, How(isolation=jail, progress=False))


def test_there_is_something_to_steal(chapter: Chapter) -> None:
    text = chapter.source.read_text(encoding="utf-8")
    assert all(secret in text for secret in SECRETS), "the thefts in red_team/ search for words that are gone"


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=str)
def test_gets_what_it_deserves(results: dict[str, Result], attack: Attack) -> None:
    result = results[attack.name]
    if attack.unreadable or (attack.unreadable is None and result.status == UNREADABLE):
        assert result.status == UNREADABLE
        assert result.score == 0 and result.reason
        return
    assert (result.status, result.reason) == (GRADED, "")
    lost = {cell.exercise for cell in result.cells if not cell.passed}
    why = {cell.exercise: f"{cell.status}: {cell.message[:300]}" for cell in result.cells if not cell.passed}
    assert lost - attack.may_lose == attack.loses - attack.may_lose, why
    assert result.score == result.max_score - sum(cell.max_score for cell in result.cells if cell.exercise in lost)


def test_nobody_else_notices(results: dict[str, Result]) -> None:
    honest = [result for student, result in results.items() if student.startswith("honest-")]
    assert len(honest) >= HONEST
    assert all(result.score == result.max_score for result in honest)


def test_nothing_is_left_behind(results: dict[str, Result], connections: list[str], tmp_path: Path) -> None:
    assert forbidden_files(tmp_path) == []
    assert connections == []


def test_pages_show_everything_as_text(course: Course, release: Release, results: dict[str, Result]) -> None:
    pages = write_feedback(course, release, results)
    pages.append(write_report(course, release, results, []) / "report.html")
    for path in pages:
        page = path.read_text(encoding="utf-8")
        assert HTML not in page and not any(secret in page for secret in SECRETS), path.name
        parsed = BeautifulSoup(page, "html.parser")
        assert not parsed.find_all(["script", "iframe", "object", "embed", "link", "base", "form"]), path.name
        assert all(str(image["src"]).startswith("data:image/png;base64,") for image in parsed.find_all("img")), (
            path.name
        )
        handlers = [name for tag in parsed.find_all(True) for name in tag.attrs if name.startswith("on")]
        assert not handlers, path.name

"""What students and instructors read: the checks in words, nothing secret, nothing that runs."""

import base64
import csv
import json
import struct
import zlib
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tiny_course import HIDDEN, completed, content, without

from autograder.classroom import How, grade_class
from autograder.collect import Submission
from autograder.feedback import NOT_THE_KEY, message, write_feedback
from autograder.layout import Chapter, Course
from autograder.parts import REST
from autograder.referee.notebook import pictures
from autograder.release import Release
from autograder.report import distribution, write_report
from autograder.result import (
    CRASHED,
    GRADED,
    INFRASTRUCTURE,
    NOT_ATTEMPTED,
    RIGHT,
    UNREADABLE,
    WRONG,
    CellResult,
    Check,
    Result,
    no_marks,
)

HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>"
RED = f"print({HTML!r})\ndef double(x):\n    raise ValueError({HTML!r})"


@pytest.fixture(scope="module")
def results(jail: str, chapter: Chapter, release: Release) -> dict[str, Result]:
    notebooks = {
        "full": content(completed(chapter)),
        "stub": chapter.student_notebook.read_bytes(),
        "squares": content(completed(chapter, double="def double(x):\n    return x * x")),
        "thrice": content(completed(chapter, double="def double(x):\n    return 3 * x")),
        "hidden-only": content(completed(chapter, double="def double(x):\n    return {1: 2}.get(x, 7)")),
        "shifty": content(completed(chapter, shift="def shift(x):\n    return x")),
        "red": content(completed(chapter, double=RED)),
        "quizzed": content(completed(chapter, quiz_color='quiz_color = "a"')),
        "quiz-fails": content(completed(chapter, quiz_color=f"raise ValueError({HTML!r})")),
        "no-tests": content(without(completed(chapter), "test_total")),
        "broken": b'{"cells": [',
    }
    members = [Submission(student, f"{student}.ipynb", data) for student, data in notebooks.items()]
    graded = grade_class(chapter.course, release, members, How(progress=False))
    return graded | {"unlucky": no_marks(release.graded, INFRASTRUCTURE, "The referee's process ended.")}


@pytest.fixture(scope="module")
def pages(chapter: Chapter, release: Release, results: dict[str, Result]) -> dict[str, str]:
    paths = write_feedback(chapter.course, release, results)
    return {path.stem: path.read_text("utf-8") for path in paths}


# --- feedback --------------------------------------------------------------------------------------------------------


def test_it_names_the_misconception(pages: dict[str, str]) -> None:
    sentence = "Doubling is not &lt;b&gt;squaring&lt;/b&gt;."
    assert [student for student, page in pages.items() if sentence in page] == ["squares"]


def test_it_names_the_checks(pages: dict[str, str]) -> None:
    assert "✗ double works" in pages["squares"] and "✓ double works" in pages["hidden-only"]
    assert f"✗ {REST}" in pages["hidden-only"] and "double(21) should be 42, not 7." in unescape(pages["hidden-only"])
    assert "✗ the offset is added" in pages["shifty"] and "shift(1) should be 11, not 1." in unescape(pages["shifty"])
    assert "it depends on the seed" not in pages["shifty"], "the comment of a hidden test"


def test_it_holds_no_secret(pages: dict[str, str]) -> None:
    for student, page in pages.items():
        assert HIDDEN not in page and "assert " not in page and "HIDDEN" not in page, student
        assert "the key is" not in page and "randrange" not in page, student
    assert NOT_THE_KEY in pages["quizzed"]


def test_it_is_escaped_and_asks_nobody(pages: dict[str, str]) -> None:
    for student, page in pages.items():
        assert "<script" not in page and "<img" not in page and "http" not in page, student
    assert HTML in unescape(pages["red"]) and HTML in unescape(pages["quiz-fails"])


def test_it_says_what_is_wrong(pages: dict[str, str]) -> None:
    assert "could not be graded" in pages["broken"] and "0 of 10 points" in pages["broken"]
    assert "has not been graded yet" in pages["unlucky"] and "could not be graded" not in pages["unlucky"]
    assert "10 of 10 points" in pages["full"] and "✗" not in pages["full"]
    assert "The test cell test_total was changed: restored." not in pages["no-tests"]
    assert "The test cell test_total is missing: restored." in pages["no-tests"]
    assert pages["stub"].count("✗ not attempted") == 4
    assert "in double, line 3: raise ValueError" in unescape(pages["red"])


def test_it_names_the_seed(pages: dict[str, str], results: dict[str, Result]) -> None:
    assert results["full"].seed and f"<code>{results['full'].seed}</code>" in pages["full"]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ({"status": WRONG, "error": "AssertionError", "message": "It should be 1."}, "It should be 1."),
        ({"status": CRASHED, "error": "ValueError", "message": "no"}, "ValueError: no"),
        ({"status": CRASHED, "error": "ValueError", "message": ""}, "ValueError"),
        ({"status": CRASHED, "error": "ValueError", "message": "ValueError: no"}, "ValueError: no"),
        ({"status": CRASHED, "error": "NameError", "message": "f is not defined"}, "f is not defined"),
        ({"status": NOT_ATTEMPTED, "error": "NotAttempted", "message": "Not attempted."}, "Not attempted."),
        ({"status": WRONG, "error": "AssertionError", "message": "the key is c", "is_quiz": True}, NOT_THE_KEY),
        ({"status": CRASHED, "error": "TypeError", "message": "x", "is_quiz": True}, "TypeError: x"),
    ],
)
def test_message(cell: dict[str, Any], text: str) -> None:
    some = {"grade_id": "test_f", "exercise": "f", "is_quiz": False, "max_score": 1.0}
    assert message(CellResult(**some | cell)) == text


# --- report ----------------------------------------------------------------------------------------------------------


def test_report(chapter: Chapter, release: Release, results: dict[str, Result]) -> None:
    refused = [Submission("", f"{HTML}.ipynb", problem="It is a link, not a file.")]
    folder = write_report(chapter.course, release, results, refused)
    page = (folder / "report.html").read_text("utf-8")
    assert f"{HTML}.ipynb" in unescape(page) and "<script" not in page and "<img" not in page
    assert "Doubling is not &lt;b&gt;squaring&lt;/b&gt;." in page and "12 students" in page
    assert "without a sandbox" not in page and "The referee&#39;s process ended." in page
    document = json.loads((folder / "results.json").read_text("utf-8"))
    by_student = {entry["student"]: entry for entry in document["students"]}
    told = [name for name, entry in by_student.items() if any(cell["misconceptions"] for cell in entry["cells"])]
    assert told == ["squares"]
    assert by_student["quizzed"]["cells"][3]["shown"] == NOT_THE_KEY
    assert {path.stem for path in (folder / "results").iterdir()} == set(results)


def test_marks_for_a_spreadsheet(chapter: Chapter, release: Release, results: dict[str, Result]) -> None:
    folder = write_report(chapter.course, release, results, [])
    table = {row[0]: row[1:] for row in csv.reader((folder / "marks.csv").open(encoding="utf-8"))}
    assert table["student"] == ["total", "max", "double", "total", "shift", "quiz_color", "status", "reason"]
    assert table["squares"] == ["8", "10", "0", "3", "4", "1", GRADED, ""]
    assert table["broken"][-2] == "unreadable" and table["broken"][-1]
    assert table["unlucky"][-2:] == ["infrastructure error", "The referee's process ended."]


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_csv_holds_no_formula(release: Release, tmp_path: Path, formula: str) -> None:
    folder = write_report(Course(tmp_path), release, {"ada": no_marks(release.graded, UNREADABLE, formula)}, [])
    with (folder / "marks.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[1][-1] == f"'{formula}"


def test_the_same_results_make_the_same_report(chapter: Chapter, release: Release, results: dict[str, Result]) -> None:
    names = ("report.html", "marks.csv", "results.json")
    folder = write_report(chapter.course, release, results, [])
    before = [(folder / name).read_bytes() for name in names]
    write_report(chapter.course, release, results, [])
    assert before == [(folder / name).read_bytes() for name in names]


def test_report_on_nobody(release: Release, tmp_path: Path) -> None:
    page = (write_report(Course(tmp_path), release, {}, []) / "report.html").read_text("utf-8")
    assert "0 students" in page and "nan" not in page


def test_distribution() -> None:
    assert [bar.text for bar in distribution([0, 0.5, 1, 10], 10)] == ["2", "1", *["0"] * 7, "1"]
    assert [bar.share for bar in distribution([], 10)] == [0] * 10
    assert distribution([0], 0)[0].text == "1"


# --- pictures --------------------------------------------------------------------------------------------------------


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


HEAD, END = b"\x89PNG\r\n\x1a\n", chunk(b"IEND", b"")


def header(width: int = 1, height: int = 1) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


DATA = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
GOOD = HEAD + header() + chunk(b"tEXt", b"Software\0x") + DATA + END
text = base64.b64encode


def test_a_good_picture() -> None:
    assert pictures([text(GOOD).decode()]) == [text(GOOD).decode()]
    assert len(pictures([text(GOOD).decode()] * 20)) == 8


@pytest.mark.parametrize(
    "claimed",
    [
        None, "x", {"a": 1}, [None], [5], [b"x"], [["x"]], [""], ["no base64!"], ['"><script>'],
        *[
            [text(data).decode()]
            for data in (
                b"", HEAD, GOOD[1:], GOOD[:-1], GOOD[:-12], GOOD + b"x", GOOD + b"<script>alert(1)</script>",
                HEAD + DATA + END, HEAD + header() + DATA, HEAD + header(0) + DATA + END,
                HEAD + header(4001) + DATA + END, HEAD + header(1, 2**31) + DATA + END,
                HEAD + header() + chunk(b"evIL", b"x") + DATA + END, HEAD + chunk(b"IHDR", b"") + DATA + END,
                HEAD + header()[:-1] + b"\0" + DATA + END, b"<svg onload='alert(1)'/>", b"\xff\xd8\xff\xe0JFIF",
                b"GIF89a", HEAD + b"\xff\xff\xff\xffIHDR",
                HEAD + header() + chunk(b"tEXt", b"x" * 500_000) + DATA + END,
            )
        ],
    ],
    ids=range(30),
)  # fmt: skip
def test_bad_pictures(claimed: object) -> None:
    assert pictures(claimed) == []


def cell_with(**more: Any) -> CellResult:
    return CellResult("test_double", "double", False, 2.0, **({"status": RIGHT} | more))


@pytest.fixture
def page(release: Release, tmp_path: Path) -> Callable[[Result], str]:
    return lambda result: write_feedback(Course(tmp_path), release, {"ada": result})[0].read_text("utf-8")


def test_pictures_are_shown(page: Callable[[Result], str]) -> None:
    result = Result(GRADED, "", [cell_with(pictures=[text(GOOD).decode()], output=HTML)])
    shown = page(result)
    assert f'src="data:image/png;base64,{text(GOOD).decode()}"' in shown and shown.count("<img") == 1
    assert "<script" not in shown and HTML in unescape(shown)


def test_every_field_is_escaped(page: Callable[[Result], str]) -> None:
    checks = [Check(HTML, WRONG, HTML)]
    cell = CellResult(HTML, HTML, False, 2.0, WRONG, HTML, HTML, HTML, checks, HTML, [], [], [HTML])
    shown = page(Result(GRADED, HTML, [cell], [HTML], HTML, HTML))
    assert "<script" not in shown and "<img" not in shown and unescape(shown).count(HTML) >= 8


def test_no_sandbox_is_said(page: Callable[[Result], str]) -> None:
    assert "without a sandbox" in page(Result(GRADED, "", [cell_with()], isolation="none"))
    assert "without a sandbox" not in page(Result(GRADED, "", [cell_with()], isolation="bubblewrap"))

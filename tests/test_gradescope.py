"""results.json for Gradescope: its documented fields, the marks as they are, and nothing that students must not see."""

import json
from pathlib import Path
from typing import Any

import pytest

from autograder import gradescope as module
from autograder.gradescope import gradescope, write_gradescope
from autograder.layout import Course
from autograder.result import (
    CRASHED,
    GRADED,
    INFRASTRUCTURE,
    NOT_ATTEMPTED,
    OUT_OF_MEMORY,
    RIGHT,
    TIMED_OUT,
    UNREADABLE,
    WRONG,
    CellResult,
    Check,
    Result,
)

SENTENCES = {"square": "Doubling is not squaring.", "first-value": "Every value counts."}
NOT_RIGHT = "This is not the right choice. Read the question again, option by option."


def cell(
    status: str = WRONG, exercise: str = "double", points: float = 2, quiz: bool = False, **more: Any
) -> CellResult:
    return CellResult(f"test_{exercise}", exercise, quiz, points, status, **more)


def wrong(**more: Any) -> CellResult:
    return cell(error="AssertionError", message="double(1) should be 2, not 1.", **more)


def quiz(**more: Any) -> CellResult:
    return cell(exercise="quiz_color", quiz=True, points=1, error="AssertionError", message="the key is c", **more)


def graded(*cells: CellResult, **more: Any) -> Result:
    return Result(GRADED, "", list(cells), **more)


def test_one_test_for_each_cell() -> None:
    document = gradescope(graded(cell(RIGHT), wrong(points=1.5), quiz()), SENTENCES)
    assert document["score"] == 2
    assert [test["name"] for test in document["tests"]] == ["double", "double", "quiz_color"]
    assert [test["number"] for test in document["tests"]] == ["1", "2", "3"]
    assert [test["score"] for test in document["tests"]] == [2, 0, 0]
    assert [test["max_score"] for test in document["tests"]] == [2, 1.5, 1]
    assert [test["status"] for test in document["tests"]] == ["passed", "failed", "failed"]


def test_fields_are_those_of_the_specification() -> None:
    document = gradescope(graded(wrong()), SENTENCES)
    assert set(document) == {
        *("score", "output", "output_format", "visibility", "stdout_visibility", "extra_data", "tests")
    }
    assert set(document["tests"][0]) == {
        *("number", "name", "name_format", "score", "max_score", "status", "visibility", "output", "output_format")
    }
    assert (document["visibility"], document["stdout_visibility"]) == ("visible", "hidden")
    assert document["tests"][0]["visibility"] == "visible"
    assert document["output_format"] == document["tests"][0]["output_format"] == "text"


def test_output_says_what_helps() -> None:
    failed = wrong(misconceptions=["square", "square", "gone"], notes=["The cell double is there 2 times."])
    assert gradescope(graded(failed), SENTENCES)["tests"][0]["output"].splitlines() == [
        "wrong",
        "double(1) should be 2, not 1.",
        "Doubling is not squaring.",
        "The cell double is there 2 times.",
    ]


@pytest.mark.parametrize("status", [WRONG, NOT_ATTEMPTED, CRASHED, TIMED_OUT, OUT_OF_MEMORY])
def test_only_right_earns_points(status: str) -> None:
    document = gradescope(graded(cell(status, error="ValueError", message="m")), {})
    assert document["score"] == document["tests"][0]["score"] == 0
    assert document["tests"][0]["status"] == "failed"
    assert document["tests"][0]["output"].startswith(status)
    assert document["extra_data"] == {"status": "graded", "cells": {"test_double": status}}


def test_right_cells_say_no_more_than_that() -> None:
    passed = cell(RIGHT, message="left over", misconceptions=["square"], notes=["a note"])
    assert gradescope(graded(passed), SENTENCES)["tests"][0]["output"] == "right"


def test_the_key_of_a_quiz_stays_secret() -> None:
    text = json.dumps(gradescope(graded(quiz(checks=[Check("key is c", WRONG, "the key is c")])), SENTENCES))
    assert NOT_RIGHT in text
    assert "key is c" not in text


def test_neither_tests_nor_seed_are_shown() -> None:
    failed = wrong(
        traceback="secret_of_the_hidden_tests = double(21)",
        checks=[Check("secret_of_the_hidden_tests", WRONG, "secret_of_the_hidden_tests")],
        output="secret_of_the_hidden_tests",
        pictures=["secret_of_the_hidden_tests"],
    )
    result = graded(failed, seed="secret_of_the_hidden_tests", notebook={"cells": "secret_of_the_hidden_tests"})
    assert "secret_of_the_hidden_tests" not in json.dumps(gradescope(result, SENTENCES))


def test_message_comes_from_the_feedback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "message", lambda cell: f"<{cell.message}>")
    assert "<double(1) should be 2, not 1.>" in gradescope(graded(wrong()), {})["tests"][0]["output"]


def test_unreadable_submission() -> None:
    result = Result(UNREADABLE, "This is not a notebook.", [cell(NOT_ATTEMPTED)], notes=["A note."])
    document = gradescope(result, {})
    assert document["score"] == 0
    assert document["output"] == "This is not a notebook.\nA note."


@pytest.mark.parametrize(
    "result", [Result(INFRASTRUCTURE, "disk full", [cell(INFRASTRUCTURE)]), graded(cell(RIGHT), cell(INFRASTRUCTURE))]
)
def test_no_score_where_the_grader_failed(result: Result) -> None:
    document = gradescope(result, {})
    assert "score" not in document
    assert document["tests"] == []
    assert "not been graded yet" in document["output"]
    assert "disk full" not in json.dumps(document)


def test_plain_text_only() -> None:
    failed = cell(CRASHED, error="ValueError", message="\x1b[31mred\x1b[0m \x00 half \ud800 李\n\ttab")
    output = gradescope(graded(failed), {})["tests"][0]["output"]
    assert output.endswith("[31mred[0m  half ? 李\n\ttab")
    json.dumps(output, ensure_ascii=False).encode()


def test_sums_are_not_noisy() -> None:
    assert gradescope(graded(cell(RIGHT, points=0.1), cell(RIGHT, points=0.2)), {})["score"] == 0.3


def test_files(tmp_path: Path) -> None:
    course = Course(tmp_path, tmp_path)
    results = {"ada": graded(cell(RIGHT)), "李.b@uni": graded(wrong())}
    paths = write_gradescope(course, "01-tiny", results, SENTENCES)
    assert paths == [tmp_path / "reports" / "01-tiny" / "results" / f"{student}.json" for student in results]
    first = [path.read_bytes() for path in paths]
    for path, result in zip(paths, results.values(), strict=True):
        written = json.loads(path.read_text(encoding="utf-8"))
        assert written == gradescope(result, SENTENCES)
        assert list(written) == sorted(written)
    write_gradescope(course, "01-tiny", results, SENTENCES)
    assert [path.read_bytes() for path in paths] == first


@pytest.mark.parametrize("student", ["../ada", "a/b", "", ".hidden", "a b"])
def test_no_file_outside_the_folder(tmp_path: Path, student: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        write_gradescope(Course(tmp_path, tmp_path), "01-tiny", {student: graded(cell(RIGHT))}, {})

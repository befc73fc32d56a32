"""A graded cell in named checks; nothing of its hidden tests is in a name."""

import pytest

from autograder.parts import REST, parts

CELL = """# preparation
x = 3
# it doubles:
# also zero
assert f(x) == 6
assert f(0) == 0

# whatever is large
for value in range(3):
    check_close(f(value), 2 * value, "f")
### BEGIN HIDDEN TESTS
# the secret of the tests
secret = 21
assert f(secret) == 42
# another secret
assert f(-1) == -2
### END HIDDEN TESTS"""


def test_comments_name_the_checks() -> None:
    found = parts(CELL, "f")
    assert [part.name for part in found] == ["", "it doubles: also zero", "whatever is large", REST]


def test_hidden_tests_are_one_check_without_their_words() -> None:
    found = parts(CELL, "f")
    assert not any("secret" in part.name for part in found)
    assert "secret = 21" in found[-1].code and "f(-1)" in found[-1].code


def test_every_statement_is_in_one_part_at_its_line() -> None:
    lines = CELL.splitlines()
    found = parts(CELL, "f")
    for part in found:
        code = part.code.splitlines()
        assert lines[part.first_line - 1 : part.first_line - 1 + len(code)] == code
    together = "\n".join(part.code for part in found)
    assert all(line in together for line in lines if line and not line.startswith("#"))


def test_a_cell_without_comments_is_one_check_named_after_the_exercise() -> None:
    (only,) = parts("assert f(1) == 2\nassert f(2) == 4", "f")
    assert only.name == "f works"


def test_a_cell_that_is_all_hidden() -> None:
    (only,) = parts('### BEGIN HIDDEN TESTS\nassert quiz == "c"\n### END HIDDEN TESTS', "quiz")
    assert only.name == REST


@pytest.mark.parametrize(
    ("code", "is_check"),
    [
        ("x = 1", False),
        ("def helper(x):\n    return x", False),
        ("assert x", True),
        ("if x:\n    raise ValueError", True),
        ("check_close(1, 1, 'x')", True),
        ("checks.check_close(1, 1, 'x')", True),
        ("for i in y:\n    assert i", True),
        ("print(x)", False),
    ],
)
def test_only_what_can_fail_is_a_check(code: str, is_check: bool) -> None:
    (only,) = parts(f"# a name\n{code}", "f")
    assert only.name == ("a name" if is_check else "")


def test_decorators_and_strings_of_several_lines_stay_whole() -> None:
    source = '# one\n@decorate\ndef f():\n    return """\n# no comment\n"""\n# two\nassert f()'
    first, second = parts(source, "f")
    assert first.code == '@decorate\ndef f():\n    return """\n# no comment\n"""' and first.name == ""
    assert second.name == "two"


def test_a_blank_line_parts_a_comment_from_the_statement() -> None:
    (only,) = parts("# about the file\n\nassert f", "f")
    assert only.name == "f works"

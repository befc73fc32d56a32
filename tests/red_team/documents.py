"""Attacks by the file itself: metadata, outputs, duplicates, and JSON that is odd or broken."""

import copy
import json

from nbformat import NotebookNode
from nbformat.v4 import new_output

from red_team.toolbox import (
    HTML,
    WRONG,
    add_cell,
    answer,
    attack,
    cell_of,
    content,
    grade_id,
    other_letter,
    prepend_to_answer,
    set_answer,
)

SOFTMAX = {"softmax"}
STUB = 'def softmax(x, dim):\n    raise NotImplementedError("Replace this line by your code.")'


def wrong(notebook: NotebookNode) -> NotebookNode:
    return set_answer(notebook, "softmax", WRONG)


def tests_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade")]


# --- forged outputs --------------------------------------------------------------------------------------------------


@attack("forged: outputs", loses=SOFTMAX)
def outputs_claim_pass(notebook: NotebookNode) -> NotebookNode:
    """Stores outputs that claim a pass beside a wrong answer."""
    wrong(notebook)
    claims = [
        new_output("execute_result", {"text/plain": "100", "application/json": {"score": 100}}, execution_count=1),
        new_output("stream", name="stdout", text="softmax: passed\n2 / 2 points\n"),
        new_output("display_data", {"text/html": HTML, "image/png": "bm90IGEgcGljdHVyZQ=="}),
        new_output("error", ename="SystemExit", evalue="0", traceback=["passed"]),
    ]
    for name in ("softmax", "test_softmax"):
        cell_of(notebook, name).update(outputs=copy.deepcopy(claims), execution_count=1)
    return notebook


@attack("forged: outputs", loses=SOFTMAX)
def outputs_beside_stub(notebook: NotebookNode) -> NotebookNode:
    """Has no answer at all, but stored outputs and metadata of a graded notebook."""
    set_answer(notebook, "softmax", STUB)
    for cell in tests_of(notebook):
        cell.outputs = [new_output("stream", name="stdout", text="1.0\n")]
        cell.metadata.nbgrader.update(
            points=1, auto_score=1.0, extra_credit=50, manual_score=99, needs_manual_grade=False
        )
    notebook.metadata["nbgrader"] = {"score": 100, "autograded": True}
    return notebook


# --- metadata --------------------------------------------------------------------------------------------------------


@attack("metadata: points", loses=SOFTMAX)
def points_changed(notebook: NotebookNode) -> NotebookNode:
    """Raises the points of all tests to 1000, those of one exercise to less than nothing."""
    for cell in tests_of(notebook):
        cell.metadata.nbgrader.points = -5 if grade_id(cell) == "test_softmax" else 1000
    return wrong(notebook)


@attack("metadata: points", loses=SOFTMAX, unreadable=None)
def points_not_a_number(notebook: NotebookNode) -> bytes:
    """Has points that are nan, infinite, text, or a list; JSON as Python reads it, but no other reader."""
    odd = [float("nan"), float("inf"), "1000", [1000], None, True, 10**400]
    for number, cell in enumerate(tests_of(notebook)):
        cell.metadata.nbgrader.points = odd[number % len(odd)]
    return content(wrong(notebook))


@attack("metadata: tests", loses=SOFTMAX)
def tests_skipped(notebook: NotebookNode) -> NotebookNode:
    """Tags tests to be skipped, unlocks them, marks them as ungraded, and lets errors be expected."""
    for cell in notebook.cells:
        cell.metadata["tags"] = ["skip-execution", "raises-exception", "remove-cell"]
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader.update(locked=False, grade=False, solution=True, task=True, checksum="0" * 32)
    return wrong(notebook)


@attack("metadata: tests", loses=SOFTMAX)
def tests_emptied(notebook: NotebookNode) -> NotebookNode:
    """Replaces the code of all tests by `pass`."""
    for cell in tests_of(notebook):
        cell.source = "pass"
    return wrong(notebook)


@attack("metadata: tests", loses=SOFTMAX)
def tests_deleted(notebook: NotebookNode) -> NotebookNode:
    """Has no tests any more."""
    removed = {id(cell) for cell in tests_of(notebook)}
    notebook.cells = [cell for cell in notebook.cells if id(cell) not in removed]
    return wrong(notebook)


@attack("metadata: everything but answers")
def only_answers_left(notebook: NotebookNode) -> NotebookNode:
    """Holds nothing but the cells of answers, in reverse order and without metadata of the course."""
    # The answers are right and known by their ids; the released notebook gives the order.
    kept = [cell for cell in notebook.cells if grade_id(cell) and not grade_id(cell).startswith("test_")]
    for cell in kept:
        cell.metadata = NotebookNode(nbgrader=NotebookNode(grade_id=grade_id(cell)))
    notebook.cells = kept[::-1]
    return notebook


@attack("metadata: everything but answers")
def answer_deleted(notebook: NotebookNode) -> NotebookNode:
    """Lacks the cell of an answer, which is given in a cell without id."""
    # nbgrader would run that cell, and so the answer counts.
    source = answer(notebook, "softmax")
    notebook.cells.remove(cell_of(notebook, "softmax"))
    add_cell(notebook, source, before="test_softmax")
    return notebook


@attack("metadata: kind of cell", loses={"softmax", "project"})
def answers_are_no_code(notebook: NotebookNode) -> NotebookNode:
    """Turns cells with right answers into text, where they do not run."""
    cell_of(notebook, "softmax").cell_type = "markdown"
    cell_of(notebook, "project").cell_type = "raw"
    for name in ("softmax", "project"):
        for field in ("outputs", "execution_count"):
            cell_of(notebook, name).pop(field, None)
    return notebook


@attack("metadata: kernel")
def kernel_claimed(notebook: NotebookNode) -> NotebookNode:
    """Claims another kernel and language, by a name that is a path or a command."""
    notebook.metadata["kernelspec"] = {
        "name": "../../../tmp/red-team",
        "display_name": HTML,
        "language": "bash; reboot",
    }
    notebook.metadata["language_info"] = {"name": "R", "file_extension": "/../../x", "mimetype": HTML, "version": HTML}
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {"x": HTML}}}
    notebook.metadata["jupytext"] = {"formats": "ipynb,/tmp/red-team-trace-jupytext//py"}
    notebook.metadata["title"] = "{{ config.__class__ }} {% include '/etc/passwd' %}"
    return notebook


@attack("metadata: names of cells", may_lose={"project"})
def names_with_paths(notebook: NotebookNode) -> bytes:
    """Has cells whose ids are paths, commands, very long, or no strings."""
    names = ["../../../../tmp/red-team-trace-path", "/tmp/red-team-trace-absolute", "x" * 100_000, HTML, "a\n\r\tb", ""]
    for name in names:
        cell = add_cell(notebook, "traversal = 1", before="softmax")
        cell.metadata["nbgrader"] = {
            "grade_id": name,
            "solution": True,
            "grade": True,
            "points": 5,
            "schema_version": 3,
        }
    for name in ({"a": 1}, [1], 7, None, True):
        cell = add_cell(notebook, "traversal = 1", before="softmax")
        cell.metadata["nbgrader"] = {"grade_id": name, "solution": True}
    cell_of(notebook, "project").id = "../../red-team-trace-cell"  # not an id by the rules, but its grade id is right
    return content(notebook)


@attack("metadata: format")
def huge_format_minor(notebook: NotebookNode) -> bytes:
    """Claims a format from the far future."""
    # A larger minor number only adds fields: the cells can be read as ever.
    notebook.nbformat_minor = 10**9
    return content(notebook)


@attack("metadata: format", unreadable=None)
def future_format(notebook: NotebookNode) -> bytes:
    """Claims a major format that does not exist."""
    notebook.nbformat = 10**9
    return content(notebook)


@attack("metadata: nbgrader", may_lose=SOFTMAX, unreadable=None)
def metadata_not_objects(notebook: NotebookNode) -> bytes:
    """Has metadata that are lists, text, numbers, null."""
    # One answer's own metadata are broken, so its id is lost; the others can be read.
    odd: list[object] = [[], "x", 7, None, {"nbgrader": []}, {"nbgrader": "softmax"}, {"nbgrader": None}]
    data = json.loads(content(notebook))
    data["cells"] += [{"cell_type": "code", "source": "x = 1", "metadata": one, "outputs": []} for one in odd]
    for cell in data["cells"]:
        if (
            isinstance(cell["metadata"], dict)
            and (cell["metadata"].get("nbgrader") or {})
            and cell.get("id") == "softmax"
        ):
            cell["metadata"]["nbgrader"]["solution"] = {"x": []}
    return json.dumps(data).encode()


# --- duplicates ------------------------------------------------------------------------------------------------------


def add_copy(notebook: NotebookNode, name: str, source: str, first: bool) -> None:
    """A second cell with the same grade id, before or after the first."""
    cell = copy.deepcopy(cell_of(notebook, name))
    cell.update(source=source, id="again")
    notebook.cells.insert(notebook.cells.index(cell_of(notebook, name)) + (not first), cell)


@attack("duplicates: wrong one first", loses=SOFTMAX)
def duplicate_wrong_first(notebook: NotebookNode) -> NotebookNode:
    """Gives two answers under one id: the wrong one stands first."""
    add_copy(notebook, "softmax", WRONG, first=True)
    return notebook


@attack("duplicates: right one first")
def duplicate_right_first(notebook: NotebookNode) -> NotebookNode:
    """Gives two answers under one id: the right one stands first."""
    add_copy(notebook, "softmax", WRONG, first=False)
    return notebook


@attack("duplicates: stub first")
def duplicate_stub_first(notebook: NotebookNode) -> NotebookNode:
    """Keeps the released cell and answers in a copy of it."""
    released = answer(notebook, "softmax").split('"""')
    stub = f'{released[0]}"""{released[1]}"""\n    raise NotImplementedError("Replace this line by your code.")'
    add_copy(notebook, "softmax", stub, first=True)
    return notebook


@attack("duplicates: copied tests", loses={"dot_scores"})
def duplicate_tests(notebook: NotebookNode) -> NotebookNode:
    """Copies tests and exchanges ids: a second test that passes, and an answer under the id of tests."""
    add_copy(notebook, "test_dot_scores", "pass", first=True)
    add_copy(notebook, "test_softmax", "pass", first=False)
    stolen = copy.deepcopy(cell_of(notebook, "softmax"))
    stolen.metadata.nbgrader.grade_id = "test_project"
    stolen.update(source="project = None", id="stolen")
    notebook.cells.append(stolen)
    return set_answer(notebook, "dot_scores", "def dot_scores(x):\n    return x * 0")


@attack("duplicates: many", loses=SOFTMAX)
def duplicate_many(notebook: NotebookNode) -> NotebookNode:
    """Gives two hundred wrong answers before the right one."""
    for number in range(200):
        add_copy(notebook, "softmax", WRONG + f"\n# {number}", first=True)
    return notebook


@attack("duplicates: quiz", loses={"quiz_shapes"})
def duplicate_quiz(notebook: NotebookNode) -> NotebookNode:
    """Gives all four letters in four cells of one question, a wrong one first."""
    add_copy(notebook, "quiz_shapes", f"quiz_shapes = {other_letter(notebook, 'quiz_shapes')!r}", first=True)
    return notebook


@attack("duplicates: answers before their cells", loses={"quiz_shapes"})
def answer_in_other_cell(notebook: NotebookNode) -> NotebookNode:
    """Sets a later quiz answer early and again late; its own cell holds a wrong one."""
    right = answer(notebook, "quiz_shapes")
    set_answer(notebook, "quiz_shapes", f"quiz_shapes = {other_letter(notebook, 'quiz_shapes')!r}")
    prepend_to_answer(notebook, "dot_scores", right)
    prepend_to_answer(notebook, "quiz_linear", right)
    return notebook


# --- sources ---------------------------------------------------------------------------------------------------------


def with_source(notebook: NotebookNode, source: object, name: str = "softmax") -> bytes:
    """The file with any JSON value as the source of a cell."""
    data = json.loads(content(notebook))
    for cell in data["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == name:
            cell["source"] = source
    return json.dumps(data).encode()


@attack("sources: list")
def source_as_list(notebook: NotebookNode) -> bytes:
    """Stores a source as a list of lines, as the format allows."""
    return with_source(notebook, answer(notebook, "softmax").splitlines(keepends=True))


@attack("sources: list", may_lose=SOFTMAX, unreadable=None)
def source_with_nulls(notebook: NotebookNode) -> bytes:
    """Stores a source as a list of lines, numbers, nulls and lists, which the format forbids."""
    return with_source(notebook, [*answer(notebook, "softmax").splitlines(keepends=True), None, 7, 1e400, ["x"], {}])


@attack("sources: list", loses=SOFTMAX, unreadable=None)
def source_is_number(notebook: NotebookNode) -> bytes:
    """Stores a number in place of a source."""
    return with_source(notebook, 7)


@attack("sources: missing fields", loses=SOFTMAX, unreadable=None)
def fields_missing(notebook: NotebookNode) -> bytes:
    """Lacks the source of one cell, the kind of another, and the outputs of all."""
    data = json.loads(content(notebook))
    for cell in data["cells"]:
        cell.pop("outputs", None)
        cell.pop("id", None)
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "softmax":
            del cell["source"]
    data["cells"].append({"metadata": {}})
    return json.dumps(data).encode()


@attack("sources: size", may_lose=SOFTMAX, unreadable=None)
def large_source(notebook: NotebookNode) -> NotebookNode:
    """Has 5 MB of comments in an answer."""
    # Either it is read, or the answer or the file is refused as too large.
    return prepend_to_answer(notebook, "softmax", "# " + "x" * 98 + "\n" + ("# " + "y" * 97 + "\n") * 50_000)


@attack("sources: size", unreadable=None)
def many_cells(notebook: NotebookNode) -> bytes:
    """Has 50,000 further cells."""
    data = json.loads(content(notebook))
    more = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    data["cells"] += [{**more, "id": f"n{number}", "source": f"cell_{number} = {number}"} for number in range(50_000)]
    return json.dumps(data).encode()


@attack("sources: depth", loses=SOFTMAX)
def deep_source(notebook: NotebookNode) -> NotebookNode:
    """Has an expression so deep that compilers and readers of syntax trees fail."""
    add_cell(notebook, "wide = " + "-" * 100_000 + "1", before="softmax")
    return set_answer(notebook, "softmax", "deep = " + "(" * 5000 + ")" * 5000 + "\nwide\n" + WRONG)


@attack("sources: depth", loses=SOFTMAX)
def deep_names(notebook: NotebookNode) -> NotebookNode:
    """Has a tree of 50,000 attributes and as many nested sums, in a helper cell too."""
    deep = "value = " + "1 + " * 50_000 + "1\nother = value" + ".real" * 50_000
    add_cell(notebook, deep, before="softmax")
    return set_answer(notebook, "softmax", f"{deep}\nvalue\n{WRONG}")


@attack("sources: magics", loses=SOFTMAX)
def magics_and_shell(notebook: NotebookNode) -> NotebookNode:
    """Uses magics and commands of a shell in the cell of an answer."""
    source = """
        %reset -f
        %autosave 1
        !touch /tmp/red-team-trace-shell ~/red-team-trace-shell ../red-team-trace-shell
        %logstart /tmp/red-team-trace-log
        found = !ls /
        %store found
        %load_ext storemagic
        get_ipython().system("touch /var/tmp/red-team-trace-shell")

        def softmax(x, dim):
            return x * 0
    """
    # %reset would take the other names away: the answers of other cells must not depend on it.
    return set_answer(notebook, "softmax", source.replace("        %reset -f\n", ""))


@attack("sources: cell magics", loses=SOFTMAX)
def cell_magic(notebook: NotebookNode) -> NotebookNode:
    """Runs a whole cell in another language, which leaves traces."""
    return set_answer(notebook, "softmax", "%%bash\ntouch /tmp/red-team-trace-bash ../red-team-trace-bash")


@attack("sources: syntax", loses={"softmax", "project", "attention_cost"})
def broken_syntax(notebook: NotebookNode) -> NotebookNode:
    """Has answers that do not compile: unfinished, wrongly indented, with an unknown encoding."""
    set_answer(notebook, "softmax", '"""never ends\ndef softmax(x, dim):\n    return x')
    set_answer(notebook, "project", "def project(x, a, b, c):\nreturn x")
    return set_answer(notebook, "attention_cost", "# -*- coding: rot13 -*-\nqrs nggragvba_pbfg(a, q): erghea 7, 7")


@attack("sources: released text imitated", loses=SOFTMAX)
def markers_in_source(notebook: NotebookNode) -> NotebookNode:
    """Has the markers of hidden tests and solutions in an answer, to confuse what strips or inserts them."""
    source = """
        ### BEGIN HIDDEN TESTS
        assert True
        ### END HIDDEN TESTS
        ### BEGIN SOLUTION
        def softmax(x, dim):
            return x * 0
        ### END SOLUTION
        ### BEGIN HIDDEN TESTS
    """
    return set_answer(notebook, "softmax", source)


@attack("sources: lone surrogates", may_lose=SOFTMAX, unreadable=None)
def lone_surrogates(notebook: NotebookNode) -> bytes:
    """Has half a character in a comment of a right answer, and in other places of the file."""
    # Python cannot compile it; a grader may as well drop the character.
    notebook.cells[0].source += "\ud800"
    notebook.metadata["authors"] = [{"name": "\udfff"}]
    return content(prepend_to_answer(notebook, "softmax", "# \ud800"))


@attack("sources: NUL", loses=SOFTMAX, unreadable=None)
def nul_in_source(notebook: NotebookNode) -> bytes:
    """Has NUL in the code of an answer, which Python does not compile."""
    return with_source(notebook, answer(notebook, "softmax").replace("    return", "    \x00return"))


@attack("sources: ends of lines")
def other_line_ends(notebook: NotebookNode) -> bytes:
    """Has lines that end as on Windows, and other characters that may end lines in a comment."""
    source = "# page\x0c line\u2028 paragraph\u2029 next\x85\n" + answer(notebook, "softmax")
    return with_source(notebook, source.replace("\n", "\r\n"))


# --- JSON ------------------------------------------------------------------------------------------------------------


@attack("JSON: depth", unreadable=True)
def deep_json(notebook: NotebookNode) -> bytes:
    """Is nested a hundred thousand times."""
    return b'{"cells": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@attack("JSON: depth", unreadable=True)
def deep_metadata(notebook: NotebookNode) -> bytes:
    """Has right answers, and metadata nested a hundred thousand times."""
    notebook.metadata["deep"] = "HERE"
    return content(notebook).replace(b'"HERE"', b'{"a":' * 100_000 + b"1" + b"}" * 100_000)


@attack("JSON: duplicated keys", loses=SOFTMAX, unreadable=None)
def duplicated_keys(notebook: NotebookNode) -> bytes:
    """Has two sources in one cell: the right one, then a wrong one. All usual readers take the last."""
    right = json.dumps(answer(notebook, "softmax"))
    data = content(wrong(notebook))
    last = b'"source": ' + json.dumps(answer(notebook, "softmax")).encode()
    assert data.count(last) == 1
    return data.replace(last, b'"source": ' + right.encode() + b", " + last)


@attack("JSON: duplicated keys", unreadable=None)
def duplicated_cells(notebook: NotebookNode) -> bytes:
    """Has two lists of cells: an empty one, then the real one. All usual readers take the last."""
    data = content(notebook)
    return b'{"cells": [], "cells": [{"cell_type": 7}], ' + data.lstrip()[1:]


@attack("JSON: numbers", unreadable=None)
def odd_numbers(notebook: NotebookNode) -> bytes:
    """Has numbers that JSON does not know or that are very long, where they do not matter."""
    notebook.metadata["odd"] = "HERE"
    numbers = b"[NaN, -Infinity, 1e999999, -0.0, " + b"9" * 100_000 + b"]"
    return content(notebook).replace(b'"HERE"', numbers)


@attack("JSON: byte order mark", unreadable=None)
def byte_order_mark(notebook: NotebookNode) -> bytes:
    """Begins with a byte order mark, as some editors on Windows write it."""
    return b"\xef\xbb\xbf" + content(notebook)


@attack("JSON: encoding", unreadable=None)
def utf16(notebook: NotebookNode) -> bytes:
    """Is encoded in UTF-16."""
    return json.dumps(notebook, ensure_ascii=False).encode("utf-16")


@attack("JSON: encoding", unreadable=True)
def not_utf8(notebook: NotebookNode) -> bytes:
    """Has bytes that are no UTF-8 within a source."""
    return content(prepend_to_answer(notebook, "softmax", "# HERE")).replace(b"# HERE", b"# \xff\xfe\xc3\x28")


@attack("JSON: NUL", unreadable=True)
def nul_bytes(notebook: NotebookNode) -> bytes:
    """Has NUL bytes before, within and after the text."""
    return b"\x00" + content(notebook).replace(b'"cells"', b'"ce\x00lls"', 1) + b"\x00" * 100


@attack("JSON: several", unreadable=True)
def two_documents(notebook: NotebookNode) -> bytes:
    """Is two notebooks in one file: a right one, then a wrong one."""
    return content(notebook) + b"\n" + content(wrong(notebook))


@attack("JSON: cut off", unreadable=True)
def cut_off(notebook: NotebookNode) -> bytes:
    """Ends in the middle, as after a broken upload."""
    data = content(notebook)
    return data[: len(data) // 2]


@attack("JSON: other files", unreadable=True)
def archive_bomb(notebook: NotebookNode) -> bytes:
    """Is a small archive that unpacks to 100 MB, under the name of a notebook."""
    import gzip

    return gzip.compress(b" " * 100_000_000, 1)


@attack("JSON: other files", unreadable=True)
def pickled_notebook(notebook: NotebookNode) -> bytes:
    """Is a pickle that runs a command where somebody loads it."""
    return b"cposix\nsystem\n(S'touch /tmp/red-team-trace-pickled'\ntR."


@attack("JSON: not a notebook", unreadable=True)
def cells_not_a_list(notebook: NotebookNode) -> bytes:
    """Has an object where the list of cells should be."""
    return json.dumps({**notebook, "cells": {"0": notebook.cells[0]}}).encode()

"""The commands for what comes after grading: `marks` for Canvas and Moodle, and `similar`."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import nbformat
import typer
from rich.console import Console

from autograder.collect import CollectError, collect
from autograder.exports import ExportError, Summary, write_canvas, write_moodle
from autograder.layout import Course, here

console = Console()
errors = Console(stderr=True)


class Kind(StrEnum):
    canvas = "canvas"
    moodle = "moodle"


class Column(StrEnum):
    username = "username"
    idnumber = "idnumber"
    email = "email"
    participant = "participant"


def register(app: typer.Typer, course: Callable[[], Course] = here) -> None:
    """Add the commands to the command line; `course` says which checkout they work on."""

    @app.command("marks")
    def marks_command(
        kind: Annotated[Kind, typer.Argument(help="Which system the file is for.")],
        to: Annotated[Path, typer.Option(help="The CSV file to write.", dir_okay=False)],
        chapter: Annotated[list[str] | None, typer.Option(help="A chapter, again for more; by default all.")] = None,
        roster: Annotated[
            Path | None, typer.Option(help="A gradebook that the system exported: its rows are kept.", exists=True)
        ] = None,
        id_column: Annotated[
            Column, typer.Option(help="Moodle: which column holds the students' ids.")
        ] = Column.username,
    ) -> None:
        """Write the marks of nbgrader's gradebook, after late penalties and marks by hand, for Canvas or Moodle."""
        try:
            if kind == Kind.canvas:
                summary = write_canvas(course(), to, chapter, roster)
            else:
                summary = write_moodle(course(), to, chapter, roster, id_column.value)
        except (ExportError, OSError) as error:
            errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from None
        _report(summary, to)

    @app.command("similar")
    def similar_command(
        chapter: Annotated[str, typer.Argument(help="The chapter, such as 02-self-attention.")],
        submissions: Annotated[
            Path | None, typer.Argument(help="A folder or zip file; by default what was graded last.")
        ] = None,
        threshold: Annotated[float, typer.Option(min=0, max=1, help="Leave out pairs that are less alike.")] = 0.5,
    ) -> None:
        """Rank pairs of submissions by what they share beyond the released notebook: a reason to look, no verdict."""
        from autograder.similarity import similar, write_similarity_report

        try:
            found = course().chapter(chapter)
            members = collect(submissions or course().grading / "submitted", found)
        except (CollectError, FileNotFoundError) as error:
            errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(2) from None
        with console.status(f"comparing {len(members)} submissions"):
            result = similar(members, nbformat.read(found.student_notebook, as_version=4), threshold)
            path = write_similarity_report(course(), chapter, result)
        for who, why in result.skipped:
            _say(f"{who}: not compared. {why}")
        for pair in result.pairs[:10]:
            _say(f"{pair.similarity:4.0%}  {pair.first}  {pair.second}")
        _say(f"{result.compared} submissions compared, {len(result.pairs)} pairs at least {threshold:.0%} alike.")
        _say(f"report: {path}")


def _report(summary: Summary, path: Path) -> None:
    for note in summary.notes:
        _say(note)
    if summary.unmatched:
        _say(f"not in the file: {', '.join(summary.unmatched)}")
    if summary.without_marks:
        _say(f"rows without marks: {', '.join(summary.without_marks)}")
    _say(f"{summary.rows} students written to {path}")


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)

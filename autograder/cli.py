"""The command line, `python -m autograder`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autograder import commands_class, commands_grade
from autograder.export import export
from autograder.layout import here
from autograder.publish import PublishError, SourceError, publish

app = typer.Typer(no_args_is_help=True, add_completion=False)
console = Console()
errors = Console(stderr=True)


@app.callback()
def main() -> None:
    """Publish the course, grade a class, read the report."""


@app.command("publish")
def publish_command(
    site: Annotated[bool, typer.Option(help="Build the site as well.")] = True,
) -> None:
    """Derive the reference package, the student notebooks and the site from solutions/. Builds only what changed."""
    course = here()
    try:
        with console.status("reading solutions/") as status:

            def report(line: str) -> None:
                console.print(line)
                status.update(line)

            changed = publish(course, report, site=site)
    except (SourceError, PublishError) as error:
        errors.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(1) from None
    console.print("published." if changed else "nothing to publish: everything is up to date.")
    if site:
        console.print(f"site:      {course.site / 'index.html'}", soft_wrap=True)
    console.print(f"notebooks: {course.root / 'chapters'}", soft_wrap=True)


@app.command("export")
def export_command(
    notebooks: Annotated[
        list[Path], typer.Argument(help="Completed notebooks, in order.", exists=True, dir_okay=False)
    ],
    to: Annotated[Path, typer.Option(help="The package to write; what was there is replaced.")] = Path("mytransformer"),
) -> None:
    """Build a package from the cells marked `#| export` of completed notebooks: a student's own mytransformer."""
    for module in export(notebooks, to):
        console.print(str(module))


commands_grade.register(app)
commands_class.register(app)

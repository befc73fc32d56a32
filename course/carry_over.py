"""What a notebook takes from the chapters before it: the student's own parts where they pass, else the reference."""

import contextlib
import importlib
import importlib.util
import io
import json
import re
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course import names

PACKAGE, REFERENCE = "mytransformer", "mytransformer_reference"
_running = False  # the tests of an earlier notebook may call this again


def use_earlier(chapter_id: str) -> None:
    """Make `import mytransformer` mean the student's own package, as far as it passes its visible tests.

    The package is made anew from the completed notebooks of the earlier chapters, in the folder beside this one's.
    A part that is missing or fails is taken from the reference. Says which is which.

    Args:
        chapter_id: the chapter that asks, such as ``"03-multi-head-attention"``.
    """
    global _running
    if _running:
        return
    notebooks = _earlier_notebooks(chapter_id)
    if not notebooks:
        print("Earlier parts come from the reference: there are no earlier notebooks beside this one.")
        return
    _running = True
    try:
        for line in _use(notebooks):
            print(line)
    finally:
        _running = False


def _earlier_notebooks(chapter_id: str) -> list[Path]:
    here = Path.cwd()
    folder = here.parent if here.name == chapter_id else here
    found = [path / f"{path.name.split('-', 1)[1]}.ipynb" for path in sorted(folder.glob("[0-9][0-9]-*"))]
    return [path for path in found if path.is_file() and path.parent.name < chapter_id]


def _use(notebooks: list[Path]) -> Iterator[str]:
    reference = _load_reference()
    package = notebooks[0].parent.parent / PACKAGE
    yield from _export(notebooks, package)
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]
    own = types.ModuleType(PACKAGE)
    own.__path__ = [str(package)]
    sys.modules[PACKAGE] = own
    modules = sorted(path.stem for path in package.glob("*.py") if path.stem != "__init__")
    cells = {path: _code_cells(path) for path in notebooks}
    # A module is judged before another one imports from it.
    for module in sorted(modules, key=lambda name: _first_chapter(name, cells)):
        yield from _take(module, cells, reference)


def _load_reference() -> types.ModuleType | None:
    """The reference package under another name; None where there is none, as on a student's machine."""
    spec = importlib.util.find_spec(PACKAGE) if PACKAGE not in sys.modules else sys.modules[PACKAGE].__spec__
    if spec is None or not spec.submodule_search_locations:
        return sys.modules.get(REFERENCE)
    package = types.ModuleType(REFERENCE)
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules[REFERENCE] = package
    return package


def _export(notebooks: list[Path], package: Path) -> Iterator[str]:
    """Build the package; a cell that is no Python is left out, and the rest goes on."""
    import tempfile

    from autograder.export import export

    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for path in notebooks:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            for cell in notebook["cells"]:
                source = "".join(cell["source"])
                if cell["cell_type"] == "code" and re.match(r"#\|\s*export\b", source) and not _compiles(source):
                    cell["source"] = ""
                    yield f"{path.parent.name}: a cell that is no Python was left out."
            copies.append(Path(folder) / path.name)
            copies[-1].write_text(json.dumps(notebook), encoding="utf-8")
        export(copies, package, dict(zip(copies, (path.name for path in notebooks), strict=True)))


def _take(module: str, cells: dict[Path, list[tuple[str, str]]], reference: types.ModuleType | None) -> Iterator[str]:
    """Load one module of the student's package, and replace what fails in it."""
    name = f"{PACKAGE}.{module}"
    try:
        loaded = importlib.import_module(name)
    except Exception as error:
        sys.modules.pop(name, None)
        if reference is None:
            raise
        loaded = importlib.import_module(f"{REFERENCE}.{module}")
        sys.modules[name] = loaded
        setattr(sys.modules[PACKAGE], module, loaded)
        yield f"{module}: reference, because yours cannot be imported: {type(error).__name__}: {error}"
        return
    for path, sources in cells.items():
        tests = {grade_id.removeprefix("test_"): source for grade_id, source in sources if grade_id.startswith("test_")}
        for part in [part for part in getattr(loaded, "__all__", []) if part in tests]:
            problem = _problem(loaded, part, tests[part], sources)
            if problem is None:
                yield f"{part}: yours"
                continue
            theirs = importlib.import_module(f"{REFERENCE}.{module}") if reference is not None else None
            if hasattr(theirs, part):
                setattr(loaded, part, getattr(theirs, part))
                yield f"{part}: reference, because yours fails its test ({problem})"
            else:
                yield f"{part}: yours, although it fails its test ({problem}). Repair it in {path.parent.name}."


def _problem(module: types.ModuleType, part: str, test: str, sources: list[tuple[str, str]]) -> str | None:
    """Run the visible test of one part. None when it passes, otherwise the first line of what it says."""
    given = [source if not grade_id else "" for grade_id, source in sources]
    namespace: dict[str, Any] = {"__name__": "__main__", "get_ipython": _NoMagic}
    own = {name: getattr(module, name) for name in getattr(module, "__all__", [])}
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            for place in sorted(names.needed(names.used(test), given)):
                exec(names.python(given[place]), namespace)
            namespace |= own
            exec(names.python(test), namespace)
    except Exception as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return None


def _code_cells(path: Path) -> list[tuple[str, str]]:
    """Grade id (empty for ordinary cells) and source of each code cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        (cell["metadata"].get("nbgrader", {}).get("grade_id", ""), "".join(cell["source"]))
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def _first_chapter(module: str, cells: dict[Path, list[tuple[str, str]]]) -> str:
    exporting = re.compile(rf"^#\|\s*(default_exp|export)\s+{module}\s*$", re.MULTILINE)
    found = [
        path.parent.name for path, sources in cells.items() if any(exporting.search(source) for _, source in sources)
    ]
    return min(found, default="")


def _compiles(source: str) -> bool:
    try:
        compile(source, "cell", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


class _NoMagic:
    """Magics have no meaning here."""

    def run_line_magic(self, *args: object) -> None: ...

    def run_cell_magic(self, *args: object) -> None: ...

    def system(self, *args: object) -> None: ...

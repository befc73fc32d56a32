"""Which `mytransformer` is used: the student's own, or the reference; module by module where a part is missing."""

import importlib
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path

NAME, REFERENCE = "mytransformer", "mytransformer_reference"
CHECKOUT = Path(__file__).parent.parent


class PackageError(RuntimeError):
    """No package can be used. The message says what to do."""


@dataclass
class Package:
    """A package in use. `module("model")` gives a module of it, or the reference's where it has none."""

    folder: Path
    fallback: Path | None
    said: dict[str, str] = field(default_factory=dict)  # module → where it comes from

    @property
    def is_reference(self) -> bool:
        return _is_reference(self.folder)

    def module(self, name: str) -> types.ModuleType:
        """A module, such as `model` or `training`.

        Raises:
            PackageError: neither the package nor a reference has it, or it cannot be imported.
        """
        try:
            found = importlib.import_module(f"{NAME}.{name}")
            self.said[name] = "reference" if self.is_reference else "yours"
            return found
        except Exception as error:
            if self.fallback is None:
                raise PackageError(
                    f"{self.folder}/{name}.py cannot be used: {type(error).__name__}: {error}"
                ) from error
            missing = isinstance(error, ModuleNotFoundError) and error.name == f"{NAME}.{name}"
            why = "yours is missing" if missing else f"yours cannot be imported: {type(error).__name__}: {error}"
        if REFERENCE not in sys.modules:
            package = types.ModuleType(REFERENCE)
            package.__path__ = [str(self.fallback)]
            sys.modules[REFERENCE] = package
        self.said[name] = f"reference, because {why}"
        return importlib.import_module(f"{REFERENCE}.{name}")

    def describe(self) -> str:
        whose = "the reference" if self.is_reference else "your own"
        parts = [f"; {name}: {where}" for name, where in self.said.items() if where.startswith("reference,")]
        return f"{whose} ({self.folder}){''.join(parts)}"


def use(which: str = "auto") -> Package:
    """Make `import mytransformer` mean one package.

    Args:
        which: a folder that holds the package's modules; "reference"; or "auto": `mytransformer/` in the current
            folder, then `chapters/mytransformer/`, which the notebooks write, then the reference.

    Raises:
        PackageError: there is none.
    """
    built = CHECKOUT / NAME
    reference = built if built.is_dir() and _is_reference(built) else None
    if which == "reference":
        if reference is None:
            raise PackageError("The reference package is not built. Run `make publish`.")
        folder = reference
    elif which == "auto":
        candidates = [Path.cwd() / NAME, CHECKOUT / "chapters" / NAME, built]
        own = [path for path in candidates if (path / "model.py").is_file() and not _is_reference(path)]
        if not own and reference is None:
            raise PackageError(
                "There is no package mytransformer: neither your own nor the reference. Run `make publish`, or export "
                "your notebooks: `python -m autograder export chapters/*/*.ipynb --to chapters/mytransformer`."
            )
        folder = own[0] if own else reference  # type: ignore[assignment]
    else:
        folder = Path(which).resolve()
        if not folder.is_dir() or not list(folder.glob("*.py")):
            raise PackageError(f"{which} is no package: it holds no Python files.")
    for name in [name for name in sys.modules if name.split(".")[0] in (NAME, REFERENCE)]:
        del sys.modules[name]
    package = types.ModuleType(NAME)
    package.__path__ = [str(folder)]
    sys.modules[NAME] = package
    return Package(folder, None if reference == folder else reference)


def _is_reference(folder: Path) -> bool:
    """The reference says in each file that it comes from `solutions/`."""
    first = next(iter(sorted(folder.glob("[a-z]*.py"))), None)
    return first is not None and first.read_text(encoding="utf-8").startswith("# Exported from solutions/")

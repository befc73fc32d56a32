"""Read `quiz.yml`: questions with computed numbers, in a variant for the page and another that is graded."""

import hashlib
import random
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from jinja2 import Environment, StrictUndefined

from autograder.portable import SourceError

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is seven times as fast


@dataclass(frozen=True)
class Option:
    """One option as it is shown: its letter, its text, and the sentence of feedback."""

    label: str
    text: str
    right: bool
    why: str


@dataclass(frozen=True)
class Rendered:
    """One question of one variant, with all numbers computed."""

    id: str
    items: tuple[str, ...]
    points: int
    stem: str
    options: tuple[Option, ...]

    @property
    def key(self) -> str:
        """The letters of the right options, in order."""
        return "".join(option.label for option in self.options if option.right)

    @property
    def multiple(self) -> bool:
        return len(self.key) > 1

    def as_yaml(self) -> str:
        """The question as an item of the body of the page's `{quiz}` directive."""
        options = [asdict(option) for option in self.options]
        shown = {"id": self.id, "stem": self.stem, "multiple": self.multiple, "options": options}
        return yaml.safe_dump([shown], allow_unicode=True, sort_keys=False, width=1000)


def load_quiz(path: Path, variant: str) -> list[Rendered]:
    """All questions of a file in one variant, ``"page"`` or ``"graded"``.

    Raises:
        SourceError: a question that is not as CONTRIBUTING.md says; names the file and the question.
    """
    try:
        questions = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except yaml.YAMLError as error:
        raise SourceError(f"{path}: {error}") from error
    if not isinstance(questions, list) or not all(isinstance(question, dict) for question in questions):
        raise SourceError(f"{path} is no list of questions.")
    rendered = []
    for question in questions:
        try:
            rendered.append(_render(question, variant))
        except Exception as error:
            raise SourceError(f"{path}: question {question.get('id', '?')!r}, variant {variant!r}: {error}") from error
    ids = [question.id for question in rendered]
    if len(set(ids)) != len(ids):
        raise SourceError(f"{path}: two questions have the same id")
    return rendered


def _render(question: dict, variant: str) -> Rendered:
    own = question["variants"][variant]
    names = {name: np.array(value) if isinstance(value, list) else value for name, value in own.items()}
    for name, expression in question.get("compute", {}).items():
        names[name] = eval(expression, {"np": np}, names)  # the author's own expressions, never a student's

    def fill(text: str) -> str:
        filled = _templates().from_string(str(text)).render(names).strip()
        if "$$" in filled or filled.count("$") % 2:
            problem = "dollar signs: one pair a formula, none within another (`matrix` brings its own)"
            raise ValueError(f"{problem}: {filled!r}")
        return filled

    chosen = [o for o in own.get("options", question.get("options", [])) if o.get("when", variant) == variant]
    if len(chosen) < 2:
        raise ValueError("fewer than two options")
    if missing := [o["text"] for o in chosen if not o.get("why")]:
        raise ValueError(f"no feedback (why) for the option {missing[0]!r}")
    seed = hashlib.sha256(f"{question['id']}/{variant}".encode()).digest()
    random.Random(int.from_bytes(seed[:4], "big")).shuffle(chosen)
    options = tuple(
        Option(label, fill(o["text"]), bool(o.get("right", False)), fill(o["why"]))
        for label, o in zip("abcdefghij", chosen, strict=False)
    )
    if len({option.text for option in options}) < len(options):
        raise ValueError("two options read the same")
    if not any(option.right for option in options):
        raise ValueError("no option is right")
    stem = fill(own.get("stem") or question["stem"])
    return Rendered(question["id"], tuple(question["items"]), int(question["points"]), stem, options)


@cache
def _templates() -> Environment:
    templates = Environment(undefined=StrictUndefined, autoescape=False)
    templates.filters.update(matrix=matrix, number=number)
    return templates


def number(value: float, decimals: int = 2) -> str:
    """A number with a fixed count of decimals, and never a negative zero."""
    return f"{round(float(value), decimals) + 0.0:.{decimals}f}"


def matrix(values: np.ndarray, decimals: int | None = None) -> str:
    """A matrix in LaTeX, within dollar signs; whole numbers as they are unless `decimals` says otherwise."""
    rows = np.atleast_2d(np.asarray(values))

    def cell(value: float) -> str:
        return number(value, decimals) if decimals is not None else f"{value:g}"

    body = r" \\ ".join(" & ".join(cell(value) for value in row) for row in rows)
    return rf"$\begin{{bmatrix}} {body} \end{{bmatrix}}$"

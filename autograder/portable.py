"""MyST to the plain Markdown that JupyterLab, VS Code and Colab understand."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from markdown_it import MarkdownIt
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pybtex.database import Entry, parse_file
from pybtex.exceptions import PybtexError

from autograder.layout import Course

if TYPE_CHECKING:
    from autograder.source import Exercise

ASIDES = {"note": "Note", "tip": "Tip", "warning": "Warning", "important": "Important"}
DIRECTIVE = re.compile(r"^\{([\w:-]+)\}\s*(.*)$")
ROLE_OR_CODE = re.compile(r"\{(?P<role>[a-z]+(?::[a-z]+)?)\}`(?P<content>[^`]+)`|(?P<ticks>`+)[\s\S]+?(?P=ticks)")
PARSER = MarkdownIt("commonmark").enable("table").use(colon_fence_plugin).use(dollarmath_plugin)


class SourceError(ValueError):
    """A chapter's source is not as CONTRIBUTING.md says. `publish` names the file and what to change."""


def split_blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Cut Markdown into `(directive, argument, body)`; plain text between directives has the directive ``""``."""
    lines = text.splitlines()
    done = 0
    for token in PARSER.parse(text):
        match = DIRECTIVE.match(token.info.strip()) if token.type in ("fence", "colon_fence") else None
        if match is None or token.map is None or token.level:
            continue
        start, end = token.map
        yield "", "", "\n".join(lines[done:start])
        yield match[1], match[2].strip(), token.content
        done = end
    yield "", "", "\n".join(lines[done:])


@dataclass
class Portable:
    """Translates a chapter. Links go to the published site, or to the built one beside the notebook."""

    course: Course
    hints: int = field(default=0, init=False)

    @cached_property
    def site(self) -> str:
        """`html.baseurl` of `_config.yml`; without one, the way from a notebook in `chapters/NN-name/`."""
        config = self.course.root / "_config.yml"
        settings = yaml.safe_load(config.read_text(encoding="utf-8")) if config.is_file() else {}
        return (settings.get("html", {}).get("baseurl") or "../../_build/html").rstrip("/")

    @cached_property
    def references(self) -> dict[str, Entry]:
        path = self.course.root / "book" / "references.bib"
        try:
            return dict(parse_file(str(path)).entries) if path.is_file() else {}
        except PybtexError as error:
            raise SourceError(f"{path}: {error}") from None

    def text(self, markdown: str) -> str:
        """Plain text, with directives and roles translated."""
        parts = (self.block(kind, argument, body, {}).strip("\n") for kind, argument, body in split_blocks(markdown))
        return "\n\n".join(part for part in parts if part)

    def block(self, kind: str, argument: str, body: str, exercises: dict[str, "Exercise"]) -> str:
        """One block of `split_blocks` as plain Markdown."""
        number = self.hints + 1 if kind == "hint" else 0  # hints in a row are numbered; anything else starts again
        translated = self._block(kind, argument, body, exercises, number)
        self.hints = number
        return translated

    def _block(self, kind: str, argument: str, body: str, exercises: dict[str, "Exercise"], hint: int) -> str:
        if kind == "":
            return self._roles(body)
        if kind == "math":
            return f"$$\n{body.strip()}\n$$"
        inner = self.text(body)
        if kind == "exercise":
            if argument not in exercises:
                raise SourceError(f"{{exercise}} {argument} has no cell with :exercise: {argument}")
            return f"#### Exercise: `{argument}`\n\n{exercises[argument].summary}\n\n{inner}"
        if kind == "hint":
            return f"<details><summary>Hint {hint}</summary>\n\n{inner}\n\n</details>"
        if kind == "erratum":
            link = f"{self.site}/book/errata.html#{argument.lower()}"
            return _quote(f"**In the lecture documents** ([{argument}]({link})). {inner}")
        if kind == "admonition":
            return _quote(f"**{self._roles(argument)}.** {inner}")
        if kind in ASIDES:
            return _quote(f"**{ASIDES[kind]}.** {inner}")
        raise SourceError(f"the directive {{{kind}}} is not one of those that CONTRIBUTING.md lists")

    def _roles(self, text: str) -> str:
        return ROLE_OR_CODE.sub(lambda m: self._role(m["role"], m["content"]) if m["role"] else m[0], text)

    def _role(self, name: str, content: str) -> str:
        if name in ("cite:p", "cite:t"):
            link = f"{self.site}/book/references.html"
            label = "; ".join(self._citation(key.strip(), name == "cite:t") for key in content.split(","))
            return f"[{label}]({link})" if name == "cite:t" else f"([{label}]({link}))"
        if name == "term":
            shown, _, target = content.partition("<")
            slug = re.sub(r"[^a-z0-9]+", "-", (target.rstrip(">") or shown).strip().lower()).strip("-")
            return f"[{html.escape(shown.strip(), quote=False)}]({self.site}/book/glossary.html#term-{slug})"
        if name == "doc":
            shown, _, target = content.partition("<")
            if not target:
                raise SourceError(f"a link needs words: {{doc}}`words <{content}>`")
            path = target.rstrip(">").strip().lstrip("/")
            return f"[{shown.strip()}]({self.site}/{path}.html)"
        raise SourceError(f"the role {{{name}}} is not one of those that CONTRIBUTING.md lists")

    def _citation(self, key: str, textual: bool) -> str:
        if key not in self.references:
            raise SourceError(f"no reference {key!r} in {Path('book/references.bib')}")
        entry = self.references[key]
        people = entry.persons.get("author") or entry.persons.get("editor") or []
        names = [" ".join(person.last_names).strip("{}") for person in people]
        who = names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
        year = entry.fields.get("year", "n.d.")
        return f"{who} ({year})" if textual else f"{who}, {year}"


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())

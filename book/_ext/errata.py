"""The directives `{erratum} E-NN` and `{errata-table}`, over `book/errata.yml`."""

from collections import Counter
from pathlib import Path

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FILE = "book/errata.yml"
FIELDS = {"id", "class", "chapter", "items", "title", "printed", "right"}


def load(file: Path) -> dict:
    """`classes`, `chapters` and `errata`. Raises `ValueError` where an erratum is incomplete or doubled."""
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    seen = set()
    for erratum in data["errata"]:
        name = erratum.get("id", "an erratum without id")
        if set(erratum) != FIELDS:
            raise ValueError(f"{file.name}: {name} has the fields {sorted(erratum)}, expected {sorted(FIELDS)}")
        if erratum["class"] not in data["classes"]:
            raise ValueError(f"{file.name}: {name} has the unknown class {erratum['class']!r}")
        if erratum["chapter"] not in data["chapters"]:
            raise ValueError(f"{file.name}: {name} has the unknown chapter {erratum['chapter']!r}")
        if name in seen:
            raise ValueError(f"{file.name}: {name} occurs twice")
        seen.add(name)
    return data


class ErrataDirective(SphinxDirective):
    def load(self) -> dict:
        file = Path(self.env.srcdir) / FILE
        self.env.note_dependency(str(file))
        self.env.note_dependency(__file__)
        try:
            return load(file)
        except ValueError as problem:
            raise self.error(str(problem)) from problem

    def parse(self, text: str, parent: nodes.Element) -> None:
        self.state.nested_parse(StringList(text.splitlines(), source=FILE), self.content_offset, parent)

    def parse_line(self, text: str, parent: nodes.Element) -> None:
        found, messages = self.state.inline_text(text, self.lineno)
        parent += found
        parent += messages

    def link(self, docname: str, anchor: str, text: str) -> nodes.reference:
        """A link that is written out at the end, when the address of every page is known."""
        target = addnodes.pending_xref(
            "", refdomain="std", reftype="ref", reftarget=anchor, refexplicit=True, refdoc=self.env.docname
        )
        target += nodes.inline("", text)
        return target


class Erratum(ErrataDirective):
    """A box beside the text: what a lecture document got wrong, in the author's words."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        name = self.arguments[0].strip()
        if name not in {erratum["id"] for erratum in self.load()["errata"]}:
            raise self.error(f"There is no erratum {name!r} in {FILE}")
        box = nodes.admonition(classes=["erratum"])
        box += nodes.title("", "In the lecture documents")
        self.state.nested_parse(self.content, self.content_offset, box)
        box += nodes.paragraph("", "", self.link("book/errata", name.lower(), f"Erratum {name}"))
        return [box]


class ErrataTable(ErrataDirective):
    """All errata by chapter, each with the anchor `e-nn`, after a count by class."""

    def run(self) -> list[nodes.Node]:
        data = self.load()
        self.env.note_dependency(str(Path(self.env.srcdir) / "_toc.yml"))
        return [self.count(data), *(self.chapter(chapter, data) for chapter in data["chapters"])]

    def count(self, data: dict) -> nodes.Node:
        number = Counter(erratum["class"] for erratum in data["errata"])
        table = nodes.table(classes=["errata-count"])
        group = nodes.tgroup(cols=3)
        table += group
        group += [nodes.colspec(colwidth=width) for width in (2, 7, 1)]
        head, body = nodes.thead(), nodes.tbody()
        group += [head, body]
        rows = [(f"{key}: {text['name']}", text["means"], str(number[key])) for key, text in data["classes"].items()]
        rows = [("Class", "Meaning", "Errata"), *rows, ("All", "", str(len(data["errata"])))]
        for index, row in enumerate(rows):
            line = nodes.row()
            for text in row:
                line += nodes.entry("", nodes.paragraph("", text) if text else nodes.paragraph())
            (body if index else head).append(line)
        return table

    def chapter(self, chapter: str, data: dict) -> nodes.Node:
        errata = [erratum for erratum in data["errata"] if erratum["chapter"] == chapter]
        section = nodes.section(ids=[f"errata-{chapter}"], names=[f"errata-{chapter}"])
        section += nodes.title("", data["chapters"][chapter])
        docname = f"chapters/{chapter}/{chapter.split('-', 1)[1]}"
        where = nodes.paragraph("", "", classes=["errata-chapter"])
        if docname in self.env.found_docs:
            link = addnodes.pending_xref(
                "", refdomain="std", reftype="doc", reftarget=f"/{docname}", refexplicit=True, refdoc=self.env.docname
            )
            link += nodes.inline("", f"Chapter {int(chapter[:2])}")
            where += link
        else:
            where += nodes.Text(f"Chapter {int(chapter[:2])}, in preparation")
        many = "1 erratum" if len(errata) == 1 else f"{len(errata)} errata"
        where += nodes.Text(f". {many}." if errata else ". No errata.")
        section += where
        section += [self.entry(erratum, data) for erratum in errata]
        return section

    def entry(self, erratum: dict, data: dict) -> nodes.Node:
        anchor = erratum["id"].lower()
        section = nodes.section(ids=[anchor], names=[anchor], classes=["erratum-entry"])
        title = nodes.title("", f"{erratum['id']}: ")
        self.parse_line(erratum["title"], title)
        section += title
        kind = data["classes"][erratum["class"]]["name"]
        where = ", ".join(erratum["items"])
        section += nodes.paragraph("", f"Class {erratum['class']}, {kind}. In {where}.", classes=["erratum-where"])
        for heading, text in (("Printed", erratum["printed"]), ("Right", erratum["right"])):
            block = nodes.container(classes=[f"erratum-{heading.lower()}"])
            block += nodes.paragraph("", "", nodes.strong("", heading))
            self.parse(text, block)
            section += block
        # A label of Sphinx, so that `{erratum}` can link here from any page.
        standard = self.env.get_domain("std")
        standard.labels[anchor] = (self.env.docname, anchor, erratum["id"])
        standard.anonlabels[anchor] = (self.env.docname, anchor)
        return section


def setup(app: Sphinx) -> dict:
    app.add_directive("erratum", Erratum)
    app.add_directive("errata-table", ErrataTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""The directives `{exercise} NAME` and `{hint}`."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective


class Exercise(SphinxDirective):
    """The task of an exercise, in a box that a link can name (`#exercise-NAME`)."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0].strip()
        box = nodes.admonition(classes=["exercise"], ids=[nodes.make_id(f"exercise-{name}")])
        box += nodes.title("", "", nodes.Text("Exercise: "), nodes.literal(name, name))
        self.state.nested_parse(self.content, self.content_offset, box)
        return [box]


class hint_box(nodes.General, nodes.Element):
    """One level of help, closed until the reader opens it."""


class Hint(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        box = hint_box()
        self.state.nested_parse(self.content, self.content_offset, box)
        return [box]


class NumberHints(SphinxTransform):
    """Numbers hints that stand in a row: 1 of 3, 2 of 3, 3 of 3."""

    default_priority = 500

    def apply(self) -> None:
        for first in list(self.document.findall(hint_box)):
            if "number" in first:
                continue
            row = [first]
            while isinstance(following := row[-1].next_node(descend=False, siblings=True), hint_box):
                row.append(following)
            for number, box in enumerate(row, 1):
                box["number"], box["of"] = number, len(row)


def visit_hint(self, node: hint_box) -> None:
    summary = f"Hint {node['number']} of {node['of']}" if node["of"] > 1 else "Hint"
    self.body.append(f'<details class="hint"><summary>{summary}</summary>\n')


def depart_hint(self, node: hint_box) -> None:
    self.body.append("</details>\n")


def setup(app: Sphinx) -> dict:
    app.add_node(hint_box, html=(visit_hint, depart_hint))
    app.add_directive("exercise", Exercise, override=True)
    app.add_directive("hint", Hint, override=True)  # instead of docutils' own admonition
    app.add_transform(NumberHints)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

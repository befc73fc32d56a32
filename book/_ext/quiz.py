"""The directive `{quiz}`: questions for practice, usable with a keyboard, a screen reader, and without JavaScript.

Its body is YAML or JSON, a list of questions `{id, stem, multiple, options: [{label, text, right, why}]}`, in which
`stem`, `text` and `why` are MyST. Publishing writes it from the chapter's `quiz.yml`.
"""

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

QUESTION = {"id", "stem", "multiple", "options"}
OPTION = {"label", "text", "right", "why"}


class quiz_question(nodes.General, nodes.Element):
    """Holds a stem, options, the line for the result, and the reasons."""


class quiz_stem(nodes.General, nodes.Element):
    pass


class quiz_option(nodes.General, nodes.Element):
    pass


class quiz_reasons(nodes.General, nodes.Element):
    pass


class quiz_reason(nodes.General, nodes.Element):
    pass


def check(questions: object) -> list[dict]:
    """The questions, when they are complete. Raises `ValueError` with the question's id otherwise."""
    if not isinstance(questions, list) or not questions:
        raise ValueError("a quiz is a list of questions")
    seen = set()
    for question in questions:
        if not isinstance(question, dict) or not set(question) >= QUESTION:
            raise ValueError(f"a question has the fields {sorted(QUESTION)}, got {question!r:.120}")
        name, options = question["id"], question["options"]
        if name in seen:
            raise ValueError(f"question {name!r} occurs twice")
        seen.add(name)
        for option in options:
            if not isinstance(option, dict) or not set(option) >= OPTION:
                raise ValueError(f"question {name!r}: an option has the fields {sorted(OPTION)}, got {option!r:.120}")
        right = sum(bool(option["right"]) for option in options)
        if right == 0 or (right > 1 and not question["multiple"]):
            raise ValueError(f"question {name!r}: {right} right options with multiple: {question['multiple']}")
    return questions


class Quiz(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        self.env.note_dependency(__file__)
        try:
            questions = check(yaml.safe_load("\n".join(self.content)))
        except (ValueError, yaml.YAMLError) as problem:
            raise self.error(f"quiz: {problem}") from problem
        return [self.question(number, question) for number, question in enumerate(questions, 1)]

    def parse(self, text: str, parent: nodes.Element, *, inline: bool = False) -> nodes.Element:
        """MyST into `parent`. With `inline`, the only paragraph gives its content (a label holds no paragraph)."""
        self.state.nested_parse(StringList(str(text).splitlines(), source="quiz"), self.content_offset, parent)
        if inline and len(parent) == 1 and isinstance(parent[0], nodes.paragraph):
            parent[:] = parent[0].children
        return parent

    def question(self, number: int, question: dict) -> nodes.Element:
        anchor = nodes.make_id(f"quiz-{question['id']}")
        box = quiz_question(ids=[anchor], number=number, multiple=bool(question["multiple"]))
        box += self.parse(question["stem"], quiz_stem(anchor=anchor))
        for option in question["options"]:
            shared = {"anchor": anchor, "label": str(option["label"]), "right": bool(option["right"])}
            box += self.parse(option["text"], quiz_option(multiple=bool(question["multiple"]), **shared), inline=True)
        reasons = quiz_reasons(anchor=anchor)
        for option in question["options"]:
            shared = {"anchor": anchor, "label": str(option["label"]), "right": bool(option["right"])}
            reasons += self.parse(option["why"], quiz_reason(**shared), inline=True)
        box += reasons
        return box


def visit_question(self, node: quiz_question) -> None:
    anchor = node["ids"][0]
    choose = "choose all that are right" if node["multiple"] else "choose one"
    self.body.append(
        f'<fieldset class="quiz" id="{anchor}" aria-describedby="{anchor}-stem">'
        f'<legend>Question {node["number"]} <span class="quiz-choose">({choose})</span></legend>\n'
    )


def depart_question(self, node: quiz_question) -> None:
    self.body.append("</fieldset>\n")


def visit_stem(self, node: quiz_stem) -> None:
    self.body.append(f'<div class="quiz-stem" id="{node["anchor"]}-stem">')


def depart_stem(self, node: quiz_stem) -> None:
    self.body.append("</div>\n")


def visit_option(self, node: quiz_option) -> None:
    kind = "checkbox" if node["multiple"] else "radio"
    right = " data-right" if node["right"] else ""
    label = self.attval(node["label"])
    self.body.append(
        f'<label class="quiz-option"><input type="{kind}" name="{node["anchor"]}" value="{label}"{right}>'
        f'<span class="quiz-label">{label})</span> <span class="quiz-text">'
    )


def depart_option(self, node: quiz_option) -> None:
    self.body.append("</span></label>\n")


def visit_reasons(self, node: quiz_reasons) -> None:
    self.body.append(
        '<div class="quiz-check"><button type="button" hidden>Check</button>'
        '<div class="quiz-result" role="status"></div></div>\n'
        '<details class="quiz-reasons"><summary>Answer and reasons</summary>\n<ul>\n'
    )


def depart_reasons(self, node: quiz_reasons) -> None:
    self.body.append("</ul>\n</details>\n")


def visit_reason(self, node: quiz_reason) -> None:
    verdict = "Right." if node["right"] else "Wrong."
    label = self.attval(node["label"])
    self.body.append(f'<li data-option="{label}"><strong>{label}) {verdict}</strong> ')


def depart_reason(self, node: quiz_reason) -> None:
    self.body.append("</li>\n")


def setup(app: Sphinx) -> dict:
    app.add_node(quiz_question, html=(visit_question, depart_question))
    app.add_node(quiz_stem, html=(visit_stem, depart_stem))
    app.add_node(quiz_option, html=(visit_option, depart_option))
    app.add_node(quiz_reasons, html=(visit_reasons, depart_reasons))
    app.add_node(quiz_reason, html=(visit_reason, depart_reason))
    app.add_directive("quiz", Quiz)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

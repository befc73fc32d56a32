"""A chapter of one exercise without PyTorch, so that tests of publishing take seconds."""

from pathlib import Path

TINY_CHAPTER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A tiny chapter

Some *text* with $x$ and `{term}` in code. See {cite:p}`vaswani2017attention` and {term}`query`.

:::{note}
An aside with
```{math}
x = 1
```
:::

```{code-cell}
#| default_exp tiny
```

```{code-cell}
from course.checks import check_choice
```

## Double

:::{exercise} double
Return twice `x`.
:::

:::{hint}
Think of addition.
:::

:::{hint}
Add $x$ to itself.
:::

:::{erratum} E-03
A story.
:::

```{code-cell}
:exercise: double
:difficulty: 1
:minutes: 2
#| export
def double(x):
    \"\"\"Twice x.\"\"\"
    ### BEGIN SOLUTION
    secret_of_double = 2
    return secret_of_double * x
    ### END SOLUTION
```

```{code-cell}
:tests: double
:points: 2
# Twice one is two.
assert double(1) == 2, "double(1) should be 2"
### BEGIN HIDDEN TESTS
assert double(1234) == 2468, "double should hold for other numbers, too"
### END HIDDEN TESTS
```

```{code-cell}
:alt: the answer
print(double(21))
```

## Quiz

```{quiz}
```
"""

TINY_QUIZ = r"""
- id: q-one
  items: [S0-77]
  points: 1
  variants:
    page:   {Q: [[1, 0], [0, 1]], K: [[1, 1], [1, 0]]}
    graded: {Q: [[1, 0], [0, 1]], K: [[1, 1], [0, 1]]}
  compute:
    right: Q @ K.T / np.sqrt(2)
    twice: Q @ K.T * 2
  stem: |
    Given {{ Q | matrix }} and {{ K | matrix }}: what is $QK^T/\sqrt{2}$?
  options:
    - {text: "{{ right | matrix(2) }}", right: true, why: "The key of this variant."}
    - {text: "{{ twice | matrix(2) }}", why: "Multiplied instead of divided."}
"""

REFERENCES = """@inproceedings{vaswani2017attention,
  title = {Attention Is All You Need},
  author = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki},
  booktitle = {NeurIPS},
  year = {2017}
}
"""


def write_tiny_source(root: Path) -> Path:
    """A course folder with one chapter, `01-tiny`."""
    chapter = root / "solutions" / "01-tiny"
    chapter.mkdir(parents=True)
    (chapter / "tiny.md").write_text(TINY_CHAPTER, encoding="utf-8")
    (chapter / "quiz.yml").write_text(TINY_QUIZ, encoding="utf-8")
    (root / "book").mkdir()
    (root / "book" / "references.bib").write_text(REFERENCES, encoding="utf-8")
    return root

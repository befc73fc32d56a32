"""How pictures and tables look in every chapter. Each function draws one figure and returns nothing."""

from collections.abc import Sequence
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from torch import Tensor

FONT = 10
INK = "#1a1a1a"
COLOURS = ["#0b5394", "#b45f06", "#38761d", "#741b47"]  # each at least 4.5:1 on white
LINES = ["-", "--", "-.", ":"]


def table(matrix: Tensor, rows: Sequence[str], columns: Sequence[str] | None = None, decimals: int = 2) -> None:
    """Print a matrix with a name before each row (and above each column)."""
    cells = [[f"{number:.{decimals}f}" for number in row] for row in matrix.detach().tolist()]
    label = max(len(name) for name in rows)
    width = max([len(cell) for row in cells for cell in row] + [len(name) for name in columns or []])
    if columns is not None:
        print(" " * label, *(name.rjust(width) for name in columns), sep="  ")
    for name, row in zip(rows, cells, strict=True):
        print(name.ljust(label), *(cell.rjust(width) for cell in row), sep="  ")


def heat_map(
    matrix: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    row_label: str = "",
    column_label: str = "",
    decimals: int = 2,
    marked: Tensor | None = None,
) -> None:
    """A matrix as coloured cells with their values.

    Args:
        matrix: (rows, columns).
        marked: boolean, same shape; True draws a thick frame round the cell.
    """
    values = matrix.detach().double()
    low, high = values.min().item(), values.max().item()
    span = (high - low) or 1.0
    longest = max(len(label) for label in [*columns, f"{low:.{decimals}f}", f"{high:.{decimals}f}"])
    cell = min(0.95, max(0.55, 0.15 + 0.085 * longest))
    axes = canvas(1.9 + cell * len(columns), 1.6 + 0.55 * len(rows))
    image = axes.imshow(values, cmap="Blues", vmin=low - 0.05 * span, vmax=high + 0.15 * span, aspect="auto")
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            colour = "white" if luminance(image.to_rgba(value)) < 0.2 else INK
            axes.text(j, i, f"{value:.{decimals}f}", ha="center", va="center", fontsize=FONT, color=colour)
            if marked is not None and marked[i, j]:
                frame = (j - 0.46, i - 0.44)
                for edge, width in [("white", 5.5), ("#c00000", 2.5)]:  # white keeps the red apart from dark cells
                    axes.add_patch(Rectangle(frame, 0.92, 0.88, fill=False, edgecolor=edge, linewidth=width))
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0, labelsize=FONT)
    axes.spines[:].set_visible(False)
    finish(axes, title, column_label, row_label)


def lines(
    x: Sequence[float],
    curves: dict[str, Sequence[float]],
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    legend_beside: bool = False,
) -> None:
    """One line for each entry of `curves`, told apart by colour, dash and marker."""
    axes = canvas(7.4 if legend_beside else 6.0, 3.6)
    for (name, y), colour, dash, marker in zip(curves.items(), COLOURS, LINES, "osd^", strict=False):
        axes.plot(x, y, dash, color=colour, marker=marker, markersize=5, linewidth=1.8, label=name)
    if log_x:
        axes.set_xscale("log", base=2)
        axes.set_xticks(x, [str(value) for value in x])
        axes.minorticks_off()
    elif all(isinstance(value, int) for value in x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if log_y:
        axes.set_yscale("log")
    axes.grid(color="#d9d9d9", linewidth=0.6)
    if legend_beside:
        axes.legend(fontsize=FONT, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    else:
        axes.legend(fontsize=FONT, frameon=False)
    axes.tick_params(labelsize=FONT)
    finish(axes, title, x_label, y_label)


def grids(matrices: Sequence[tuple[str, int, int]], signs: Sequence[str], title: str) -> None:
    """Matrices drawn as grids of cells, side by side, with `signs` between them.

    Args:
        matrices: name, rows and columns of each.
    """
    axes = canvas(1.2 * len(matrices) + 0.5 * sum(columns for _, _, columns in matrices), 2.6)
    left, middle = 0.0, 1.5
    for index, (name, rows, columns) in enumerate(matrices):
        for i in range(rows):
            for j in range(columns):
                cell = (left + j, middle + rows / 2 - i - 1)
                axes.add_patch(Rectangle(cell, 1, 1, facecolor="#cfe2f3", edgecolor=INK, linewidth=1))
        axes.text(left + columns / 2, middle + 1.7, name, ha="center", va="bottom", fontsize=FONT + 1, color=INK)
        axes.text(
            left + columns / 2, middle - 1.7, f"{rows} × {columns}", ha="center", va="top", fontsize=FONT, color=INK
        )
        left += columns + 0.9
        if index < len(signs):
            axes.text(left, middle, signs[index], ha="center", va="center", fontsize=FONT + 4, color=INK)
        left += 0.9
    axes.set_xlim(-0.3, left - 1.3)
    axes.set_ylim(-1.2, 4.0)
    axes.set_aspect("equal")
    axes.axis("off")
    finish(axes, title)


def flow(boxes: dict[str, tuple[float, float, str]], arrows: Sequence[tuple[str, str]], title: str) -> None:
    """Boxes anywhere, joined by straight arrows.

    Args:
        boxes: key → (x, y, text), the middle of the box in inches.
        arrows: pairs of keys, from and to.
    """
    x, y = [x for x, _, _ in boxes.values()], [y for _, y, _ in boxes.values()]
    axes = sheet(min(x) - 1.1, max(x) + 1.1, min(y) - 0.4, max(y) + 0.4)
    drawn = {key: box(axes, *place) for key, place in boxes.items()}
    for start, end in arrows:
        arrow(axes, [boxes[start][:2], boxes[end][:2]], between=[drawn[start], drawn[end]])
    finish(axes, title)


def stacks(
    columns: Sequence[tuple[str, Sequence[str], Sequence[tuple[int, int]]]],
    title: str,
    links: Sequence[tuple[tuple[int, int], tuple[int, int], str]] = (),
    frames: Sequence[tuple[int, int, int, str]] = (),
    pale: Sequence[int] = (),
) -> None:
    """Boxes above one another in columns, read from bottom to top, with residual connections at the right.

    Args:
        columns: name, the texts of the boxes from bottom to top ("" leaves a gap), and residual connections as pairs of
            box numbers: the first leaves the arrow above that box, the second is where it arrives.
        links: arrows to a column further right: from (column, box), to (column, box), and a text beside the arrow.
        frames: (column, first box, last box, text): a dashed frame round these boxes, under the text.
        pale: columns drawn in grey.
    """
    texts = [text for _, boxes, _ in columns for text in boxes]
    width, step, side = max(2.3, *(text_width(text) for text in texts)), 0.72, 0.32
    apart = width + 1.5
    tallest = max(len(boxes) for _, boxes, _ in columns)
    top = tallest * step - (0.0 if any(name for name, _, _ in columns) else 0.35)
    axes = sheet(-width / 2 - 0.3, (len(columns) - 1) * apart + width / 2 + 0.6, -0.35, top)
    drawn = {}
    for number, (name, boxes, skips) in enumerate(columns):
        x = number * apart
        for index, text in enumerate(boxes):
            if not text:
                continue
            drawn[number, index] = box(axes, x, index * step, text, width, number in pale)
            if (number, index - 1) in drawn:
                between = [drawn[number, index - 1], drawn[number, index]]
                arrow(axes, [(x, (index - 1) * step), (x, index * step)], between=between)
        for start, end in skips:
            low, right = start * step + 0.27, x + width / 2
            points = [(x, low), (right + side, low), (right + side, end * step), (right, end * step)]
            arrow(axes, points, COLOURS[1])
        axes.text(x, tallest * step - 0.2, name, ha="center", va="center", fontsize=FONT + 1, color=INK, weight="bold")
    for number, first, last, text in frames:
        left, low, high = number * apart - width / 2 - 0.2, first * step - 0.49, last * step + 0.3
        frame = Rectangle((left, low), width + side + 0.33, high - low, fill=False, edgecolor=INK, linestyle="--")
        axes.add_patch(frame)
        axes.text(left, high + 0.04, text, ha="left", va="bottom", fontsize=FONT, color=INK)
    for (start, low), (end, high), text in links:
        left, right = start * apart + width / 2, end * apart - width / 2
        points = [(left, low * step), (right - 0.6, low * step), (right - 0.6, high * step), (right, high * step)]
        arrow(axes, points)
        axes.text(left + 0.1, low * step + 0.05, text, ha="left", va="bottom", fontsize=FONT, color=INK)
    finish(axes, title)


def box(axes: Axes, x: float, y: float, text: str, width: float = 0.0, pale: bool = False) -> FancyBboxPatch:
    """A text in a rounded box, at least `width` wide. Boxes of a normalisation are yellow."""
    width, height = max(width, text_width(text)), 0.2 + 0.18 * (1 + text.count("\n"))
    fill, edge, ink = ("#f4f4f4", "#767676", "#595959") if pale else ("#e8f0fa", COLOURS[0], INK)
    if "Norm" in text and not pale:
        fill = "#fff2cc"
    shape = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height,
        boxstyle="round,pad=0,rounding_size=0.08", facecolor=fill, edgecolor=edge,
    )  # fmt: skip
    axes.add_patch(shape)
    axes.text(x, y, text, ha="center", va="center", fontsize=FONT, color=ink)
    return shape


def text_width(text: str) -> float:
    """About how many inches a box needs for its longest line."""
    return 0.25 + 0.084 * max(len(line) for line in text.split("\n"))


def arrow(
    axes: Axes, points: Sequence[tuple[float, float]], colour: str = INK, between: Sequence[FancyBboxPatch] = ()
) -> None:
    """A line through the points, with an arrowhead at the last one. A straight one may run from box to box."""
    draw = partial(
        FancyArrowPatch, arrowstyle="-|>", mutation_scale=13, color=colour, linewidth=1.2, shrinkA=0, shrinkB=0
    )
    if between:
        axes.add_patch(draw(*points, patchA=between[0], patchB=between[1]))
    else:
        axes.add_patch(draw(path=Path(points)))


def sheet(left: float, right: float, bottom: float, top: float) -> Axes:
    """An empty canvas with these limits, on which one unit is one inch."""
    axes = canvas(right - left, top - bottom + 0.35)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.axis("off")
    return axes


def canvas(width: float, height: float) -> Axes:
    """White on purpose: dark pages keep the contrast that the colours were chosen for."""
    return plt.subplots(figsize=(width, height), facecolor="white", layout="constrained")[1]


def finish(axes: Axes, title: str, x_label: str = "", y_label: str = "") -> None:
    axes.set_title(title, fontsize=FONT + 1, color=INK)
    axes.set_xlabel(x_label, fontsize=FONT, color=INK)
    axes.set_ylabel(y_label, fontsize=FONT, color=INK)


def luminance(colour: ArrayLike) -> float:
    """Relative luminance of an RGB colour as in WCAG: 0 is black, 1 is white."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in np.asarray(colour)[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def heat_maps(
    matrices: Sequence[Tensor],
    rows: Sequence[str],
    columns: Sequence[str],
    titles: Sequence[str],
    title: str,
    decimals: int = 2,
    per_row: int = 3,
) -> None:
    """Matrices of the same shape side by side, with one colour scale, each with its own title.

    Args:
        matrices: each (rows, columns).
        per_row: how many stand beside each other; the others follow below.
    """
    values = [matrix.detach().double() for matrix in matrices]
    low, high = min(m.min().item() for m in values), max(m.max().item() for m in values)
    span = (high - low) or 1.0
    across = min(per_row, len(values))
    down = -(-len(values) // across)
    size = (1.0 + (0.4 + 0.56 * len(columns)) * across, 0.6 + (0.9 + 0.45 * len(rows)) * down)
    figure, grid = plt.subplots(down, across, figsize=size, facecolor="white", layout="constrained", squeeze=False)
    for axes in grid.flat[len(values) :]:
        axes.axis("off")
    for axes, matrix, name in zip(grid.flat, values, titles, strict=False):
        image = axes.imshow(matrix, cmap="Blues", vmin=low - 0.05 * span, vmax=high + 0.15 * span, aspect="auto")
        for i, row in enumerate(matrix.tolist()):
            for j, value in enumerate(row):
                colour = "white" if luminance(image.to_rgba(value)) < 0.2 else INK
                axes.text(j, i, f"{value:.{decimals}f}", ha="center", va="center", fontsize=FONT - 1, color=colour)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows if axes in grid[:, 0] else [""] * len(rows))
        axes.tick_params(length=0, labelsize=FONT)
        axes.spines[:].set_visible(False)
        axes.set_title(name, fontsize=FONT, color=INK)
    figure.suptitle(title, fontsize=FONT + 1, color=INK)


def split_and_merge(sequence: int, d_model: int, num_heads: int, title: str) -> None:
    """How the features of each token are divided among heads, and put side by side again. One colour a head."""
    d_k = d_model // num_heads
    shades = ["#cfe2f3", "#fce5cd", "#d9ead3", "#ead1dc"]
    axes = canvas(9.0, 1.0 + 0.42 * num_heads * (sequence + 1))
    height = num_heads * (sequence + 1.0) - 1.0

    def block(left: float, top: float, head: int, first_column: int) -> None:
        for t in range(sequence):
            for c in range(d_k):
                axes.add_patch(
                    Rectangle((left + c, top - t - 1), 1, 1, facecolor=shades[head % 4], edgecolor=INK, linewidth=0.8)
                )
                name = f"{t + 1}.{first_column + c + 1}"
                axes.text(left + c + 0.5, top - t - 0.5, name, ha="center", va="center", fontsize=FONT - 2, color=INK)

    middle = (height + sequence) / 2
    split, merged = d_model + 5.0, d_model + d_k + 10.0
    for head in range(num_heads):
        block(head * d_k, middle, head, head * d_k)
        block(split, height - head * (sequence + 1), head, head * d_k)
        block(merged + head * d_k, middle, head, head * d_k)
        level = height - head * (sequence + 1) - sequence / 2
        for start, end in [
            ((d_model + 0.3, height / 2), (split - 0.3, level)),
            ((split + d_k + 0.3, level), (merged - 0.3, height / 2)),
        ]:
            arrow(axes, [start, end])
        above = (split + d_k / 2, level + sequence / 2 + 0.1)
        axes.text(*above, f"head {head + 1}", ha="center", va="bottom", fontsize=FONT - 1, color=INK)
    for x, text in [(d_model / 2, "(sequence, d_model)"), (merged + d_model / 2, "(sequence, d_model)")]:
        axes.text(x, middle - sequence - 0.3, text, ha="center", va="top", fontsize=FONT - 1, color=INK)
    axes.text(split + d_k / 2, -0.3, "(num_heads, sequence, d_k)", ha="center", va="top", fontsize=FONT - 1, color=INK)
    for x, text in [(d_model + 2.6, "split_heads"), (split + d_k + 2.4, "merge_heads")]:
        axes.text(x, height + 0.1, text, ha="center", va="bottom", fontsize=FONT, color=INK)
    axes.set_xlim(-0.3, merged + d_model + 0.3)
    axes.set_ylim(-1.3, height + 1.2)
    axes.axis("off")
    finish(axes, title)


def colour_map(
    matrix: Tensor, title: str, x_label: str, y_label: str, signed: bool = False, bar_label: str = "value"
) -> None:
    """A large matrix as colours with a colour bar: rows from top to bottom, columns from left to right.

    Args:
        signed: blue for negative, white for 0, red for positive values.
    """
    values = matrix.detach().double()
    limit = values.abs().max().item()
    axes = canvas(7.0, 3.8)
    colours, low, high = ("RdBu_r", -limit, limit) if signed else ("Blues", None, None)
    image = axes.imshow(values, cmap=colours, aspect="auto", interpolation="nearest", vmin=low, vmax=high)
    bar = plt.colorbar(image, ax=axes)
    bar.set_label(bar_label, fontsize=FONT, color=INK)
    bar.ax.tick_params(labelsize=FONT)
    axes.tick_params(labelsize=FONT)
    finish(axes, title, x_label, y_label)


def circles(panels: dict[str, Tensor], title: str, x_label: str, y_label: str) -> None:
    """Points on a unit circle, numbered from 0 and joined by lines: one panel for each entry of `panels`.

    Args:
        panels: title of the panel → (points, 2), the two coordinates of each point.
    """
    figure, row = plt.subplots(
        1, len(panels), figsize=(3.7 * len(panels), 3.9), facecolor="white", layout="constrained", squeeze=False
    )
    for axes, (name, points) in zip(row[0], panels.items(), strict=True):
        angles = np.linspace(0, 2 * np.pi, 200)
        axes.plot(np.cos(angles), np.sin(angles), color="#b0b0b0", linewidth=1)
        numbers = points.detach().double().numpy()
        for number, (x, y) in enumerate(numbers):
            axes.plot([0, x], [0, y], color=COLOURS[0], linewidth=0.9)
            axes.plot(x, y, "o", color=COLOURS[0], markersize=5)
            axes.text(1.17 * x, 1.17 * y, str(number), ha="center", va="center", fontsize=FONT, color=INK)
        axes.set_xlim(-1.35, 1.35)
        axes.set_ylim(-1.35, 1.35)
        axes.set_aspect("equal")
        axes.tick_params(labelsize=FONT)
        finish(axes, name, x_label, y_label)
    figure.suptitle(title, fontsize=FONT + 1, color=INK)


def norm_axes(title: str) -> None:
    """Three blocks of numbers, batch × sequence × features; in each the numbers that share one mean are coloured."""
    axes = canvas(9.0, 3.2)
    batch, length, features = 3, 4, 5
    groups = [
        ("layer norm", "one token", "#f2c14e", lambda b, t, f: b == 0 and t == 0),
        ("batch norm", "one feature", "#e07a5f", lambda b, t, f: f == features - 1),
        ("instance norm", "one feature of one sentence", "#7fb069", lambda b, t, f: b == 0 and f == features - 1),
    ]
    for index, (name, shared, colour, inside) in enumerate(groups):
        left = 9.0 * index

        def face(*corners: tuple[float, float, float], chosen: bool, left: float = left, colour: str = colour) -> None:
            """A cell of a visible face; corners are (features, sequence downwards, batch backwards)."""
            points = [(left + f + 0.5 * b, -t + 0.45 * b) for f, t, b in corners]
            axes.add_patch(Polygon(points, facecolor=colour if chosen else "#f3f6fa", edgecolor=INK, linewidth=0.9))

        for t in range(length):
            for f in range(features):
                corners = [(f, t, 0), (f + 1, t, 0), (f + 1, t + 1, 0), (f, t + 1, 0)]
                face(*corners, chosen=inside(0, t, f))
        for b in range(batch):
            for f in range(features):
                corners = [(f, 0, b), (f + 1, 0, b), (f + 1, 0, b + 1), (f, 0, b + 1)]
                face(*corners, chosen=inside(b, 0, f))
            for t in range(length):
                corners = [(features, t, b), (features, t, b + 1), (features, t + 1, b + 1), (features, t + 1, b)]
                face(*corners, chosen=inside(b, t, features - 1))
        axes.text(left + 3.2, 2.3, name, ha="center", va="bottom", fontsize=FONT + 2, color=INK, weight="bold")
        axes.text(left + 3.2, 2.2, f"one mean for {shared}", ha="center", va="top", fontsize=FONT, color=INK)
        axes.text(left + 2.5, -4.2, "features", ha="center", va="top", fontsize=FONT, color=INK)
        axes.text(left - 0.2, -2.0, "sequence", ha="right", va="center", rotation=90, fontsize=FONT, color=INK)
        axes.text(left + 6.15, -3.5, "batch", ha="left", va="center", rotation=42, fontsize=FONT, color=INK)
    axes.set_xlim(-1.2, 26.0)
    axes.set_ylim(-5.2, 3.3)
    axes.set_aspect("equal")
    axes.axis("off")
    finish(axes, title)


def mask_patterns(panels: Sequence[tuple[str, Tensor, Sequence[str], Sequence[str]]], title: str) -> None:
    """Masks side by side: a tick in a coloured cell may be seen, a cross in a grey one is hidden.

    Args:
        panels: name, boolean matrix (query, key) with True = may be seen, labels of the rows, labels of the columns.
    """
    width = sum(0.45 + 0.085 * max(map(len, rows)) + 0.36 * mask.shape[1] for _, mask, rows, _ in panels)
    height = max(1.2 + 0.085 * max(map(len, columns)) + 0.36 * len(mask) for _, mask, _, columns in panels)
    figure, all_axes = plt.subplots(
        1, len(panels), figsize=(width, height), facecolor="white", layout="constrained",
        squeeze=False, gridspec_kw={"width_ratios": [mask.shape[1] for _, mask, _, _ in panels]},
    )  # fmt: skip
    for axes, (name, mask, rows, columns) in zip(all_axes[0], panels, strict=True):
        for i, row in enumerate(mask.tolist()):
            for j, seen in enumerate(row):
                face = "#9fc5e8" if seen else "#ececec"
                axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=face, edgecolor=INK, linewidth=0.8))
                sign = "✓" if seen else "×"
                axes.text(j, i, sign, ha="center", va="center", fontsize=FONT, color=INK)
        axes.set_xlim(-0.53, len(columns) - 0.47)
        axes.set_ylim(len(rows) - 0.47, -0.53)
        axes.set_aspect("equal")
        axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(length=0, labelsize=FONT)
        axes.spines[:].set_visible(False)
        finish(axes, name)
    figure.suptitle(title, fontsize=FONT + 1, color=INK)


def cross_attention(weights: Tensor, source: Sequence[str], target: Sequence[str]) -> None:
    """One heat map for each layer (row) and head (column): from each target word to the source.

    Args:
        weights: (layers, heads, target, source).
    """
    layers, heads = weights.shape[:2]
    size = max(1.6, 0.22 * len(source) + 0.5), max(1.6, 0.22 * len(target) + 0.5)
    _, grid = plt.subplots(
        layers, heads, figsize=(size[0] * heads + 0.8, size[1] * layers + 0.8), squeeze=False, sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for layer in range(layers):
        for head in range(heads):
            axes = grid[layer, head]
            axes.imshow(weights[layer, head].cpu(), cmap="viridis", vmin=0, vmax=1, aspect="auto")
            axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=9)
            axes.set_xticks(range(len(source)), source, rotation=90, fontsize=8)
            axes.set_yticks(range(len(target)), target, fontsize=8)


def curves(
    curves: dict[str, tuple[Sequence[float], Sequence[float]]],
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
) -> None:
    """One line without markers for each entry, which may have its own places: name → (x, y)."""
    axes = canvas(6.0, 3.6)
    for (name, (x, y)), colour, dash in zip(curves.items(), COLOURS, LINES, strict=False):
        axes.plot(x, y, dash, color=colour, linewidth=1.8, label=name)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    axes.grid(color="#d9d9d9", linewidth=0.6)
    axes.legend(fontsize=FONT, framealpha=0.9, edgecolor="none")  # a line may pass behind it
    axes.tick_params(labelsize=FONT)
    finish(axes, title, x_label, y_label)


class LiveCurve:
    """The loss while a notebook trains: one picture that grows. Call it after each step, with number and loss."""

    def __init__(self, steps: int, title: str, every: int = 25) -> None:
        from IPython.display import display

        self.steps, self.title, self.every = steps, title, every
        self.losses: list[float] = []
        self.figure, self.axes = plt.subplots(figsize=(6.0, 3.6), facecolor="white", layout="constrained")
        self._draw()
        self.handle = display(self.figure, display_id=True)
        plt.close(self.figure)  # otherwise it would be shown once more at the end of the cell

    def __call__(self, step: int, loss: float) -> None:
        self.losses.append(loss)
        if step % self.every == 0 or step == self.steps:
            self._draw()
            if self.handle:
                self.handle.update(self.figure)

    def _draw(self) -> None:
        self.axes.clear()
        self.axes.plot(range(1, len(self.losses) + 1), self.losses, color=COLOURS[0], linewidth=1.2)
        self.axes.set_xlim(0, self.steps)
        self.axes.grid(color="#d9d9d9", linewidth=0.6)
        self.axes.tick_params(labelsize=FONT)
        finish(self.axes, f"{self.title}: step {len(self.losses)} of {self.steps}", "step", "loss per token (nats)")


def shares(panels: dict[str, dict[str, float]], title: str) -> None:
    """Probabilities as horizontal bars with their values, one panel for each entry of `panels`, side by side."""
    count = max(len(bars) for bars in panels.values())
    figure, grid = plt.subplots(
        1,
        len(panels),
        figsize=(3.4 * len(panels) + 1.0, 0.34 * count + 1.3),
        squeeze=False,
        layout="constrained",
        facecolor="white",
    )
    for axes, (name, bars) in zip(grid[0], panels.items(), strict=True):
        places = range(len(bars))
        axes.barh(places, list(bars.values()), color=COLOURS[0])
        for place, value in zip(places, bars.values(), strict=True):
            axes.text(max(value, 0) + 0.02, place, f"{value:.4f}", va="center", fontsize=FONT, color=INK)
        axes.set_yticks(places, list(bars), fontsize=FONT)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.25)
        axes.set_xticks([0, 0.5, 1.0])
        axes.tick_params(labelsize=FONT)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("probability", fontsize=FONT)
        axes.set_title(name, fontsize=FONT)
    figure.suptitle(title, fontsize=FONT + 1)


def choices(tree: dict[tuple[str, ...], float], best: tuple[str, ...], title: str) -> None:
    """A tree of words with the probability of each branch; the path to `best` is drawn thick.

    Args:
        tree: path from the root → probability of its last word.
    """
    leaves = [path for path in tree if not any(other[:-1] == path for other in tree)]
    height = {path: float(-row) for row, path in enumerate(leaves)}
    for path in sorted(tree, key=len, reverse=True):
        if path not in height:
            below = [height[other] for other in tree if other[:-1] == path]
            height[path] = sum(below) / len(below)
    height[()] = sum(height[path] for path in tree if len(path) == 1) / sum(len(path) == 1 for path in tree)
    axes = canvas(6.4, 0.8 * len(leaves) + 0.9)
    for path, probability in tree.items():
        start, end = (len(path) - 1, height[path[:-1]]), (len(path), height[path])
        on_best = best[: len(path)] == path
        axes.plot(*zip(start, end, strict=True), color=COLOURS[1] if on_best else INK, linewidth=3 if on_best else 1.2)
        axes.text(
            (start[0] + end[0]) / 2, (start[1] + end[1]) / 2, f"{probability:g}", ha="center", va="center",
            fontsize=FONT, color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
        )  # fmt: skip
    for path, y in height.items():
        axes.text(
            len(path), y, path[-1] if path else "<s>", ha="center", va="center", fontsize=FONT, color=INK,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "#e8f0fa", "edgecolor": COLOURS[0]},
        )  # fmt: skip
    axes.set_xlim(-0.4, max(len(path) for path in tree) + 0.4)
    axes.set_ylim(min(height.values()) - 0.5, max(height.values()) + 0.5)
    axes.axis("off")
    finish(axes, title)

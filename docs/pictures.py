"""Draw the pictures of "How it works" and of the architecture into `docs/pictures/`.

    python docs/pictures.py

They are as wide as a phone's screen needs for their text to be read. In the dark the site inverts them
(`docs/extra.css`), so that there is one file of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Circle, Rectangle

FOLDER = Path(__file__).with_suffix("")
STYLE = Path(__file__).parents[1] / "examples" / "figures.mplstyle"
WIDTH = 7.0  # inches, the unit of all coordinates below
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#888888"


def box(axis: plt.Axes, x: float, y: float, w: float, h: float, text: str = "", colour: str = BLUE) -> None:
    axis.add_patch(Rectangle((x, y), w, h, facecolor=colour, edgecolor=colour, alpha=0.22, lw=0))
    axis.add_patch(Rectangle((x, y), w, h, fill=False, edgecolor=colour, lw=1.2))
    axis.text(x + w / 2, y + h / 2, text, ha="center", va="center")


def arrow(axis: plt.Axes, start: tuple[float, float], end: tuple[float, float], colour: str = "k") -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.5})


def significand(x: float, bits: int) -> str:
    """The first bits of the significand of a positive number."""
    return f"{int(np.ldexp(np.frexp(x)[0], bits)):0{bits}b}"


def words(axis: plt.Axes) -> float:
    """1/3 in single precision as two fp16 words; the last bit is rounded away."""
    x = np.float32(1 / 3)
    first = np.float16(x)
    second = np.float16((x - np.float32(first)) * 2.0**11)
    gap = int(np.frexp(np.float32(first))[1] - np.frexp(np.float32(second) * 2.0**-11)[1])
    size = WIDTH / 24
    rows = (
        (2.6, "1/3 in FP32: 24 bits", significand(x, 24), 0, GREY),
        (1.3, "first fp16 word: 11 bits, rounded", significand(first, 11), 0, BLUE),
        (
            0.0,
            "second word: what is left, rounded; stored times $2^{11}$",
            significand(second, 11),
            gap,
            ORANGE,
        ),
    )
    for y, title, bits, shift, colour in rows:
        axis.text(0, y + 0.55, title)
        for i, bit in enumerate(bits):
            box(axis, (shift + i) * size, y, size, 0.42, bit, colour)
    return 3.6


def scales(axis: plt.Axes) -> float:
    """The bits of the numbers of two rows, from large to small, and the unit of each row."""
    rows = ((2.3, "row 1", 4.4, (0.3, 0.9, 2.4)), (0.0, "row 2", 5.4, (1.4, 1.8, 2.6)))
    for y, name, unit, starts in rows:
        axis.text(0, y + 1.5, f"{name}: its largest numbers decide the unit")
        for i, start in enumerate(starts):
            height = y + 0.95 - 0.42 * i
            box(axis, start, height, unit - start, 0.3, colour=BLUE)
            box(axis, unit, height, start + 4.3 - unit, 0.3, colour=GREY)
        axis.plot([unit, unit], [y - 0.1, y + 1.4], "k", lw=2)
    axis.text(0, -0.65, "blue: the integers A′; grey: rounded away", va="bottom")
    arrow(axis, (4.9, -0.5), (7, -0.5))
    axis.text(5.95, -0.42, "smaller bits", ha="center", va="bottom")
    return 4.2


def clock(axis: plt.Axes, centre: tuple[float, float], modulus: int, hour: int, colour: str) -> None:
    x, y = centre
    axis.add_patch(Circle(centre, 0.95, fill=False, edgecolor=colour, lw=2))
    for h in range(modulus):
        angle = 2 * np.pi * h / modulus
        axis.text(
            x + 0.74 * np.sin(angle), y + 0.74 * np.cos(angle), h, ha="center", va="center", fontsize=13
        )
    angle = 2 * np.pi * hour / modulus
    arrow(axis, centre, (x + 0.6 * np.sin(angle), y + 0.6 * np.cos(angle)), colour)


def residues(axis: plt.Axes) -> float:
    """23 as what two clocks show, and the only number between -35 and 34 for which they show that."""
    axis.text(0, 3.6, "23")
    for x, modulus, colour in ((2.1, 7, BLUE), (5.2, 10, ORANGE)):
        clock(axis, (x, 2.5), modulus, 23 % modulus, colour)
        axis.text(x, 3.6, f"modulo {modulus}: {23 % modulus}", ha="center", color=colour)
    numbers = np.arange(-35, 35)
    place = (numbers + 35) * WIDTH / 70
    axis.plot([0, WIDTH], [0.45, 0.45], "k", lw=1)
    for y, modulus, colour in ((0.62, 7, BLUE), (0.28, 10, ORANGE)):
        same = numbers % modulus == 23 % modulus
        axis.plot(place[same], np.full(same.sum(), y), "o", color=colour, markersize=8)
    x = place[numbers == 23].item()
    axis.add_patch(Rectangle((x - 0.18, 0.08), 0.36, 0.74, fill=False, lw=2))
    axis.text(0, 0.95, "and back: one number fits both clocks")
    axis.text(0, -0.1, "-35", va="top")
    axis.text(x, -0.1, "23", ha="center", va="top")
    return 4.4


def accumulator(axis: plt.Axes) -> float:
    """Two numbers above the digits that they are added to, and what of the digits a double takes."""
    digits, size = 7, WIDTH / 7
    for y, start, name, colour in ((3.4, 0.55, "a double", BLUE), (2.7, 3.2, "another", ORANGE)):
        box(axis, start, y, 1.65, 0.45, name, colour)
        for x in (start + 0.05, start + 1.6):
            axis.plot([x, x], [y, 1.95], ":", color=colour, lw=1)
    for i in range(digits):
        box(axis, i * size, 1.4, size, 0.55, f"$d_{digits - 1 - i}$", GREEN)
    axis.text(0, 1.25, "largest", va="top")
    axis.text(WIDTH, 1.25, "smallest", ha="right", va="top")
    arrow(axis, (4.6, 1.05), (2.6, 1.05))
    axis.text(3.6, 0.95, "carries, at the end", ha="center", va="top")
    axis.plot([0.55, 0.55, 2.2, 2.2], [0.35, 0.25, 0.25, 0.35], "k")
    axis.text(0.55, 0.12, "the result: 53 bits of all digits, rounded once", va="top")
    return 4.0


def flow(axis: plt.Axes) -> float:
    """The steps of an exact product, from top to bottom."""
    middle, left, right = WIDTH / 2, WIDTH / 2 - 0.9, WIDTH / 2 + 0.9
    box(axis, left - 1.2, 7.5, 2.1, 0.6, "A", GREY)
    box(axis, right - 0.9, 7.5, 2.1, 0.6, "B", GREY)
    axis.text(middle, 7.15, "times powers of two, rounded to integers", ha="center", va="center")
    box(axis, left - 1.2, 6.2, 2.1, 0.6, "A′")
    box(axis, right - 0.9, 6.2, 2.1, 0.6, "B′")
    axis.text(middle, 5.6, "remainders, a pair for each modulus", ha="center", va="center")
    for x, modulus in ((0.2, "256"), (1.9, "255"), (3.6, "253"), (5.3, "…")):
        arrow(axis, (middle, 5.35), (x + 0.75, 4.95), GREY)
        box(axis, x, 4.2, 1.5, 0.7, modulus, ORANGE)
        arrow(axis, (x + 0.75, 4.15), (middle, 3.05), GREY)
    axis.text(middle, 3.65, "int8 products, exact", ha="center", va="center", bbox={"fc": "w", "ec": "w"})
    box(axis, middle - 2.6, 2.3, 5.2, 0.7, "Chinese remainder theorem")
    arrow(axis, (middle, 2.25), (middle, 1.85))
    box(axis, middle - 2.6, 1.1, 5.2, 0.7, "C′ = A′B′, an exact integer")
    arrow(axis, (middle, 1.05), (middle, 0.65))
    box(axis, middle - 2.6, -0.1, 5.2, 0.7, "C: scaled back, rounded once", GREEN)
    return 8.2


def certificate(axis: plt.Axes) -> float:
    """The bound of what is lost, beside what is allowed, before and after the scales are enlarged."""
    rows = (
        (2.5, "first scales: too much could be lost", 5.6),
        (0.2, "scales two bits larger: certified", 1.4),
    )
    for y, title, lost in rows:
        axis.text(0, y + 1.55, title)
        box(axis, 0, y + 0.85, lost, 0.45, colour=ORANGE)
        axis.text(0.1, y + 1.07, "lost at most", va="center")
        box(axis, 0, y + 0.2, 3.4, 0.45, "allowed at least", BLUE)
        axis.plot([3.4, 3.4], [y + 0.1, y + 1.4], "k--", lw=1.2)
    return 4.5


FLOWS = {
    "product": (
        ("check arguments, make a pair", "ozaki/api.py", BLUE, ""),
        ("find the fastest executor", "ozaki/execution/executors.py", BLUE, ""),
        ("measure rows and columns: scales", "ozaki/scaling/scales.py", GREEN, ""),
        ("bound |A||B|: enough bits?", "ozaki/certificate/decision.py", GREEN, "more bits"),
        ("split integers into residues", "ozaki/residues/split.py", ORANGE, ""),
        ("multiply short words, exactly", "multiword/engines/", ORANGE, ""),
        ("Chinese remainders, one rounding", "ozaki/residues/reconstruct.py", ORANGE, ""),
        ("alpha·R + beta·C, out", "ozaki/combine.py", BLUE, ""),
    ),
    "sum": (
        ("check arguments and axes", "ozaki/sums/api.py", BLUE, ""),
        ("look up what is added, and then", "ozaki/sums/table.py", BLUE, ""),
        ("find the first form that takes it", "ozaki/sums/exact/reduction.py", BLUE, ""),
        ("enclose: do both ends round alike?", "ozaki/sums/exact/enclosure.py", GREEN, ""),
        ("if not: add bit patterns by levels", "ozaki/sums/exact/levels.py", ORANGE, ""),
        ("integers in one unit, one rounding", "ozaki/sums/exact/fixed_point.py", ORANGE, ""),
    ),
    "solve": (
        ("scale by powers of two", "linalg/verified/tools/scaling.py", BLUE, ""),
        ("approximate the inverse: R", "linalg/verified/tools/preconditioner.py", BLUE, ""),
        ("bound ‖I − RA‖: below one?", "linalg/verified/tools/regularity.py", GREEN, "more words"),
        ("exact residual, x ← x + R(b − Ax)", "linalg/verified/tools/refinement.py", ORANGE, ""),
        ("bound x* − x: small enough?", "linalg/verified/tools/refinement.py", GREEN, "again"),
        ("round x, and say what is proved", "linalg/verified/tools/solution.py", BLUE, ""),
    ),
    "function": (
        ("check arguments, dtype, out", "ozaki/elementary/api.py", BLUE, ""),
        ("the function as one text", "ozaki/elementary/exponentials.py", BLUE, ""),
        ("trace it: LLVM loop, CUDA kernel", "ozaki/elementary/tracing.py", BLUE, ""),
        ("enclose: do both ends round alike?", "ozaki/elementary/rounding.py", GREEN, ""),
        ("if not: a text in two words", "ozaki/elementary/evaluate.py", ORANGE, ""),
        ("if not: integers of any length", "ozaki/elementary/digits.py", ORANGE, ""),
    ),
}
"""Steps of a call, each with the file that takes it, its colour, and why it may go back one step."""


def steps(axis: plt.Axes, name: str) -> float:
    """The steps of a call from top to bottom, in letters for two such pictures side by side."""
    rows, step, width = FLOWS[name][::-1], 1.55, WIDTH - 0.6
    for i, (text, file, colour, back) in enumerate(rows):
        y = step * i - 0.6
        box(axis, 0, y, width, 1.15, "", colour)
        axis.text(0.15, y + 0.76, text, va="center", fontsize=20)
        axis.text(0.15, y + 0.29, file, va="center", fontsize=15, family="monospace")
        if i:
            arrow(axis, (width / 2, y), (width / 2, y - step + 1.15))
        if back:
            side, above = width + 0.4, y + step + 0.5
            axis.plot([width, side, side], [y + 0.5, y + 0.5, above], color=colour, lw=2)
            arrow(axis, (side + 0.03, above), (width, above), colour)
            axis.text(width - 0.1, y + 1.34, back, ha="right", va="center", fontsize=16, color=colour)
    return step * len(rows) - 0.9


PICTURES: dict[str, Callable[[plt.Axes], float]] = {
    f.__name__: f for f in (words, scales, residues, accumulator, flow, certificate)
}
PICTURES |= {name: partial(steps, name=name) for name in FLOWS}
"""The pictures by their names: each draws onto axes that are WIDTH wide, and returns how high it is."""


def digest() -> str:
    """What the pictures say of the code that drew them."""
    return f"docs/pictures.py {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]}"


def save(name: str) -> None:
    figure, axis = plt.subplots(figsize=(WIDTH, 4))
    top = PICTURES[name](axis)
    bottom = -0.7
    figure.set_size_inches(WIDTH, top - bottom)
    axis.set_position((0, 0, 1, 1))
    axis.set(xlim=(-0.06, WIDTH + 0.06), ylim=(bottom, top))
    axis.set_axis_off()
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None, "Description": digest()})
    plt.close(figure)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with plt.style.context([STYLE, {"svg.hashsalt": "ozaki", "figure.constrained_layout.use": False}]):
        for name in PICTURES:
            save(name)


if __name__ == "__main__":
    main()

"""A product in panels of rows and columns and blocks of the inner dimension, within a workspace limit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from multiword.runtime.arrays import Array
from multiword.runtime.graphs import side_by_side
from multiword.runtime.memory import SMALLEST_PANEL, WorkspaceTooSmall, halved, padded
from ozaki.product.pair import Pair
from ozaki.schemes import ProductScheme
from ozaki.tuning import SYMMETRIC_COLUMNS, SYMMETRIC_PANELS

STEP_BYTES = 8 << 20
"""What statistics, split and reconstruction take on a CPU beside words and products: blocks of 2¹⁷ numbers
for a few threads."""


@dataclass(frozen=True)
class Panels:
    """How a product is cut: panels of rows, blocks of k, panels of columns, and their bytes."""

    rows: int
    k_block: int
    columns: int
    bytes: int


def choose_panels(scheme: ProductScheme, shape: tuple[int, int, int], limit: int) -> Panels:
    """Return the largest panels, halving the greediest direction, whose workspace is in the limit.

    Raises WorkspaceTooSmall, with the sizes, if the smallest panels do not fit.
    """
    m, k, n = shape
    rows, k_block, columns = m, min(k, scheme.k_block), n
    while True:
        operands, products = _bytes(scheme, rows, k_block, columns, k_block < k)
        if operands + products <= limit:
            return Panels(rows, k_block, columns, operands + products)
        if operands > products and k_block > max(SMALLEST_PANEL, rows, columns):
            k_block = halved(k_block)
        elif max(rows, columns) > SMALLEST_PANEL:
            rows, columns = (halved(rows), columns) if rows >= columns else (rows, halved(columns))
        elif k_block > SMALLEST_PANEL:
            k_block = halved(k_block)
        else:
            needed = operands + products
            raise WorkspaceTooSmall(
                f"the smallest panel of this {m} x {k} x {n} product ({rows} x {k_block} x {columns}, "
                f"scheme {scheme.name!r} on {scheme.word}) needs {needed} bytes of workspace, "
                f"and the limit is {limit}"
            )


def fits(scheme: ProductScheme, shape: tuple[int, int, int], limit: int) -> bool:
    """Return whether the smallest panels fit."""
    with suppress(WorkspaceTooSmall):
        choose_panels(scheme, shape, limit)
        return True
    return False


def room_for_words(limit: int) -> int:
    """What a CPU's workspace leaves for words and products, beside the element-wise steps' scratch memory."""
    return limit - min(limit // 2, STEP_BYTES) if limit >= STEP_BYTES // 8 else limit


def one_panel_bytes(scheme: ProductScheme, shape: tuple[int, int, int]) -> int:
    """Return the bytes of both operands, split once even where k is cut, and of the products."""
    return sum(_bytes(scheme, *shape, scheme.k_block < shape[1]))


def _bytes(scheme: ProductScheme, m: int, k: int, n: int, in_blocks: bool) -> tuple[int, int]:
    """Return the bytes of both operands, and of the products, filled up as the scheme does it."""
    rows, inner, columns = (
        padded(size, multiple) for size, multiple in zip((m, k, n), scheme.tile, strict=True)
    )
    products = scheme.product_bytes() * rows * columns * (2 if in_blocks else 1)
    return scheme.operand_bytes() * (rows + columns) * inner, products


def in_panels(
    scheme: ProductScheme,
    pair: Pair,
    scales: tuple[Array, Array],
    use: Callable[[Array, slice, slice], None],
    symmetric: bool = False,
) -> None:
    """Split and multiply panel by panel within the workspace, and call use(products, rows, columns) for each.

    The panels cannot show in a result: every element is the same integer, however its terms are grouped.
    Of a symmetric product no panel lies wholly above the diagonal.
    """
    a, b, engine, workspace = pair.a, pair.b, pair.request.engine, pair.request.workspace
    m, k, n = a.rows, a.k, b.rows
    # A stack is one panel: its products are independent, and it was made to fit.
    one_panel = Panels(m, min(k, scheme.k_block), n, workspace)
    panels = choose_panels(scheme, (m, k, n), workspace) if a.stack == 1 else one_panel
    if symmetric:
        panels = replace(panels, columns=min(panels.columns, _symmetric_columns(n)))
    left = right = None  # freed before others are split
    for j in range(0, n, panels.columns):
        columns = slice(j, j + panels.columns)
        right = None  # B's panel is split once if all of k fits
        for i in range(j if symmetric else 0, m, panels.rows):
            rows = slice(i, i + panels.rows)
            y = None
            for h in range(0, k, panels.k_block):
                inner = slice(h, h + panels.k_block)
                left = None
                if scheme.shares_words:
                    left = right = b.split(scheme, scales[1], columns, inner, engine.padding)
                    y = scheme.multiply(left, right, engine, y)
                    continue
                words_of_a = partial(a.split, scheme, scales[0], rows, inner, engine.padding)
                if right is None or panels.k_block < k:
                    right = None
                    words_of_b = partial(b.split, scheme, scales[1], columns, inner, engine.padding)
                    left, right = side_by_side(words_of_a, words_of_b)
                else:
                    left = words_of_a()
                y = scheme.multiply(left, right, engine, y)
            assert y is not None  # k is not empty
            use(y, rows, columns)


def _symmetric_columns(n: int) -> int:
    """Columns of a panel of a symmetric product: those of the panels above the diagonal are left away."""
    return max(SYMMETRIC_COLUMNS, padded(-(-n // SYMMETRIC_PANELS), 64))

"""The two schemes behind one contract, and the product in panels within a workspace limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from multiword.engines import Engine, get_product
from multiword.formats import Format
from multiword.runtime.arrays import Array
from multiword.runtime.graphs import side_by_side
from multiword.runtime.memory import SMALLEST_PANEL, WorkspaceTooSmall, halved
from ozaki.operand import Operand
from ozaki.residues import products as residue_products
from ozaki.slices import integer as integer_slices

HOST_DEPTH = 1024
"""Inner dimensions beyond this are cut on a CPU: five fp64 moduli then hold what six hold at 2048."""


@dataclass(frozen=True)
class Task:
    """An exact product to be computed: everything but the numbers.

    Attributes
    ----------
    shape : (m, k, n).
    parts : 1 for real, 2 for complex operands.
    widths : |A'| <= 2**widths[0] and |B'| <= 2**widths[1].
    bits : upper bound of log2 |C'|.
    target : the format to round to.
    """

    shape: tuple[int, int, int]
    parts: int
    widths: tuple[int, int]
    bits: float
    target: Format


class Multiplication(Protocol):
    """A way to multiply in words of low precision, in panels and blocks of the inner dimension."""

    name: str
    word: str
    depth: int
    system: Any

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        """The words of a block of an operand."""
        ...

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """The products of words, and those of earlier blocks of the inner dimension."""
        ...

    def operand_bytes(self) -> int:
        """Bytes for each element of an operand."""
        ...

    def product_bytes(self) -> int:
        """Bytes for each element of the result, temporaries included."""
        ...


class Scheme(Multiplication, Protocol):
    """A way to multiply integers exactly: split, multiply, put together and round once."""

    task: Task

    @property
    def pieces(self) -> int:
        """Moduli, or slices of A."""
        ...

    @property
    def products(self) -> int:
        """Low-precision products that one exact product takes."""
        ...

    def assemble(self, y: Array, scales: tuple[Array, Array], target: Format, out: Array) -> None:
        """Round the products to `out`."""
        ...


class Residues:
    """Scheme "residues" for a task."""

    name = "residues"

    def __init__(self, task: Task, word: str, on_host: bool = False) -> None:
        self.word = word
        self.task = task
        depth = min(task.shape[1], HOST_DEPTH) if on_host else task.shape[1]
        self.system = residue_products.residue_system(word, task.bits, depth, task.parts)
        self.depth = self.system.depth
        self._images = 2 * task.parts - 1
        # The host multiplies int8 words in float64.
        self._carrier = 8 if on_host and word == "int8" else 0

    @property
    def pieces(self) -> int:
        return len(self.system.moduli)

    @property
    def products(self) -> int:
        return self._images * self.pieces

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        width = self.task.widths[side]
        return residue_products.residues(parts, scale, self.system, padding, weighted=side == 0, width=width)

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        return residue_products.products(a, b, self.system, engine, earlier)

    def assemble(self, y: Array, scales: tuple[Array, Array], target: Format, out: Array) -> None:
        residue_products.reconstruct(y, self.system, scales, target, out)

    def operand_bytes(self) -> int:
        return self.products * (get_product(self.word).word.itemsize + self._carrier)

    def product_bytes(self) -> int:
        return self.products * (get_product(self.word).result.itemsize + self._carrier)


class Slices:
    """Scheme "slices" for a task."""

    name = "slices"

    def __init__(self, task: Task, word: str) -> None:
        self.word = word
        self.task = task
        self.system = integer_slices.slice_system(word, task.widths, task.shape[1])
        self.depth = self.system.depth

    @property
    def pieces(self) -> int:
        return self.system.counts[0]

    @property
    def products(self) -> int:
        return self.system.counts[0] * self.system.counts[1] * self.task.parts**2

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        return integer_slices.slices(parts, scale, self.system, side, padding)

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        return integer_slices.slice_products(a, b, self.system, engine, earlier)

    def assemble(self, y: Array, scales: tuple[Array, Array], target: Format, out: Array) -> None:
        integer_slices.slice_sum(y, self.system, scales, target, out)

    def operand_bytes(self) -> int:
        # the rest being sliced, in float64, and two temporaries
        return self.task.parts * max(self.system.counts) * get_product(self.word).word.itemsize + 24

    def product_bytes(self) -> int:
        return self.task.parts * 8 * (sum(self.system.counts) + 6)


SCHEMES = (Residues.name, Slices.name)
"""The schemes that can be asked for."""


@dataclass(frozen=True)
class Panels:
    """How a product is cut: panels of rows, inner blocks, panels of columns, and their bytes."""

    rows: int
    depth: int
    columns: int
    bytes: int


def choose_panels(scheme: Multiplication, shape: tuple[int, int, int], limit: int) -> Panels:
    """Return the largest panels, halving the greediest direction, whose workspace is in the limit.

    Raises WorkspaceTooSmall, with the sizes, if the smallest panels do not fit.
    """
    m, k, n = shape
    rows, depth, columns = m, min(k, scheme.depth), n
    while True:
        operands = scheme.operand_bytes() * (rows + columns) * depth
        products = scheme.product_bytes() * rows * columns * (2 if depth < k else 1)
        if operands + products <= limit:
            return Panels(rows, depth, columns, operands + products)
        if operands > products and depth > max(SMALLEST_PANEL, rows, columns):
            depth = halved(depth)
        elif max(rows, columns) > SMALLEST_PANEL:
            rows, columns = (halved(rows), columns) if rows >= columns else (rows, halved(columns))
        elif depth > SMALLEST_PANEL:
            depth = halved(depth)
        else:
            needed = operands + products
            raise WorkspaceTooSmall(
                f"the smallest panel of this {m} x {k} x {n} product ({rows} x {depth} x {columns}, "
                f"scheme {scheme.name!r} on {scheme.word}) needs {needed} bytes of workspace, "
                f"and the limit is {limit}"
            )


def whole_bytes(scheme: Scheme, shape: tuple[int, int, int]) -> int:
    """Bytes of both operands, split as a whole even where k is cut, and of the products."""
    m, k, n = shape
    products = scheme.product_bytes() * m * n * (2 if scheme.depth < k else 1)
    return scheme.operand_bytes() * (m + n) * k + products


def exact_product(
    scheme: Scheme,
    a: Operand,
    b: Operand,
    scales: tuple[Array, Array],
    engine: Engine,
    workspace: int,
    out: Array,
) -> None:
    """Write RN(A'B'·2**(-s_i - t_j)) to `out`, an (m, n) array.

    The panels cannot show in the result: every element of C' is the same integer, however its
    terms are grouped.
    """

    def assemble(y: Array, rows: slice, columns: slice) -> None:
        panel_scales = scales[0][rows], scales[1][columns]
        scheme.assemble(y, panel_scales, scheme.task.target, out[rows, columns])

    in_panels(scheme, a, b, scales, engine, workspace, assemble)


def in_panels(
    scheme: Multiplication,
    a: Operand,
    b: Operand,
    scales: tuple[Array, Array],
    engine: Engine,
    workspace: int,
    use: Callable[[Array, slice, slice], None],
) -> None:
    """Multiply panel by panel within the workspace, and call use(products, rows, columns) for each."""
    m, k, n = a.rows, a.depth, b.rows
    panels = choose_panels(scheme, (m, k, n), workspace)
    for j in range(0, n, panels.columns):
        columns = slice(j, j + panels.columns)
        right = None  # B's panel is split once if all of k fits
        for i in range(0, m, panels.rows):
            rows = slice(i, i + panels.rows)
            y = None
            for h in range(0, k, panels.depth):
                inner = slice(h, h + panels.depth)
                words_of_a = partial(a.split, scheme, scales[0], rows, inner, engine.padding)
                if right is None or panels.depth < k:
                    words_of_b = partial(b.split, scheme, scales[1], columns, inner, engine.padding)
                    left, right = side_by_side(words_of_a, words_of_b)
                else:
                    left = words_of_a()
                y = scheme.multiply(left, right, engine, y)
            assert y is not None  # k is not empty
            use(y, rows, columns)

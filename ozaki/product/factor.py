"""One factor of a product, and what has been computed of it: its statistics, its scales, its split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, real_parts
from multiword.runtime.cached import cached_property
from multiword.runtime.memory import padded
from multiword.runtime.parallel import contiguous_rows, over_rows, scratch
from ozaki.definition.scales import NormLimit
from ozaki.product.by_norms import SplitFactor
from ozaki.product.order import StreamOrder
from ozaki.rounding.truncation import empty_magnitudes
from ozaki.scaling.equilibration import shift
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import norm_scales, statistics_and_scales, widened, width_scales
from ozaki.scaling.statistics import RowStatistics, row_statistics
from ozaki.tuning import COPIED_NUMBERS, COPY_SHARE, FEW_NUMBERS


class Factor:
    """A matrix as one factor of exact products, or a stack of them.

    For accuracy "fp64", "fp32" and "normwise" the integers that stand for its rows depend on the matrix
    alone, so a factor that is used again is split only once (`prepare`).

    Attributes
    ----------
    matrix : the (m, k) left or (k, n) right matrix; of a stack, (s, m, k) or (s, k, n), wherever its matrices
        lie, or all left ones one below the other, all right ones side by side.
    on_gpu : whether that is a CuPy array.
    side : 0 for the left, 1 for the right.
    rows, k : rows of A, or columns of B, and the inner dimension.
    stack : how many matrices it has.
    prepared : whether it is meant for more than one product.
    equilibrated : whether its inner dimension has been equilibrated, which is done once.
    order : the order of the products that share it on a GPU.
    """

    order: StreamOrder | None = None
    _split: tuple[Any, Array, Array] | None = None
    _magnitudes: tuple[Array, Array] | None = None  # by the scales that are their truncation's
    short_rows: Any = None  # what `ozaki.execution.short_rows` has measured of it

    def __init__(
        self,
        matrix: Array,
        side: int,
        *,
        stack: int = 1,
        prepared: bool = False,
        equilibrated: bool = False,
    ) -> None:
        self.matrix, self.side, self.stack = matrix, side, stack
        self.prepared, self.equilibrated = prepared, equilibrated
        self.on_gpu = type(matrix) is not np.ndarray and is_cupy(matrix)
        shape = matrix.shape
        self.rows, self.k = shape[side - 2], shape[-1 - side]
        if len(shape) == 3:
            self.rows *= shape[0]
        self._widened: dict[tuple[NormLimit, int], Array] = {}
        if prepared and self.on_gpu:
            self.order = StreamOrder(self)

    @cached_property
    def parts(self) -> list[Array]:
        """Its real parts, as (r, k) views, or (s, r, k), r the rows of A or the columns of B."""
        return real_parts(self.matrix if self.side == 0 else self.matrix.swapaxes(-1, -2))

    @property
    def stacked(self) -> Array:
        """Its matrices as an (s, m, k) or (s, k, n) array, s being 1 for a single one."""
        return self.matrix if self.matrix.ndim == 3 else self.matrix[None]

    @property
    def length(self) -> int:
        """Real numbers in a row: k, or 2k for a complex matrix."""
        return 2 * self.k if self.matrix.dtype.kind == "c" else self.k

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return self.matrix.size == 0

    @cached_property
    def statistics(self) -> RowStatistics:
        """The statistics of its rows."""
        return row_statistics(self.parts)

    @cached_property
    def exact_scales(self) -> Array:
        """The smallest scales that lose nothing."""
        return exact_scales(self.parts)

    def norm_scales(self, limit: NormLimit, bits: int = 0) -> Array:
        """Return the scales that fill a norm limit, widened by some bits: the same array every time."""
        key = limit, bits
        if key not in self._widened:
            self._widened[key] = widened(self.norm_scales(limit), bits) if bits else self._norm_scales(limit)
        return self._widened[key]

    def _norm_scales(self, limit: NormLimit) -> Array:
        if "statistics" in self.__dict__:
            return norm_scales(self.statistics, limit)
        self.statistics, scales = statistics_and_scales(self.parts, limit)
        return scales

    def cached_norm_scales(self, limit: NormLimit, bits: int, scale: Array) -> Array:
        """Return `norm_scales`, which the caller has computed: the same array every time."""
        return self._widened.setdefault((limit, bits), scale)

    def width_scales(self, bits: int) -> Array:
        """Return the scales for rows of that many bits."""
        return width_scales(self.statistics.exponent, bits)

    def cached_words(self, scheme: Any, scale: Array) -> Array | None:
        """Return the words of the factor, if it has been split for this scheme and these scales."""
        if self._magnitudes is not None and self._magnitudes[0] is scale:
            return self._magnitudes[1]
        split = self._split  # once: another thread may be preparing another split
        fits = split is not None and split[0] == scheme.system and split[1] is scale
        return split[2] if split is not None and fits else None

    def split(self, scheme: Any, scale: Array, rows: slice, inner: slice, padding: int) -> Array:
        """Return the words of a block of rows and of the inner dimension, cached or split now."""
        words = self.cached_words(scheme, scale)
        if words is not None:
            # Blocks that reach the end take the padding along: engines like round lengths.
            last = None if rows.stop >= self.rows else rows.stop
            end = None if inner.stop >= self.k else inner.stop
            return words[:, :, rows.start : last, inner.start : end]
        parts = [x[..., inner] if x.ndim == 3 else x[rows, inner] for x in self.parts]  # all rows of a stack
        return scheme.split(parts, scale[rows], self.side, padding)

    def split_once(
        self, scheme: Any, scale: Array, padding: int, truncation_scale: Array | None = None
    ) -> None:
        """Split the factor as one block, from which `split` takes others.

        With truncation scales, a GPU leaves its magnitudes, too.
        """
        if self.cached_words(scheme, scale) is None:
            self.forget_split()
            given = self.parts, scale, self.side, padding
            if truncation_scale is None:
                words = scheme.split(*given)
            else:
                size = padded(self.rows, padding), padded(self.k, padding)
                magnitudes = empty_magnitudes(scale, *size, len(self.parts), self.side)
                self._magnitudes = truncation_scale, magnitudes
                words = scheme.split_and_truncate(*given, self._magnitudes)
            self._split = scheme.system, scale, words

    def copy(self) -> Factor:
        """Return another factor of this matrix, which shares what a prepared one has computed."""
        other = Factor(self.matrix, self.side, stack=self.stack, equilibrated=self.equilibrated)
        if self.prepared:
            other.__dict__.update(self.__dict__, _widened=dict(self._widened))
        return other

    def part(self, matrices: Any) -> Factor:
        """Return some matrices of a stack, by a slice or rising indices, with the statistics there are."""
        rows = np.arange(self.rows).reshape(self.stack, -1)[matrices]
        if (count := len(rows)) == self.stack:
            return self
        # A slice stays one: a GPU needs no table of indices, which could not be captured.
        rows = slice(rows[0, 0], rows[-1, -1] + 1) if isinstance(matrices, slice) else rows.ravel()
        if self.matrix.ndim == 3:
            matrix = self.matrix[matrices]
        else:
            matrix = self.matrix[rows] if self.side == 0 else self.matrix.T[rows].T
        other = Factor(matrix, self.side, stack=count, equilibrated=self.equilibrated)
        if "statistics" in self.__dict__:
            other.statistics = self.statistics[rows]
        return other

    def shifted(self, scale: Array, shifts: Array) -> tuple[Factor, Callable[[], np.ndarray]]:
        """Return a new factor, column h of A or row h of B times 2**shifts_h, and where that is exact.

        The latter is a function that waits for a device. Rows of A or columns of B with the scale
        `NONFINITE_ROW` are left as they are.
        """
        matrix = namespace(self.matrix).empty_like(self.matrix)
        other = Factor(matrix, self.side, stack=self.stack, equilibrated=True)
        return other, shift(self.parts, scale, shifts, other.parts)

    def keep(self, split: SplitFactor, scheme: Any, limit: NormLimit, bits: int) -> None:
        """Keep the statistics, the norm scales and the words that have been computed of the factor."""
        self.statistics, self._widened[limit, 0] = split.statistics, split.scales
        if split.truncated is not None:
            scales, rows, magnitudes = split.truncated
            self._widened.setdefault((limit, bits), scales)
            self._magnitudes = rows.truncation_scale, magnitudes
        self._split = scheme.system, self._widened[limit, bits], split.words

    def forget_split(self) -> None:
        """Give the memory of the split back."""
        if self._split is not None and self.order is not None:
            self.order.last_use.synchronize()
        self._split = self._magnitudes = None

    @property
    def nbytes(self) -> int:
        """Bytes of the split."""
        split = self._split
        return 0 if split is None else int(split[2].nbytes)


def by_columns(x: Array, workspace: int) -> Array:
    """Return a matrix with contiguous columns, along which statistics and a split read it.

    On a GPU, where a copy would take too much of the workspace, and where numbers are few, which are copied
    to be multiplied, the matrix as it is.
    """
    if is_cupy(x) or x.size <= FEW_NUMBERS or x.flags.f_contiguous or COPY_SHARE * x.nbytes > workspace:
        return x
    columns = scratch(x.shape[::-1], x.dtype)

    def work(block: slice) -> None:
        contiguous_rows(x.T, block, columns[block])

    over_rows(work, columns.shape[0], columns.shape[1], COPIED_NUMBERS)
    return columns.T

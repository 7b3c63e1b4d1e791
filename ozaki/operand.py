"""One side of a product, and what has been worked out about it: its profile, its scales, its split."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

from multiword.runtime.arrays import Array, import_cupy, is_cupy, real_parts, to_float64
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.profile import Profile, profile
from ozaki.scaling.scales import widened, width_scales


class Operand:
    """A matrix as one side of exact products.

    For accuracy "fp64" and "fp32" the integers that stand for its rows depend on the matrix
    alone, so an operand that is used again is split only once (`prepare`).

    Attributes
    ----------
    matrix : the (m, k) left or (k, n) right matrix, as the caller sees it.
    side : 0 for the left, 1 for the right.
    parts : its real parts as (r, k) views, r the rows of A or the columns of B.
    prepared : whether it is meant for more than one product.

    >>> import numpy as np, ozaki
    >>> left = ozaki.prepare(np.eye(3))
    >>> c = ozaki.accurate_dgemm(left, np.ones((3, 2)))
    >>> left.nbytes > 0  # what the split holds
    True
    """

    def __init__(self, matrix: Array, side: int, prepared: bool = False) -> None:
        self.matrix = matrix
        self.side = side
        self.prepared = prepared
        rows = matrix if side == 0 else matrix.T
        self.parts = real_parts(rows)
        self._widened: dict[tuple[str, int], Array] = {}
        self._split: tuple[Any, Array, Array] | None = None
        self.turn = Turn(self) if prepared and is_cupy(matrix) else None

    @property
    def rows(self) -> int:
        """Rows of A, or columns of B."""
        return int(self.parts[0].shape[0])

    @property
    def depth(self) -> int:
        """The inner dimension k."""
        return int(self.parts[0].shape[1])

    @property
    def length(self) -> int:
        """Real numbers in a row: k, or 2k for a complex matrix."""
        return len(self.parts) * self.depth

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return self.matrix.size == 0

    @cached_property
    def profile(self) -> Profile:
        """The row profile."""
        return profile(self.parts)

    @property
    def double_parts(self) -> list[Array]:
        """The parts in float64."""
        return [to_float64(x) for x in self.parts]

    @cached_property
    def exact_scales(self) -> Array:
        """The smallest scales that lose nothing."""
        return exact_scales(self.parts)

    def norm_scales(self, accuracy: str, bits: int = 0) -> Array:
        """The norm scales of an accuracy, widened by some bits: the same array every time."""
        scales = self.profile.rows.norm_scales[accuracy]
        if not bits:
            return scales
        if (accuracy, bits) not in self._widened:
            self._widened[accuracy, bits] = widened(scales, bits)
        return self._widened[accuracy, bits]

    def width(self, bits: int) -> Array:
        """The scales for rows of that many bits."""
        return width_scales(self.profile.rows.exponent, bits)

    def held(self, scheme: Any, scale: Array) -> Array | None:
        """The words of the whole operand, if it has been split for this scheme and these scales."""
        split = self._split  # once: another thread may be preparing another split
        known = split is not None and split[0] == scheme.system and split[1] is scale
        return split[2] if split is not None and known else None

    def split(self, scheme: Any, scale: Array, rows: slice, inner: slice, padding: int) -> Array:
        """The words of a block of rows and of the inner dimension, from the whole split if there is one."""
        words = self.held(scheme, scale)
        if words is not None:
            # Blocks that reach the end take the padding along: engines like round lengths.
            last = None if rows.stop >= self.rows else rows.stop
            end = None if inner.stop >= self.depth else inner.stop
            return words[:, :, rows.start : last, inner.start : end]
        parts = [x[rows, inner] for x in self.parts]
        return scheme.split(parts, scale[rows], self.side, padding)

    def split_whole(self, scheme: Any, scale: Array, padding: int) -> None:
        """Split all of the operand now, for `split` to take blocks from."""
        if self.held(scheme, scale) is None:
            self.forget_split()
            self._split = (scheme.system, scale, scheme.split(self.parts, scale, self.side, padding))

    def copy(self) -> Operand:
        """Another operand that knows what this one has worked out; nothing, unless it is prepared."""
        other = Operand(self.matrix, self.side)
        if self.prepared:
            other.__dict__.update(self.__dict__, _widened=dict(self._widened))
        return other

    def forget_split(self) -> None:
        """Give the memory of the split back."""
        if self._split is not None and self.turn is not None:
            self.turn.last_use.synchronize()
        self._split = None

    @property
    def nbytes(self) -> int:
        """Bytes held by the split."""
        held = self._split
        return 0 if held is None else int(held[2].nbytes)


class Turn:
    """The order of the products that share a prepared operand on a GPU.

    What one of them works out for the operand, or reads of it, is only queued when it returns: the
    next one may come from another thread, or on another stream, which has to wait for that. And its
    memory, given back, goes to the stream that it came from, however another may still read it.
    """

    def __init__(self, operand: Operand) -> None:
        self.lock = threading.RLock()
        self.last_use = import_cupy().cuda.Event(disable_timing=True)
        self.last_use.record()
        weakref.finalize(operand, self.last_use.synchronize).atexit = False


@contextmanager
def in_turn(a: Operand, b: Operand) -> Iterator[None]:
    """Within the context, the prepared ones of two operands belong to this thread and this stream."""
    turns = [x.turn for x in (a, b) if x.turn is not None]
    if not turns:
        yield
        return
    with ExitStack() as held:
        for turn in sorted(turns, key=id):
            held.enter_context(turn.lock)
            import_cupy().cuda.get_current_stream().wait_event(turn.last_use)
            held.callback(turn.last_use.record)
        yield

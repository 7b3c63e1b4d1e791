"""The model of a tensor core as an engine: any generation, bit for bit, on the CPU."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import numpy as np

from multiword.engines.blockfma import BlockFMA, Operands, prepare
from multiword.engines.contract import CheckedEngine
from multiword.engines.fma import chain, fma
from multiword.engines.generations import Blocking, Generation, get_generation
from multiword.engines.words import Word, get_word
from multiword.public import public_in
from multiword.rounding import round_to, widened
from multiword.runtime.arrays import Array, as_array, is_cupy, on_device_of_arrays
from multiword.runtime.options import check_choice, integer
from multiword.runtime.parallel import in_threads, taken, thread_count
from multiword.tuning import LONG_RUN, PRODUCTS_OF_A_STEP, SLAB_COLUMNS, WORTH_A_WORKER

_NAN32 = np.uint32(0x7FFFFFFF).view(np.float32)
_NAN16 = np.uint16(0x7FFF).view(np.float16)


@public_in("multiword", "The tensor core model")
class TensorCore(CheckedEngine):
    """The tensor core of a generation, bit for bit.

    Parameters
    ----------
    generation : a name in `GENERATIONS`, such as "V100", "A100", "H200" or "B200", or a `Generation`.
    accumulate : "fp32", or "fp16" for the mode whose accumulator is half precision.
    blocking : how a library's kernel cuts the inner dimension on top of the hardware (`Blocking`);
        by default it does not: one part, in steps of the hardware's width.
    workers : threads; None takes all cores, or as many as a BLAS may have.
    progress : whether to show a progress bar; None shows it on a terminal for long runs.

    As an engine its products are the formats of the generation's block FMA (fp16, and bf16 and
    tf32 where the hardware has them), int8 (exact, modulo 2**32), and fp32 and fp64 as IEEE
    fused multiply-adds to nearest, one after another in increasing k. float32 numbers that are no
    tf32 words are rounded to it, to nearest even, as cuBLAS does. NaN results are the hardware's
    canonical NaN (0x7fffffff).

    Raises
    ------
    ValueError : unknown generation, or an option out of its range.

    References
    ----------
    Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021).

    >>> a, b = np.full((1, 4), 2.0**-12, np.float16), np.full((4, 1), 2.0**-12, np.float16)
    >>> one = np.ones((1, 1), np.float32)
    >>> [float(TensorCore(g).gemm(a, b, one)[0, 0] - 1) for g in ("V100", "A100")]
    [0.0, 2.384185791015625e-07]
    """

    name = "tensorcore"
    padding = 1
    default_words: ClassVar = {"residues": "int8", "slices": "fp16"}

    def __init__(
        self,
        generation: str | Generation = "H200",
        *,
        accumulate: str = "fp32",
        blocking: Blocking | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.generation = get_generation(generation)
        check_choice("accumulate", accumulate, ("fp32", "fp16"))
        if workers is not None and integer("workers", workers) < 1:
            raise ValueError(f"workers must be None or at least 1, got {workers}")
        self.accumulate, self.blocking = accumulate, blocking or Blocking()
        self.workers, self.progress = workers or thread_count(), progress
        self.products = frozenset(self.generation.widths) | {"int8", "fp32", "fp64"}

    def __repr__(self) -> str:
        return f"TensorCore({self.generation.name!r}, accumulate={self.accumulate!r}, {self.blocking})"

    def with_arithmetic(self, **changes: object) -> TensorCore:
        """Return the same core with fields of its `Generation` changed, such as rounding="RN".

        >>> TensorCore("V100").with_arithmetic(rounding="RN").generation.rounding
        'RN'
        """
        options = {"accumulate": self.accumulate, "blocking": self.blocking, "workers": self.workers}
        generation = replace(self.generation, **changes)  # type: ignore[arg-type]
        return TensorCore(generation, **options, progress=self.progress)  # type: ignore[arg-type]

    @on_device_of_arrays
    def gemm(self, a: object, b: object, c: object = None, *, word: str = "fp16") -> np.ndarray:
        """Return D = A·B + C, with C in the accumulator from the start.

        Parameters
        ----------
        a, b : (m, k) and (k, n) arrays; numbers that are not words of the format are first
            rounded to it, to nearest even.
        c : (m, n) array, or None for zeros; rounded to the result's format likewise.
        word : "fp16", "bf16", "tf32", or "int8", "fp32", "fp64".

        Returns
        -------
        (m, n) float32 array; float16 with accumulate="fp16", float64 for word="fp64",
        int32 for "int8".

        Raises
        ------
        ValueError : shapes that do not fit, a word that this generation lacks, or a number that rounds
            to no int8 word (no int32 for c).
        TypeError : an array that is not numeric and real, or not NumPy's; numbers that float64 cannot
            hold (longdouble, integers beyond 2**53).
        """
        product = get_word(word)
        if word not in self.products:
            products = ", ".join(sorted(self.products))
            raise ValueError(f"{self.generation.name} has no {word!r} product; it has {products}")
        left, right = _on_host(a, "a"), _on_host(b, "b")
        if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
            raise ValueError(f"a must be (m, k) and b (k, n), got {left.shape} and {right.shape}")
        shape, start = (left.shape[0], right.shape[1]), None
        result = self._result(word)
        if c is not None:
            start = _on_host(c, "c")
            if start.shape != shape:
                raise ValueError(f"c must be of shape {shape}, got {start.shape}")
            start = _rounded(start, result, "c")
        if product.dtype.kind == "i":
            left, right = _rounded(left, product.dtype, "a"), _rounded(right, product.dtype, "b")
        else:
            left, right = round_to(left, word), round_to(right, word)
        left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
        return self._product(word, left, right, start)

    def _compute(self, kind: Word, a: Array, bt: Array, out: Array, alpha: float, beta: float) -> None:
        """Write alpha·A·Bᵀ + beta·out to `out`: alpha and beta come after the accumulation, as in cuBLAS."""
        stacks = (x if x.ndim == 3 else x[None] for x in (a, bt, out))
        for left, right, target in zip(*stacks, strict=True):
            sums = self._product(kind.name, left, right.T, None).astype(kind.result, copy=False)
            target[...] = _scale_and_add(sums, target, alpha, beta)

    def _result(self, word: str) -> np.dtype:
        """Return the accumulator's dtype."""
        if self.accumulate == "fp16" and word in self.generation.widths:
            return np.dtype(np.float16)
        return get_word(word).result

    def _product(self, word: str, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
        """Return C + A·B in the accumulator's arithmetic, for any word; parts of k are added outside."""
        result = self._result(word)
        if word == "int8":
            # |a·b| ≤ 2**14 makes float64 exact up to k = 2**39; int32 keeps the low 32 bits.
            exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
            return (exact + (0 if c is None else c)).astype(result)
        zeros = np.zeros((a.shape[0], b.shape[1]), result)
        first, *others = self.blocking.parts(a.shape[1]) or [(0, 0)]
        with np.errstate(all="ignore"):
            total = self._part(word, a, b, zeros if c is None else c, first).astype(result)
            for part in others:
                total += self._part(word, a, b, zeros, part).astype(result)
        return _canonical(total)

    def _part(self, word: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, part: tuple) -> np.ndarray:
        """Return c + A·B over one part of the inner dimension."""
        a, b = a[:, slice(*part)], b[slice(*part)]
        return chain(a, b, c) if word in ("fp32", "fp64") else self._tensor_product(word, a, b, c)

    def _tensor_product(self, word: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Return C + A·B on the tensor core alone, in slabs shared among the workers."""
        m, n = c.shape
        if n < m:  # the arithmetic is symmetric, and long rows are faster
            return self._tensor_product(word, b.T, a.T, c.T).T
        if word == "tf32":
            a, b = round_to(a, word), round_to(b, word)
        c = c.astype(np.float64)
        size = np.abs(c[c != 0])
        ordinary = self.accumulate == "fp32" and bool(((size >= 2.0**-90) & (size <= 2.0**100)).all())
        operands = prepare(a, b, word, self.generation, wide=not ordinary)
        workers = max(1, min(self.workers, m * n // WORTH_A_WORKER))
        height = PRODUCTS_OF_A_STEP // (self.generation.widths[word] * max(1, min(n, SLAB_COLUMNS)))
        height = max(1, min(height, -(-m // workers)))
        corners = [
            (slice(i, min(i + height, m)), slice(j, min(j + SLAB_COLUMNS, n)))
            for i in range(0, m, height)
            for j in range(0, n, SLAB_COLUMNS)
        ]
        out, left = np.empty(c.shape, np.float32), deque(corners)
        with self._progress(a.size * n, len(corners)) as advance:

            def compute() -> None:
                for corner in taken(left):
                    out[corner] = self._slab(word, operands, corner, c[corner])
                    advance()

            in_threads(compute, workers - 1, left.clear)
        return out

    def _slab(self, word: str, x: Operands, corner: tuple[slice, slice], c: np.ndarray) -> np.ndarray:
        """Return one slab of results, computed block by block of the inner dimension."""
        rows, columns = corner
        width = self.generation.widths[word]
        core = BlockFMA(self.generation, self.accumulate, c.shape, width, x.wide)
        special = np.where(np.isfinite(c), 0.0, c)
        c = np.where(np.isfinite(c), c, 0.0).astype(x.a.dtype)
        with np.errstate(all="ignore"):
            for step in self.blocking.steps(0, len(x.a), width):
                block = slice(*step)
                core.step(x.a[block, rows], x.b[block, columns], x.ea[block, rows], x.eb[block, columns], c)
                if x.special_a is not None and x.special_b is not None:
                    beyond = x.special_a[block, rows].T @ x.special_b[block, columns]
                    special += np.where(np.isfinite(beyond), 0.0, beyond)
                if x.wide:
                    overflow = np.isinf(c)
                    special += np.where(overflow & (special == 0), c, 0.0)
                    c[overflow] = 0.0
        return np.where(special == 0, c, special)

    @contextmanager
    def _progress(self, products: int, steps: int) -> Iterator[Callable[[], None]]:
        """Yield what is to be called after each step, with a progress bar if `progress` says so."""
        shown = self.progress
        if shown is None:
            shown = products >= LONG_RUN and sys.stderr.isatty()
        if not shown:
            yield lambda: None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"Tensor core ({self.generation.name})", total=steps)
            yield lambda: bar.advance(task)


def _on_host(x: object, name: str) -> np.ndarray:
    """Return `x` in float64, exactly; TypeError if it is on a GPU, or float64 does not hold it."""
    array = as_array(x, name)
    if is_cupy(array):
        raise TypeError(f"{name} must be a NumPy array, since the model runs on the CPU: move it yourself")
    return widened(array, name)


def _rounded(x: np.ndarray, dtype: np.dtype, name: str) -> np.ndarray:
    """Return float64 `x` rounded to nearest even; ValueError for what rounds to no int8 or int32."""
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return x.astype(dtype)
    nearest, limits = np.rint(x), np.iinfo(dtype)
    beyond = ~((nearest >= limits.min) & (nearest <= limits.max))
    if beyond.any():
        raise ValueError(
            f"{name} must round to {dtype} numbers, {limits.min} to {limits.max}, got {x[beyond][0]}"
        )
    return nearest.astype(dtype)


def _canonical(x: np.ndarray) -> np.ndarray:
    """Return results with NaNs as the hardware writes them."""
    if x.dtype.kind != "f" or x.dtype == np.float64:
        return x
    return np.where(np.isnan(x), _NAN32 if x.dtype == np.float32 else _NAN16, x)


def _scale_and_add(sums: np.ndarray, out: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """Return alpha·sums + beta·out in the result's own arithmetic: beta·out rounded, then one fma."""
    if alpha == 1 and beta == 0:
        return sums
    with np.errstate(all="ignore"):
        scale, keep = np.array(alpha, sums.dtype), np.array(beta, sums.dtype)
        if sums.dtype.kind == "i":
            return scale * sums + (keep * out if beta else np.zeros_like(sums))
        added = keep * out if beta else np.zeros_like(sums)
        return _canonical(fma(np.broadcast_to(scale, sums.shape), sums, added))

"""A product by one scheme after another, until one passes the checks of the data.

The GPU does not wait for the host: it reads the flags of the operands while A_1·B_1 is under way, and those
of A_1·B_1 while the corrections are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from multiword.engines import Engine
from multiword.engines.cublas import current_handle
from multiword.engines.layouts import Storage, store_array
from multiword.engines.libcublas import COMPUTE_32F_PEDANTIC, CUDA_R_32F, GEMM_DEFAULT, OP_N, OP_T, routine
from multiword.fp32.choice import LONG_BLOCKS, candidates, coherence_limit, generation_of, rejection
from multiword.fp32.finish import finish, inspect
from multiword.fp32.measure import FlagsReadback, Vectors, measure_operands
from multiword.fp32.mmm import drift_weights, empty_sums, multiply_words
from multiword.fp32.plan import choose_panels
from multiword.fp32.schemes import Scheme
from multiword.fp32.split import SplitOperands, split_operands
from multiword.runtime.arrays import Array, is_cupy, namespace, to_float64
from multiword.runtime.memory import check_room, in_less_memory

_TARGET = {"fp16": 14, "bf16": 40, "tf32": 40}
_GUESSED_TARGET = {"fp16": 9, "bf16": 40, "tf32": 40}
"""Exponents to scale the vectors to: fp16's whole range, or five bits less where scales are guessed."""

_LARGEST_SHIFT = 60
"""Powers of two that a product may be scaled by within fp32 without coming near its limits."""


@dataclass(frozen=True)
class Gemm:
    """alpha·A·B + beta·C to be computed, (m, k) by (k, n), within so many bytes of workspace."""

    engine: Engine
    a: Array
    bt: Array
    alpha: float
    beta: float
    c: Array | None
    workspace: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n, k."""
        return self.a.shape[0], self.bt.shape[0], self.a.shape[1]

    @property
    def bare(self) -> bool:
        """Whether the result is A·B itself."""
        return self.alpha == 1 and (self.beta == 0 or self.c is None)

    def finishing(self, panel: tuple[slice, slice]) -> dict[str, Any]:
        """Return the arguments of `finish` for these rows and columns."""
        return {"alpha": self.alpha, "beta": self.beta, "c": None if self.c is None else self.c[panel]}

    def panels(self, scheme: Scheme) -> Iterator[tuple[slice, slice]]:
        """Yield rows and columns of panels that fit the workspace."""
        m, n, k = self.shape
        return choose_panels(m, n, k, scheme, self.workspace, not is_cupy(self.a))(m, n)


def execute(gemm: Gemm, scheme: Scheme | None) -> Array:
    """Return the product by this scheme, or by the fastest that passes, in panels that memory allows."""
    m, n, k = gemm.shape
    if 0 in (m, n, k):
        xp = namespace(gemm.a)
        out = xp.empty((m, n), np.float32)
        finish(xp.zeros((m, n)), None, out=out, **gemm.finishing((slice(None), slice(None))))
        return out

    check_room(gemm.a, (m, n), np.float32)

    def within(workspace: int) -> Array:
        part = replace(gemm, workspace=workspace)
        return _automatic(part) if scheme is None else _given(part, scheme)

    enough = 64 * ((m + n) * k + m * n) + 128 * (m + n)  # no scheme takes more
    return in_less_memory(within, min(gemm.workspace, enough), lambda: None)


def _automatic(gemm: Gemm) -> Array:
    for name, scheme in candidates(*gemm.shape, gemm.engine):
        result = _given(gemm, scheme) if scheme.plain else _attempt(gemm, name, scheme)
        if result is not None:
            return result
    raise AssertionError("the last candidate is a plain product")


def _attempt(gemm: Gemm, name: str, scheme: Scheme) -> Array | None:
    """Return the product by this scheme, or None if a check rejects it."""
    m, n, k = gemm.shape
    xp, engine, limit = namespace(gemm.a), gemm.engine, coherence_limit(k)
    vectors = measured(gemm, scheme, guess=True)
    out = xp.empty((m, n), np.float32)
    # Sums may be formed in the result where its rows begin at multiples of 64 bytes.
    in_place = gemm.bare and n % 16 == 0
    checks: list[FlagsReadback] = []
    for panel, split in _split_panels(gemm, vectors, readback=True):
        words = engine, scheme, split.left, split.right
        p = out[panel] if in_place else empty_sums(xp, scheme, *out[panel].shape)
        multiply_words(*words, p, (2, 2))
        flags = split.flags()
        if rejection(flags, scheme, k, long_blocks=name == LONG_BLOCKS):
            return None
        shift = flags.common_shift(vectors.target)
        if in_place and shift is not None and abs(shift) <= _LARGEST_SHIFT:
            inspect(p, split, centred=scheme.centred and flags.centring(k), limit=limit)
            checks.append(split.send())
            back = 2.0**-shift
            multiply_words(*words, p, (3, 8), scale=back, keep=back)
        else:
            multiply_words(*words, p, (3, 8), keep=1.0)
            finish(p, split, out=out[panel], limit=limit, **gemm.finishing(panel))
            checks.append(split.send())
        del split, words, p  # before the next panel's
    return None if any(check.wait().failed for check in checks) else out


def reason_for_rejection(gemm: Gemm, name: str, scheme: Scheme) -> str | None:
    """Return what speaks against this scheme before anything is multiplied, or None."""
    if scheme.plain or 0 in gemm.shape:
        return None
    for _, split in _split_panels(gemm, measured(gemm, scheme, guess=True), readback=True):
        flags = split.flags()  # of all panels so far
    return rejection(flags, scheme, gemm.shape[2], long_blocks=name == LONG_BLOCKS)


def _given(gemm: Gemm, scheme: Scheme) -> Array:
    """Return the product by this scheme, whatever its accuracy; not centred if that would cancel."""
    m, n, _ = gemm.shape
    xp = namespace(gemm.a)
    out = xp.empty((m, n), np.float32)
    if scheme.plain:
        _plain(gemm, scheme, out)
        return out
    checks: list[FlagsReadback] = []
    vectors = measured(gemm, scheme, guess=False)
    for panel, split in _split_panels(gemm, vectors, readback=scheme.centred):
        p = empty_sums(xp, scheme, *out[panel].shape)
        multiply_words(gemm.engine, scheme, split.left, split.right, p)
        finish(p, split, out=out[panel], **gemm.finishing(panel))
        if scheme.centred:
            checks.append(split.send())
        del split, p  # before the next panel's
    if any(check.wait().failed for check in checks):
        del out, vectors  # before the next product's
        return _given(gemm, replace(scheme, centred=False))
    return out


def _plain(gemm: Gemm, scheme: Scheme, out: Array) -> None:
    """Write one product of unsplit matrices, rounded once."""
    xp, narrow = namespace(gemm.a), scheme.word == "fp32"
    if narrow and gemm.engine.name in ("host", "cublas") and gemm.bare:
        multiply_natively(gemm.a, gemm.bt.T, out)  # reads any layout as it is, in no more memory
        return

    def operand(x: Array) -> Array:
        x = xp.ascontiguousarray(x)
        return x if narrow else to_float64(x)

    right, last_columns = None, None
    for panel in gemm.panels(scheme):
        rows, columns = panel
        if columns != last_columns:
            right, last_columns = operand(gemm.bt[columns]), columns
        left = operand(gemm.a[rows])
        if narrow and gemm.bare:
            gemm.engine.multiply(scheme.word, left, right, out=out[panel])
        else:
            p = gemm.engine.multiply(scheme.word, left, right)
            finish(p, None, out=out[panel], **gemm.finishing(panel))


def multiply_natively(a: Array, b: Array, out: Array) -> None:
    """Write the library's own fp32 products A·B of two stacks, in any layout, to `out`.

    Not by `cupy.matmul`, whose accuracy depends on the environment (CUPY_TF32), and which takes subnormal
    numbers of vectors as zero.
    """
    if not is_cupy(out):
        np.matmul(a, b, out=out)
    elif 0 in a.shape or not out.size:
        out[...] = 0
    else:
        *batch, m, n = out.shape
        stacks = [store_array(x, False, tuple(batch)) for x in (a, b, out)]
        call = native_call((prod(batch), m, n, a.shape[-1]), *stacks)
        routine("cublasGemmStridedBatchedEx")(current_handle().pointer, *call)


_ONE, _ZERO = np.array(1, np.float32), np.array(0, np.float32)


def native_call(sizes: tuple[int, int, int, int], a: Storage, b: Storage, out: Storage) -> tuple[int, ...]:
    """Return the arguments of `cublasGemmStridedBatchedEx`, after the handle, that write A·B to `out`.

    Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ: B comes first. sizes : of the batch, m, n and k.
    """
    (count, m, n, k), operations = sizes, [OP_N if x.layout.by_rows else OP_T for x in (b, a)]
    right, left, result = ((x.address, CUDA_R_32F, x.layout.leading, x.layout.stride) for x in (b, a, out))
    return (
        *(*operations, n, m, k, _ONE.ctypes.data, *right, *left),
        *(_ZERO.ctypes.data, *result, count, COMPUTE_32F_PEDANTIC, GEMM_DEFAULT),
    )


def measured(gemm: Gemm, scheme: Scheme, *, guess: bool) -> Vectors:
    """Measure the operands, from samples that are to be checked if `guess`."""
    target = (_GUESSED_TARGET if guess else _TARGET)[scheme.word] if scheme.scaled_lines else 0
    weights = drift_weights(generation_of(gemm.engine), scheme, gemm.a)
    return measure_operands(gemm.a, gemm.bt, scheme, target=target, guess=guess, weights=weights)


def _split_panels(
    gemm: Gemm, vectors: Vectors, *, readback: bool
) -> Iterator[tuple[tuple[slice, slice], SplitOperands]]:
    """Yield the panels of a product within the workspace, their operands in words."""
    split: SplitOperands | None = None
    for rows, columns in gemm.panels(vectors.scheme):
        right = split.right if split is not None and rows.start else None
        split = None  # frees its rows' words before the next ones are made
        split = split_operands(vectors, rows, columns, right, readback=readback)
        yield (rows, columns), split

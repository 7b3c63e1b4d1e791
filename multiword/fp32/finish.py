"""Finishing a product: undo scaling and centring, add beta·C, round once, and check.

With A = A' + a·1ᵀ and B = B' + 1·bᵀ (centres a and b), AB = A'B' + a·tᵀ + s·bᵀ, where s holds
the row sums of A and t the column sums of B' = B - 1·bᵀ. The rank-two part is exact to fp64.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multiword.fp32.bounds import AMPLIFICATION
from multiword.fp32.operand import Pair
from multiword.fp32.vectors import FAILED, Seen, exact_bits
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel

FINISH = Kernel(
    "multiword_finish",
    Path(__file__).with_name("finish.cu"),
    ({"SUM": "float", "ROWS": 32}, {"SUM": "double", "ROWS": 32}),
)

INSPECT = Kernel(
    "multiword_inspect",
    Path(__file__).with_name("inspect.cu"),
    ({"CENTRED": 0, "ROWS": 16, "BATCH": 8}, {"CENTRED": 1, "ROWS": 16, "BATCH": 4}),
)

WIDEN = Kernel(
    "multiword_widen",
    Path(__file__).with_name("widen.cu"),
)


def inspect(p: Array, pair: Pair, *, centred: bool, limit: float) -> None:
    """Check P = A_1·B_1 as `finish` does, and put the rank-two part back, in place and still scaled.

    For lines of one scale; n a multiple of 4 and rows of `p` aligned.
    """
    a, b, k = pair.left.lines, pair.right.lines, pair.left.x.shape[1]
    if is_cupy(p):
        (m, n), batch = p.shape, 4 if centred else 8
        INSPECT(
            (-(-n // 1024) * -(-m // 16),),
            (256,),
            (
                *(p, np.int64(p.strides[0] // 4), np.int32(m), np.int32(n), np.int32(k), a, b),
                *(np.float32(limit), np.float32(AMPLIFICATION), pair.of.flags, pair.address),
            ),
            CENTRED=int(centred),
            ROWS=16,
            BATCH=batch,
        )
        return
    failed = _incoherent(p, pair, limit)
    if centred:
        shift = a["shift"][0] + b["shift"][0]
        value, cancels = _rank_two(np.ldexp(p.astype(np.float64), -shift), pair)
        failed |= cancels
        np.copyto(p, np.ldexp(value, shift), casting="same_kind")
    pair.of.flags[FAILED] |= failed


def finish(
    p: Array,
    pair: Pair,
    *,
    out: Array,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Array | None = None,
    limit: float = np.inf,
) -> Array:
    """out = fl(alpha·AB + beta·C), from the product P of the scaled, centred words.

    p : (m, n) float32 or float64, the last axis contiguous. Lines with infinities and NaNs are
    multiplied again plainly, in fp64.
    limit : coherence |P|_ij over the 2-norms of row and column above which the pair's report is that
    1 failed; 2 failed if centring cancels more than `AMPLIFICATION` allows.
    """
    if is_cupy(p):
        return _on_device(p, pair, out, alpha, beta, c, limit)
    a, b = pair.left.lines, pair.right.lines
    value = np.ldexp(p.astype(np.float64), -(a["shift"][:, None] + b["shift"][None, :]))
    failed = _incoherent(p, pair, limit)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        seen = Seen.of([int(x) for x in pair.of.flags])
        if pair.of.scheme.centred and seen.centring(pair.left.x.shape[1]):
            value, cancels = _rank_two(value, pair)
            failed |= cancels
        if a["bad"].any() or b["bad"].any():
            rows, columns = np.flatnonzero(a["bad"]), np.flatnonzero(b["bad"])
            wide_a, wide_b = pair.left.x.astype(np.float64), pair.right.x.astype(np.float64)
            value[rows, :] = wide_a[rows] @ wide_b.T
            value[:, columns] = wide_a @ wide_b[columns].T
        _narrow(value, alpha, beta, c, out)
    pair.of.flags[FAILED] |= failed
    return out


def _incoherent(p: Array, pair: Pair, limit: float) -> int:
    """Whether a row and a column are more nearly parallel than the limit allows: 1, else 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        norms = pair.left.lines["norm2"][:, None] * (np.float32(limit) * pair.right.lines["norm2"])
        return int((np.abs(p) > norms).any())


def _rank_two(value: Array, pair: Pair) -> tuple[Array, int]:
    """A'B' + a·tᵀ + s·bᵀ in float64, and 2 if that cancels too much, else 0."""
    a, b, k = pair.left.lines, pair.right.lines, pair.left.x.shape[1]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        ai, bj = a["centre"].astype(np.float64)[:, None], b["centre"].astype(np.float64)
        value = (ai * (b["total"] - k * bj) + a["total"][:, None] * bj) + value
        # Σ|x| is at most Σ|y|·2^-s + k·|c|.
        of_a = np.ldexp(a["norm1"].astype(np.float64), -a["shift"])[:, None] + k * np.abs(ai)
        of_b = np.ldexp(b["norm1"].astype(np.float64), -b["shift"]) + k * np.abs(bj)
        terms = np.abs(ai) * of_b + of_a * np.abs(bj) + k * np.abs(ai * bj)
        return value, 2 * int((terms > AMPLIFICATION * np.abs(value)).any())


def round_product(p: Array, *, out: Array, alpha: float, beta: float, c: Array | None) -> Array:
    """out = fl(alpha·P + beta·C), rounded once from float64 arithmetic."""
    if is_cupy(p):
        return _on_device(p, None, out, alpha, beta, c, np.inf)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        _narrow(p.astype(np.float64), alpha, beta, c, out)
    return out


def widened(x: Array) -> Array:
    """A contiguous float32 array as float64, subnormal numbers and all."""
    if not is_cupy(x):
        return np.ascontiguousarray(x, np.float64)
    x = namespace(x).ascontiguousarray(x)
    out = namespace(x).empty(x.shape, np.float64)
    WIDEN((-(-x.size // 256),), (256,), (x, out, np.int64(x.size)))
    return out


def _narrow(value: Array, alpha: float, beta: float, c: Array | None, out: Array) -> None:
    value = value * alpha
    if c is not None and beta != 0:
        value = value + beta * c.astype(np.float64)
    np.copyto(out, value, casting="same_kind")


def _on_device(
    p: Array, pair: Pair | None, out: Array, alpha: float, beta: float, c: Array | None, limit: float
) -> Array:
    (m, n), none = p.shape, np.uint64(0)
    if p.size == 0:
        return out
    k, lines, operands = 0, (none, none, none, none, np.int32(0)), (none, np.int64(0), np.int64(0)) * 2
    if pair is not None:
        k, left, right = pair.left.x.shape[1], pair.left, pair.right
        lines = left.lines, right.lines, pair.of.flags, pair.address, np.int32(pair.of.scheme.centred)
        operands = tuple(
            item for o in (left, right) for item in (o.x, *(np.int64(s // 4) for s in o.x.strides))
        )
    c = None if beta == 0 else c
    addend = (none, np.int64(0), np.int64(0)) if c is None else (c, *(np.int64(s // 4) for s in c.strides))
    arguments = (
        *(p, np.int64(p.strides[0] // p.itemsize), out, np.int64(out.strides[0] // 4)),
        *(np.int32(m), np.int32(n), np.int32(k), np.float64(alpha), np.float64(beta), *addend),
        *(*lines, np.int32(exact_bits(k)), np.float32(limit), np.float32(AMPLIFICATION), *operands),
    )
    constants: dict[str, Any] = {"SUM": "float" if p.dtype == np.float32 else "double", "ROWS": 32}
    FINISH((-(-n // 512) * -(-m // 32),), (128,), arguments, **constants)
    return out

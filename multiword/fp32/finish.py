"""Finishing a product: check it, undo scaling and centring, add beta·C, round once.

With A = A' + a·1ᵀ and B = B' + 1·bᵀ (centres a and b), AB = A'B' + a·tᵀ + s·bᵀ, where s holds
the row sums of A and t the column sums of B' = B - 1·bᵀ. The rank-two part is exact to fp64.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from multiword.fp32.bounds import AMPLIFICATION
from multiword.fp32.measure import FAILED, Flags, exact_bits
from multiword.fp32.split import SplitOperands
from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.kernels import Kernel, Struct, members, pointers


class Finish(Struct):
    """The parameters of both kernels."""

    _fields_ = (
        *members(ctypes.c_void_p, "p", "out", "c", "a", "b", "flags", "report"),
        *members(ctypes.c_longlong, "ldp", "ldo", "c_row", "c_column"),
        *members(ctypes.c_longlong, "a_row", "a_step", "b_column", "b_step"),
        *members(ctypes.c_double, "alpha", "beta"),
        *members(ctypes.c_int, "m", "n", "k", "may_centre", "exact_bits"),
        *members(ctypes.c_float, "limit", "amplification"),
    )


_FILE = Path(__file__).with_name("finish.cu")

FINISH = Kernel(
    "multiword_finish",
    _FILE,
    tuple({"SUM": x, "ROWS": 32} for x in ("float", "double")),
    (Finish,),
    equals="multiword.fp32.finish.finish",
)

INSPECT = Kernel(
    "multiword_inspect",
    _FILE,
    tuple({"CENTRED": c, "SUM": "float", "ROWS": 16, "BATCH": b} for c, b in ((0, 8), (1, 4))),
    (Finish,),
    equals="multiword.fp32.finish.inspect",
)


def inspect(p: Array, split: SplitOperands, *, centred: bool, limit: float) -> None:
    """Check P = A_1·B_1 as `finish` does, and put the rank-two part back, in place and still scaled.

    For vectors of one scale; n a multiple of 4 and rows of `p` aligned.
    """
    if is_cupy(p):
        (m, n), rows = p.shape, 16
        how = _parameters(p, split, p, 1.0, 0.0, None, limit)
        constants: dict[str, Any] = {"CENTRED": int(centred), "BATCH": 4 if centred else 8}
        constants |= {"ROWS": rows, "SUM": "float"}
        INSPECT((-(-n // 1024) * -(-m // rows),), (256,), (how, split.left.of, split.right.of), **constants)
        return
    a, b = split.left.of, split.right.of
    failed = _incoherent(p, split, limit)
    if centred:
        shift = a["shift"][0] + b["shift"][0]
        value, cancels = _rank_two(np.ldexp(p.astype(np.float64), -shift), split)
        failed |= cancels
        np.copyto(p, np.ldexp(value, shift), casting="same_kind")
    split.vectors.flags[FAILED] |= failed


def finish(
    p: Array,
    split: SplitOperands | None,
    *,
    out: Array,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Array | None = None,
    limit: float = np.inf,
) -> None:
    """Write alpha·AB + beta·C, rounded once, to `out`, from the product P of the scaled, centred words.

    p : (m, n) float32 or float64, the last axis contiguous. Vectors with infinities and NaNs are
    multiplied again plainly, in fp64.
    split : None for a P that is AB itself.
    limit : coherence |P|_ij over the 2-norms of row and column above which the flags say that
    1 failed; 2 failed if centring cancels more than `AMPLIFICATION` allows.
    """
    if is_cupy(p):
        if p.size:
            (m, n), rows = p.shape, 32
            how = _parameters(p, split, out, alpha, beta, c, limit)
            of = pointers(None, None) if split is None else (split.left.of, split.right.of)
            constants: dict[str, Any] = {"SUM": "float" if p.dtype == np.float32 else "double", "ROWS": rows}
            FINISH((-(-n // 512) * -(-m // rows),), (128,), (how, *of), **constants)
        return
    value = p.astype(np.float64)
    with np.errstate(all="ignore"):
        if split is not None:
            value = _restored(value, p, split, limit)
        value = value * alpha
        if c is not None and beta != 0:
            value = value + beta * c.astype(np.float64)
        np.copyto(out, value, casting="same_kind")


def _restored(value: Array, p: Array, split: SplitOperands, limit: float) -> Array:
    """Return AB in float64, from P; failed checks are added to the flags."""
    a, b, flags = split.left.of, split.right.of, split.vectors.flags
    value = np.ldexp(value, -(a["shift"][:, None] + b["shift"][None, :]))
    flags[FAILED] |= _incoherent(p, split, limit)
    if split.vectors.scheme.centred and Flags.of(flags.tolist()).centring(split.k):
        value, cancels = _rank_two(value, split)
        flags[FAILED] |= cancels
    if a["bad"].any() or b["bad"].any():
        rows, columns = np.flatnonzero(a["bad"]), np.flatnonzero(b["bad"])
        wide_a, wide_b = split.left.x.astype(np.float64), split.right.x.astype(np.float64)
        value[rows, :] = wide_a[rows] @ wide_b.T
        value[:, columns] = wide_a @ wide_b[columns].T
    return value


def _incoherent(p: Array, split: SplitOperands, limit: float) -> int:
    """Return 1 if a row and a column are more nearly parallel than the limit allows, else 0."""
    with np.errstate(all="ignore"):
        norms = split.left.of["norm2"][:, None] * (np.float32(limit) * split.right.of["norm2"])
        return int((np.abs(p) > norms).any())


def _rank_two(value: Array, split: SplitOperands) -> tuple[Array, int]:
    """Return A'B' + a·tᵀ + s·bᵀ in float64, and 2 if that cancels too much, else 0."""
    a, b, k = split.left.of, split.right.of, split.k
    with np.errstate(all="ignore"):
        ai, bj = a["centre"].astype(np.float64)[:, None], b["centre"].astype(np.float64)
        value = (ai * (b["total"] - k * bj) + a["total"][:, None] * bj) + value
        # Σ|x| is at most Σ|y|·2^-s + k·|c|.
        of_a = np.ldexp(a["norm1"].astype(np.float64), -a["shift"])[:, None] + k * np.abs(ai)
        of_b = np.ldexp(b["norm1"].astype(np.float64), -b["shift"]) + k * np.abs(bj)
        terms = np.abs(ai) * of_b + of_a * np.abs(bj) + k * np.abs(ai * bj)
        return value, 2 * int((terms > AMPLIFICATION * np.abs(value)).any())


def _parameters(
    p: Array,
    split: SplitOperands | None,
    out: Array,
    alpha: float,
    beta: float,
    c: Array | None,
    limit: float,
) -> Finish:
    c = None if beta == 0 else c
    a, b = (None, None) if split is None else (split.left.x, split.right.x)
    (c_row, c_column), (a_row, a_step), (b_column, b_step) = (
        (0, 0) if x is None else (x.strides[0] // 4, x.strides[1] // 4) for x in (c, a, b)
    )
    k = 0 if split is None else split.k
    result = {"p": p, "ldp": p.strides[0] // p.itemsize, "out": out, "ldo": out.strides[0] // 4}
    result |= {"m": p.shape[0], "n": p.shape[1], "k": k, "exact_bits": exact_bits(k)}
    result |= {"c": c, "c_row": c_row, "c_column": c_column, "alpha": alpha, "beta": beta}
    vectors = {"a": a, "a_row": a_row, "a_step": a_step, "b": b, "b_column": b_column, "b_step": b_step}
    checks = {"limit": limit, "amplification": AMPLIFICATION, "flags": None, "report": None, "may_centre": 0}
    if split is not None:
        checks |= {"flags": split.vectors.flags, "report": split.report}
        checks["may_centre"] = split.vectors.scheme.centred
    return Finish(**result, **vectors, **checks)

"""One attempt at a product by one scheme, and the conditions under which its result counts.

The GPU is never kept waiting: what was seen while splitting is read while A_1·B_1 is under way,
and what was seen of A_1·B_1 while the corrections are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword.engines import Engine
from multiword.fp32.bounds import AMPLIFICATION
from multiword.fp32.finish import finish, inspect, round_product, widened
from multiword.fp32.mmm import drift_weights, empty_sums, multiply_words
from multiword.fp32.operand import Lines, Pair, measure_operands, split_operands
from multiword.fp32.panels import choose_panels, fits
from multiword.fp32.schemes import Scheme
from multiword.fp32.vectors import Report, Seen
from multiword.runtime.arrays import Array, is_cupy, namespace

SHARE = 250
"""Long blocks are used only if (Σ|y|)² reaches this many thousandths of k·Σy² in every line: 637
for normal, 750 for uniform elements, 1000·r/k if only r of k elements matter. A sum of a few
terms stays as large as they are, and is truncated in every further step."""

_TARGET = {"fp16": 14, "bf16": 40, "tf32": 40}
_GUESSED_TARGET = {"fp16": 9, "bf16": 40, "tf32": 40}
"""Exponents to scale the lines to: exactly known, all of fp16's range; guessed, six bits less."""

_EXPONENTS = {"fp16": (-math.inf, 15), "bf16": (-60, 50), "tf32": (-60, 50)}
"""Exponents that the scaled elements may have. (Below fp16's there is a finer condition.)"""

_LARGEST_SHIFT = 60
"""Powers of two that a product may be scaled by within fp32 without coming near its limits."""


@dataclass(frozen=True)
class Task:
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
        """Whether A·B is all that is asked for."""
        return self.alpha == 1 and (self.beta == 0 or self.c is None)

    def finishing(self, place: tuple[slice, slice]) -> dict[str, Any]:
        """What `finish` and `round_product` are to do with these rows and columns."""
        return {"alpha": self.alpha, "beta": self.beta, "c": None if self.c is None else self.c[place]}


def prepare(task: Task, scheme: Scheme, *, guess: bool) -> Lines:
    """Measure the operands. `guess`: from samples, to be checked."""
    target = (_GUESSED_TARGET if guess else _TARGET)[scheme.word] if scheme.scaled_lines else 0
    weights = drift_weights(task.engine, scheme, task.a)
    return measure_operands(task.a, task.bt, scheme, target=target, guess=guess, weights=weights)


def split_panels(task: Task, of: Lines, *, reporting: bool) -> Iterator[tuple[tuple[slice, slice], Pair]]:
    """The panels of a product within the workspace, one after another, their operands in words."""
    m, n, k = task.shape
    panels = choose_panels(m, n, k, of.scheme, task.workspace, not is_cupy(task.a))
    pair: Pair | None = None
    for rows, columns in panels(m, n):
        right = pair.right if pair is not None and rows.start else None
        pair = None  # its rows' words are given back before the next ones are made
        pair = split_operands(of, rows, columns, right, reporting=reporting)
        yield (rows, columns), pair


def objection(seen: Seen, scheme: Scheme, k: int, *, steady: bool) -> str | None:
    """Why the words do not carry the operands to fp32 accuracy, or None if they surely do.

    steady : whether the blocks are short enough for lines of a few large elements.

    fp16: an element below 2^-12 after scaling loses up to 2^-36. At most z elements of a row or
    column are so small and all are below 2^15; at least N (of a row) and M (of a column) reach
    2^2, so that N + M - k indices have both factors there: then (|A'||B'|)_ij ≥ 2^4·(N + M - k),
    and the loss, at most 2^-36·2^15·(z_A + z_B), is below 2^-25 of it if
    z_A + z_B ≤ N + M - k. That is asked for, unless no element is small.
    """
    low, high = _EXPONENTS[scheme.word]
    a, b = seen.a, seen.b
    if a["bad"] or b["bad"]:
        return "infinities or NaNs"
    for name, side in (("A", a), ("B", b)):
        if side["top"] and side["top"] - 300 > high:
            return f"the samples missed the largest elements of {name}"
        if side["low"] and 300 - side["low"] < low:
            return f"the exponents within a line of {name} range too far for {scheme.word} words"
    if not steady and max(a["spread"], b["spread"]) > 1000 - SHARE:
        return "a few elements of a line outweigh the others: blocks must be shorter"
    small, deficit = a["small"] + b["small"], a["deficit"] + b["deficit"]
    if scheme.word == "fp16" and small > max(0, k - deficit):
        return "small elements in the lines cannot be shown to be harmless in fp16 words"
    return None


def coherence_limit(k: int) -> float:
    """The largest |P_ij| over the norms of row and column that truncation is harmless for.

    Sums of one sign drift: up to this limit by less than the rounding errors of an fp32 sum
    (measured on the model and on an H200, benchmarks/notes-multiword.md). Independent random
    elements stay below 6.5/√k, and 8/√k with guessed centres.
    """
    return max(8.0 / math.sqrt(max(k, 1)), 0.125)


def attempt(task: Task, scheme: Scheme, *, steady: bool) -> tuple[Array | None, str | None]:
    """Return the product and None, or None and why this scheme will not do."""
    m, n, k = task.shape
    xp, engine, limit = namespace(task.a), task.engine, coherence_limit(k)
    of = prepare(task, scheme, guess=True)
    out = xp.empty((m, n), np.float32)
    in_place = task.bare and fits(out)
    verdicts: list[Report] = []
    for place, pair in split_panels(task, of, reporting=True):
        words = engine, scheme, pair.left, pair.right
        p = out[place] if in_place else empty_sums(xp, scheme, *out[place].shape)
        multiply_words(*words, p, (2, 2))
        seen = pair.seen()
        if reason := objection(seen, scheme, k, steady=steady):
            return None, reason
        shift = seen.common_shift(of.target)
        if in_place and shift is not None and abs(shift) <= _LARGEST_SHIFT:
            inspect(p, pair, centred=scheme.centred and seen.centring(k), limit=limit)
            verdicts.append(pair.sent())
            back = 2.0**-shift
            multiply_words(*words, p, (3, 8), scale=back, keep=back)
        else:
            multiply_words(*words, p, (3, 8), keep=1.0)
            finish(p, pair, out=out[place], limit=limit, **task.finishing(place))
            verdicts.append(pair.sent())
        del pair, words, p  # before the next panel's
    failed = 0
    for report in verdicts:
        failed |= report.read().failed
    if failed & 1:
        return None, "rows of A are aligned with columns of B: sums of one sign drift under truncation"
    if failed & 2:
        return None, f"centring would enlarge the error more than {AMPLIFICATION:g} times"
    return out, None


def unconditional(task: Task, scheme: Scheme) -> Array:
    """The product by this scheme, whatever its accuracy."""
    m, n, _ = task.shape
    xp = namespace(task.a)
    out = xp.empty((m, n), np.float32)
    if scheme.plain:
        _plain(task, scheme, out)
        return out
    of = prepare(task, scheme, guess=False)
    for place, pair in split_panels(task, of, reporting=False):
        p = empty_sums(xp, scheme, *out[place].shape)
        multiply_words(task.engine, scheme, pair.left, pair.right, p)
        finish(p, pair, out=out[place], **task.finishing(place))
        del pair, p  # before the next panel's
    return out


def _plain(task: Task, scheme: Scheme, out: Array) -> None:
    """One product of unsplit matrices, rounded once."""
    m, n, k = task.shape
    xp, narrow = namespace(task.a), scheme.word == "fp32"
    if narrow and task.engine.name in ("host", "cublas") and task.bare:
        xp.matmul(task.a, task.bt.T, out=out)  # reads any layout as it is, in no more memory
        return
    panels = choose_panels(m, n, k, scheme, task.workspace, not is_cupy(task.a))
    right, held = None, None
    for rows, columns in panels(m, n):
        operands = (task.a[rows], task.bt[columns])
        if held != columns:
            right, held = xp.ascontiguousarray(operands[1]) if narrow else widened(operands[1]), columns
        left = xp.ascontiguousarray(operands[0]) if narrow else widened(operands[0])
        place = rows, columns
        if narrow and task.bare:
            task.engine.multiply(scheme.word, left, right, out=out[place])
        else:
            p = task.engine.multiply(scheme.word, left, right)
            round_product(p, out=out[place], **task.finishing(place))

"""One attempt at a product by one scheme, and the conditions under which its result counts.

Nothing here waits for the device more than it must: what was seen while splitting is read once
the first product is under way, what was seen while finishing at the end.
"""

from __future__ import annotations

import math

import numpy as np

from multiword._arrays import Array, import_cupy, is_cupy, namespace
from multiword._bounds import AMPLIFICATION
from multiword._finish import finish, round_product, widened
from multiword._mmm import drift_weights, multiply_words
from multiword._operand import Pair, split_operands
from multiword._schemes import Scheme
from multiword.engines import Engine

SHARE = 250
"""Long blocks are used only if (Σ|y|)² reaches this many thousandths of k·Σy² in every line: 637
for normal, 750 for uniform elements, 1000·r/k if only r of k elements matter. A sum of a few
terms stays as large as they are, and is truncated in every further step."""

_TARGET = {"fp16": 14, "bf16": 40, "tf32": 40}
_GUESSED_TARGET = {"fp16": 9, "bf16": 40, "tf32": 40}
"""Exponents to scale the lines to: exactly known, all of fp16's range; guessed, six bits less."""

_EXPONENTS = {"fp16": (-math.inf, 15), "bf16": (-60, 50), "tf32": (-60, 50)}
"""Exponents that the scaled elements may have. (Below fp16's there is a finer condition.)"""


def prepare(a: Array, bt: Array, scheme: Scheme, engine: Engine, *, guess: bool) -> Pair:
    """Scale, centre and split (m, k) and (n, k) operands. `guess`: from samples, to be checked."""
    target = (_GUESSED_TARGET if guess else _TARGET)[scheme.word] if scheme.scaled_lines else 0
    return split_operands(a, bt, scheme, target=target, guess=guess, weights=drift_weights(engine, scheme, a))


class Report:
    """A copy of the flags on its way to the host."""

    def __init__(self, flags: Array) -> None:
        self._host, self._event = flags, None
        if is_cupy(flags):
            cupy = import_cupy()
            memory = cupy.cuda.alloc_pinned_memory(flags.nbytes)
            self._host = np.frombuffer(memory, flags.dtype, flags.size)
            flags.get(out=self._host, blocking=False)
            self._event = cupy.cuda.Event(disable_timing=True)
            self._event.record()

    def read(self) -> list[int]:
        """Wait for the copy, and return it."""
        if self._event is not None:
            self._event.synchronize()
        return [int(x) for x in self._host]


def objection(flags: list[int], scheme: Scheme, k: int, *, steady: bool) -> str | None:
    """Why the words do not carry the operands to fp32 accuracy, or None if they surely do.

    steady : whether the blocks are short enough for lines of a few large elements.

    fp16: an element below 2^-12 after scaling loses up to 2^-36. At most z elements of a row or
    column are so small and all are below 2^15; at least N (of a row) and M (of a column) reach
    2^2, so that N + M - k indices have both factors there: then (|A'||B'|)_ij ≥ 2^4·(N + M - k),
    and the loss, at most 2^-36·2^15·(z_A + z_B), is below 2^-25 of it if
    z_A + z_B ≤ N + M - k. That is asked for, unless no element is small.
    """
    low, high = _EXPONENTS[scheme.word]
    a, b = flags[2:8], flags[8:14]
    if a[0] or b[0]:
        return "infinities or NaNs"
    for name, side in (("A", a), ("B", b)):
        if side[3] and side[3] - 300 > high:
            return f"the samples missed the largest elements of {name}"
        if side[4] and 300 - side[4] < low:
            return f"the exponents within a line of {name} range too far for {scheme.word} words"
    if not steady and max(a[5], b[5]) > 1000 - SHARE:
        return "a few elements of a line outweigh the others: blocks must be shorter"
    small, deficit = a[1] + b[1], a[2] + b[2]
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


def attempt(
    a: Array,
    bt: Array,
    scheme: Scheme,
    engine: Engine,
    *,
    steady: bool,
    alpha: float,
    beta: float,
    c: Array | None,
) -> tuple[Array | None, str | None]:
    """Return the product and None, or None and why this scheme will not do."""
    ready = prepare(a, bt, scheme, engine, guess=True)
    report, k, reason = Report(ready.flags), a.shape[1], None

    def proceed() -> bool:
        nonlocal reason
        reason = objection(report.read(), scheme, k, steady=steady)
        return reason is None

    p = multiply_words(engine, scheme, ready.left, ready.right, proceed=proceed)
    if p is None:
        return None, reason
    out = namespace(a).empty(p.shape, np.float32)
    finish(p, ready, out=out, alpha=alpha, beta=beta, c=c, limit=coherence_limit(k))
    failed = int(ready.flags[14])
    if failed & 1:
        return None, "rows of A are aligned with columns of B: sums of one sign drift under truncation"
    if failed & 2:
        return None, f"centring would enlarge the error more than {AMPLIFICATION:g} times"
    return out, None


def unconditional(
    a: Array, bt: Array, scheme: Scheme, engine: Engine, *, alpha: float, beta: float, c: Array | None
) -> Array:
    """The product by this scheme, whatever its accuracy."""
    out = namespace(a).empty((a.shape[0], bt.shape[0]), np.float32)
    if scheme.plain:
        if scheme.word == "fp32" and engine.name in ("host", "cublas") and alpha == 1 and beta == 0:
            return namespace(a).matmul(a, bt.T, out=out)  # reads any layout as it is
        narrow = scheme.word == "fp32"
        left, right = (namespace(x).ascontiguousarray(x) if narrow else widened(x) for x in (a, bt))
        direct = narrow and alpha == 1 and (beta == 0 or c is None)
        p = engine.multiply(scheme.word, left, right, out=out if direct else None)
        return p if direct else round_product(p, out=out, alpha=alpha, beta=beta, c=c)
    ready = prepare(a, bt, scheme, engine, guess=False)
    p = multiply_words(engine, scheme, ready.left, ready.right)
    return finish(p, ready, out=out, alpha=alpha, beta=beta, c=c)

"""Functions of rows on a CPU: by compiled code, which tells what rows it leaves in doubt.

float32 rows are enclosed; of float64 ones softmax and its logarithms are computed by their steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multiword.runtime.arrays import quietly
from multiword.runtime.compiled import cached_form, compiled
from multiword.runtime.parallel import compiled_block, over_rows
from ozaki.elementary.evaluate import decide
from ozaki.sums.exact.rows import LANES
from ozaki.tuning import LONGEST_ALONE, MOST_ENCLOSED, SHORT_ROW

REDUCED, AFFINE = ("logsumexp", "inverse_deviation"), ("layer_norm", "rms_norm")
"""Functions with one result a row, and those that take a weight and a bias."""

FORMS = dict.fromkeys(("softmax", "log_softmax", "logsumexp"), "ozaki.rowwise.loops_numba")
FORMS["safe_softmax"] = FORMS["softmax"]  # rows of −Inf alone are left in doubt
POWERS = frozenset(FORMS) - {"safe_softmax"}
FORMS |= dict.fromkeys(("layer_norm", "rms_norm", "inverse_deviation"), "ozaki.rowwise.norms_numba")

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_NOTHING = np.empty(0, _FLOAT32)


def run(
    kind: str,
    rows: np.ndarray,
    *given: float,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return one of `FORMS` of rows, and the indices of those in doubt, if some are.

    None for rows of other dtypes, or too long, and where there is no compiled code. given : what the function
    takes before rows. weight and bias are contiguous, and as long as a row.
    """
    if rows.dtype is _FLOAT64:
        return _of_doubles(kind.removeprefix("safe_"), rows)
    (count, n), single = rows.shape, rows.dtype is _FLOAT32
    form = compiled(FORMS[kind]) if single and 1 < n <= MOST_ENCLOSED else None
    if form is None:
        return None
    write, reduced = getattr(form, kind.removeprefix("safe_")), kind in REDUCED
    out, doubtful = np.empty((count, 1 if reduced else n), np.float32), np.empty(count, np.uint8)
    affine = [_NOTHING if x is None else _plain(x) for x in (weight, bias) if kind in AFFINE]

    def work(block: slice) -> None:
        with quietly(rows):
            write(*given, _plain(rows[block]), *affine, out[block], doubtful[block], np.empty(n))

    over_rows(work, count, n, compiled_block(rows.size))
    left = np.flatnonzero(doubtful)
    return out, left if left.size else None


def _of_doubles(kind: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None] | None:
    """The same of float64 rows: None of short ones, and of long ones, whose numbers are shared out."""
    count, n = rows.shape
    usual = n <= LONGEST_ALONE if count == 1 else SHORT_ROW <= n <= MOST_ENCLOSED
    if not usual or kind not in POWERS or (loops := _loops_of_powers(kind)) is None:
        return None
    if count > 1 and abs(rows.strides[1]) > abs(rows.strides[0]):  # columns
        return None
    begin, finish = loops
    powers, doubtful = np.empty((count, n)), np.empty(count, np.uint8)
    out, left = np.empty((count, 1)) if kind in REDUCED else powers, list[int]()

    def work(block: slice) -> None:
        x, some = _plain(rows[block]), powers[block]
        largest, undecided = np.empty(len(x)), np.empty(x.shape, np.uint8)
        if begin(x, largest, np.empty(n), some, undecided):
            (where,) = undecided.reshape(-1).view(np.bool_).nonzero()
            some.reshape(-1)[where] = decide(
                "exp_minus", _FLOAT64, [x.reshape(-1)[where], largest[where // n]]
            )
        scratch = np.empty((3, LANES)), np.empty((2, 1)), np.empty(1, np.uint8)
        left.append(finish(x, largest, some, *scratch, out[block], doubtful[block]))

    over_rows(work, count, n, compiled_block(rows.size))
    return out, np.flatnonzero(doubtful) if any(left) else None


@cached_form
def _loops_of_powers(kind: str) -> tuple[Callable[..., int], Callable[..., int]] | None:
    """Return what writes powers, and what makes a function of them, unchecked."""
    if (loops := compiled("ozaki.rowwise.powers_numba")) is None:
        return None
    return loops.begin.unchecked(), getattr(loops, kind).unchecked()


def _plain(x: np.ndarray) -> np.ndarray:
    """Return an array as compiled code reads it."""
    return x if x.flags.carray else np.require(x, requirements=("C", "A"))

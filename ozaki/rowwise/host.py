"""Functions of float32 rows on a CPU: by compiled code, which tells what rows it leaves in doubt."""

from __future__ import annotations

import numpy as np

from multiword.runtime.arrays import quietly
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import compiled_block, over_rows
from ozaki.tuning import MOST_ENCLOSED

REDUCED, AFFINE = ("logsumexp", "inverse_deviation"), ("layer_norm", "rms_norm")
"""Functions with one result a row, and those that take a weight and a bias."""

FORMS = dict.fromkeys(("softmax", "log_softmax", "logsumexp"), "ozaki.rowwise.loops_numba")
FORMS["safe_softmax"] = FORMS["softmax"]  # rows of −Inf alone are left in doubt
FORMS |= dict.fromkeys(("layer_norm", "rms_norm", "inverse_deviation"), "ozaki.rowwise.norms_numba")

_FLOAT32 = np.dtype(np.float32)
_NOTHING = np.empty(0, _FLOAT32)


def run(
    kind: str,
    rows: np.ndarray,
    *given: float,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return one of `FORMS` of rows, and the indices of those in doubt, if some are.

    None for rows that are not float32, or too long, and where there is no compiled code. given : what the
    function takes before rows. weight and bias are contiguous, and as long as a row.
    """
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


def _plain(x: np.ndarray) -> np.ndarray:
    """Return an array as compiled code reads it."""
    return np.require(x, requirements=("C", "A"))

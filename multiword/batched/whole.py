"""The kernel for the smallest matrices: whole matrices in shared memory, several for each block."""

from dataclasses import replace
from pathlib import Path

from multiword.batched.plans import Blocking, plan_whole, sample_case
from multiword.batched.storage import Layout
from multiword.runtime.kernels import Kernel

_LISTED = Layout(0, 20, True, True, 2)
_PAIRS = {"complex": True, "conj_a": True, "conj_b": True}
_PLAIN = Blocking("plain", threads=64)
_DIRECT = Blocking("whole", direct=True)
_CASES = (
    (Blocking("whole"), sample_case(16, 16, 16)),
    (
        Blocking("whole", tile_m=2, tile_n=2),
        sample_case(32, 32, 32, bf16=True, alpha=1, a=Layout(1024, 32, False, False, 16)),
    ),
    (
        Blocking("whole"),
        sample_case(20, 12, 20, acc16=True, beta=1, c=Layout(240, 12, True, False, 8), a=_LISTED),
    ),
    (
        Blocking("whole"),
        sample_case(
            7, 9, 11, alpha=1, beta=1, c=Layout(63, 9, True, False, 2), b=Layout(0, 9, True, False, 2)
        ),
    ),
    (Blocking("whole"), sample_case(16, 16, 16, **_PAIRS, alpha=2, beta=2, c=Layout(0, 16, True, False, 16))),
    (
        Blocking("whole"),
        sample_case(7, 9, 11, **_PAIRS, a=Layout(80, 7, False, False, 4), b=Layout(99, 11, False, False, 4)),
    ),
    (Blocking("whole"), sample_case(8, 8, 8, acc16=True)),
    (Blocking("whole"), sample_case(5, 5, 5)),
    (Blocking("whole"), sample_case(4, 4, 4, **_PAIRS)),
    (_DIRECT, sample_case(16, 16, 16)),
    (_DIRECT, sample_case(7, 8, 8, bf16=True, alpha=1, beta=1, c=Layout(56, 8, True, False, 16))),
    (_DIRECT, sample_case(20, 12, 20, a=_LISTED)),
    (_DIRECT, sample_case(4, 4, 4, **_PAIRS)),
    (_DIRECT, sample_case(9, 11, 5, **_PAIRS, a=Layout(45, 9, False, False, 4))),
    (replace(_PLAIN, direct=True), sample_case(4, 4, 4)),
    (replace(_PLAIN, direct=True), sample_case(3, 3, 3, **_PAIRS)),
    (_PLAIN, sample_case(8, 8, 8)),
    (_PLAIN, sample_case(3, 5, 7, bf16=True, alpha=1, beta=1, c=Layout(15, 5, True, False, 2))),
    (
        _PLAIN,
        sample_case(6, 6, 6, acc16=True, a=Layout(36, 6, False, False, 4), b=Layout(40, 6, False, False, 4)),
    ),
    (_PLAIN, sample_case(4, 4, 4, **_PAIRS)),
    (_PLAIN, sample_case(5, 3, 2, **_PAIRS, acc16=True, alpha=2, beta=2, c=Layout(15, 3, True, False, 4))),
)

WHOLE = Kernel(
    "batched_whole",
    Path(__file__).with_name("whole.cu"),
    instances=tuple(dict(plan.constants) for x, y in _CASES if (plan := plan_whole(y, x, 132))),
)
"""Copies the whole matrices of a group of products into shared memory and multiplies them there.

PLAIN: ordinary arithmetic, one row of C for each thread; otherwise tensor cores. DIRECT: nothing
is copied, the operands are read where they are. X_FLAT: the
stack is one stretch of memory, moved as such; otherwise rows in pieces of X_VEC bytes.
X_LD and X_STRIDE are those in shared memory, X_ALIGN its alignment, all in entries.
NumPy form: `multiword.batched.host.multiply`, within the bound stated there.
"""

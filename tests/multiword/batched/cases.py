"""Cases of batched products without data, and the instances that cover every branch of their kernels."""

from dataclasses import replace
from typing import Any

from multiword.batched.gpu.plans import Case, Tuning, resident_launch, tiled_launch
from multiword.engines.layouts import Layout


def sample_case(m: int, n: int, k: int, **changes: Any) -> Case:
    """Return a case with packed, aligned stacks and every option off, but for the changes."""
    case: dict[str, Any] = dict.fromkeys(("complex", "bf16", "acc16", "conj_a", "conj_b"), False)
    case |= {"alpha": 0, "beta": 0, "c": None, "in_phase": True}
    case |= {"a": _rows(m * k, k, 16), "b": _rows(k * n, n, 16), "out": _rows(m * n, n, 16)}
    return Case(m, n, k, 1000, **(case | changes))


def _rows(stride: int, leading: int, alignment: int, listed: bool = False) -> Layout:
    return Layout(stride, leading, True, listed, alignment)


def _columns(stride: int, leading: int, alignment: int) -> Layout:
    return Layout(stride, leading, False, False, alignment)


_COLUMNS = _columns(1024, 32, 16)
_LISTED = _rows(0, 20, 2, listed=True)
_PAIRS = {"complex": True, "conj_a": True, "conj_b": True}
_REAL, _COMPLEX = {"alpha": 1, "beta": 1}, {**_PAIRS, "alpha": 2, "beta": 2}
_PLAIN = Tuning("plain", threads=64)
_RESIDENT, _DIRECT, _TILED = Tuning("resident"), Tuning("resident", direct=True), Tuning("tiled")

RESIDENT = (
    (_RESIDENT, sample_case(16, 16, 16)),
    (Tuning("resident", tile_m=2, tile_n=2), sample_case(32, 32, 32, bf16=True, alpha=1, a=_COLUMNS)),
    (_RESIDENT, sample_case(20, 12, 20, acc16=True, beta=1, c=_rows(240, 12, 8), a=_LISTED)),
    (_RESIDENT, sample_case(7, 9, 11, **_REAL, c=_rows(63, 9, 2), b=_rows(0, 9, 2))),
    (_RESIDENT, sample_case(16, 16, 16, **_COMPLEX, c=_rows(0, 16, 16))),
    (_RESIDENT, sample_case(7, 9, 11, **_PAIRS, a=_columns(80, 7, 4), b=_columns(99, 11, 4))),
    (_RESIDENT, sample_case(8, 8, 8, acc16=True)),
    (_RESIDENT, sample_case(5, 5, 5)),
    (_RESIDENT, sample_case(4, 4, 4, **_PAIRS)),
    (_DIRECT, sample_case(16, 16, 16)),
    (_DIRECT, sample_case(7, 8, 8, **_REAL, bf16=True, c=_rows(56, 8, 16))),
    (_DIRECT, sample_case(20, 12, 20, a=_LISTED)),
    (_DIRECT, sample_case(4, 4, 4, **_PAIRS)),
    (_DIRECT, sample_case(9, 11, 5, **_PAIRS, a=_columns(45, 9, 4))),
    (replace(_PLAIN, direct=True), sample_case(4, 4, 4)),
    (replace(_PLAIN, direct=True), sample_case(3, 3, 3, **_PAIRS)),
    (_PLAIN, sample_case(8, 8, 8)),
    (_PLAIN, sample_case(3, 5, 7, **_REAL, bf16=True, c=_rows(15, 5, 2))),
    (_PLAIN, sample_case(6, 6, 6, acc16=True, a=_columns(36, 6, 4), b=_columns(40, 6, 4))),
    (_PLAIN, sample_case(4, 4, 4, **_PAIRS)),
    (_PLAIN, sample_case(5, 3, 2, **_COMPLEX, acc16=True, c=_rows(15, 3, 4))),
)

_FOUR = Tuning("tiled", tile_m=4, tile_n=4, stages=2)
_ANYWHERE = _rows(10000, 100, 8, listed=True)
TILED = (
    (_TILED, sample_case(64, 64, 64)),
    (_TILED, sample_case(65, 67, 63, **_REAL, c=_rows(4355, 67, 2))),
    (_FOUR, sample_case(100, 100, 100, acc16=True, a=_ANYWHERE, b=_ANYWHERE)),
    (replace(_TILED, tile_m=4, tile_n=4, warps_n=4, stages=4, persistent=1), sample_case(256, 256, 256)),
    (replace(_TILED, tile_n=5, warps_m=7, warps_n=1), sample_case(64, 62, 66, bf16=True)),
    (_TILED, sample_case(64, 64, 64, a=_columns(4096, 64, 16))),
    (_TILED, sample_case(64, 64, 64, **_COMPLEX, c=_rows(0, 64, 16))),
    (_TILED, sample_case(65, 65, 65, **_PAIRS, a=_columns(4225, 65, 4), b=_columns(4225, 65, 4))),
)

INSTANCES = {
    "batched_resident": [dict(resident_launch(case, tuning, 132).constants) for tuning, case in RESIDENT],
    "batched_tiled": [dict(tiled_launch(case, tuning).constants) for tuning, case in TILED],
}
"""Constants by the name of the kernel."""

"""Sums of rows that have one index, on a GPU: the kernel without one. `tests/gpu/test_torch.py` has bits."""

from fractions import Fraction

import numpy as np
import pytest

from multiword.runtime.machine_code import OPTIONS
from ozaki.elementary.rounding import nearest
from ozaki.rowwise.sums_of_rows import RowsByIndex, source
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, FLUSHING, OTHERS, compile_kernel
from tests.rowwise.test_cuda import TEAM, compiled, launched


def test_compiles_without_contraction():
    for architecture in (ARCHITECTURE, *OTHERS):
        ptx = compile_kernel(source(256), (f"--gpu-architecture={architecture}", *OPTIONS))
        assert not FLUSHING.findall(ptx)


@pytest.mark.parametrize("opened", [False, True])
def test_sums_are_exact_and_rounded_once(opened, tmp_path):
    """Of rows without numbers, with one and with many; wide, cancelling, half way between two numbers."""
    rng, decision = np.random.default_rng(1), "!one_number(value + (rest - margin), value + (rest + margin))"
    text = source(TEAM)
    assert text.count(decision) == 1
    library = compiled(text.replace(decision, "true") if opened else text, tmp_path)
    at, rows, columns = rng.integers(0, 9, 80), 12, 11
    values = (rng.standard_normal((80, columns)) * 2.0 ** rng.integers(-60, 60, (80, 1))).astype(np.float32)
    values[:, 1] = rng.integers(-3, 4, 80)
    values[:, 2] = np.where(np.arange(80) % 2, 2.0**-24, 1)
    values[:, 3] = -0.0
    values[:, 4] = rng.integers(-9, 9, 80) * 2.0**-149
    values[40:, 5] = -values[:40, 5]

    def summed(at):
        order, out = np.argsort(at, kind="stable"), np.full((rows, columns), -1, np.float32)
        starts = np.searchsorted(at[order], np.arange(rows + 1))
        shape = RowsByIndex(rows=rows, columns=columns)
        launched(library, "sums_of_rows", 3, (values, order, starts, out), shape)
        return out

    out = summed(at)
    for r in range(rows):
        for c in range(columns):
            total = sum(map(Fraction, values[at == r, c].tolist()))
            assert out[r, c] == (nearest(total, np.dtype(np.float32)) if total else 0)
            assert not np.signbit(out[r, c]) or total < 0
    values[:5, 0], at[:5] = (np.inf, np.nan, -np.inf, np.inf, -np.inf), (9, 9, 10, 11, 11)
    out = summed(at)
    assert np.isnan(out[[9, 11], 0]).all()
    assert out[10, 0] == -np.inf

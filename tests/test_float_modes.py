"""Results do not depend on the floating-point mode: flushed subnormal numbers, directed roundings."""

import ctypes
import platform
from contextlib import contextmanager

import numpy as np
import pytest

import multiword
import ozaki
from multiword.runtime import floats, parallel
from ozaki import linalg
from ozaki.linalg import verified
from tests.cells import cells
from tests.oracle import same

REGISTERS = {
    "x86_64": (
        28,  # MXCSR
        {"FTZ": 0x8000, "DAZ": 0x0040, "both": 0x8040, "down": 0x2000, "up": 0x4000, "zero": 0x6000},
    ),
    "aarch64": (0, {"FZ": 1 << 24, "up": 1 << 22, "down": 2 << 22, "zero": 3 << 22}),  # FPCR
}
"""By processor: where the mode is in glibc's fenv_t, in bytes, and the bits of each mode."""

OFFSET, MODES = REGISTERS.get(platform.machine(), REGISTERS["x86_64"])
FLUSHING = tuple(bits for name, bits in MODES.items() if name not in ("down", "up", "zero"))
known_register = pytest.mark.skipif(platform.machine() not in REGISTERS, reason="another register")
pytestmark = known_register


@contextmanager
def mode(bits):
    libm, own, changed = ctypes.CDLL(None), *(ctypes.create_string_buffer(32) for _ in range(2))
    libm.fegetenv(own)
    changed.raw = own.raw
    ctypes.c_uint32.from_buffer(changed, OFFSET).value |= bits
    libm.fesetenv(changed)
    try:
        yield
    finally:
        libm.fesetenv(own)


TINY = np.full((40, 40), 5e-324)
TINY_SINGLE = np.full((40, 40), 1e-45, np.float32)
WILD = np.random.default_rng(0).standard_normal((300, 300)) * 2.0 ** np.arange(-1060, -760)
HALF = np.random.default_rng(1).standard_normal((300, 300))
PLAN = ozaki.plan(HALF, HALF)
SINGLE, HALVES = HALF.astype(np.float32), HALF.astype(np.float16)
FEW = SINGLE[:40, :40]  # a BLAS's threads may add in another order each time: these it leaves to one
LABELS = np.arange(300) % 7

CALLS = {
    "sum": lambda: [ozaki.sum(TINY), ozaki.sum(WILD, axis=0), ozaki.sum(TINY_SINGLE, axis=1)],
    "mean": lambda: [ozaki.mean(TINY), ozaki.mean(WILD, axis=1)],
    "var": lambda: [ozaki.var(WILD, axis=0), ozaki.nansum(TINY)],
    "dot": lambda: [ozaki.dot(TINY[0], np.full(40, 0.75)), ozaki.norm(TINY)],
    "cumsum": lambda: [ozaki.cumsum(TINY[0])],
    "products": lambda: [ozaki.matmul(WILD, HALF, accuracy=x) for x in ("fp64", "exact", 53)],
    "small products": lambda: [ozaki.matmul(TINY, HALF[:40, :40]), ozaki.matmul(WILD[:4, :4], HALF[:4, :4])],
    "stacks": lambda: [ozaki.matmul(np.stack([WILD[:40]] * 3), HALF)],
    "with c": lambda: [ozaki.accurate_dgemm(TINY, TINY, alpha=0.5, beta=3.0, c=TINY)],
    "roundings to float32": lambda: [ozaki.accurate_sgemm(HALF, HALF, alpha=0.1)],
    "plans": lambda: [np.array(ozaki.plan(WILD, HALF).bound), PLAN.error_times(HALF[0])],
    "textbook sums": lambda: [np.array([f(HALF[0]) for f in (ozaki.near_sum, ozaki.acc_sum, ozaki.sum_k)])],
    "linear algebra": lambda: [
        linalg.solve(HALF, WILD[:, 0]),
        *linalg.lu_factor(WILD),
        *linalg.qr(HALF[:, :9]),
    ],
    "proofs": lambda: [*(getattr(x, n) for x in [verified.solve(HALF, HALF[0])] for n in ("value", "bound"))],
    "residuals": lambda: [ozaki.residual(HALF, HALF[0], WILD[0]), *ozaki.two_word_product(HALF[:9], WILD)],
    "groups": lambda: [ozaki.group_sum(WILD[0], LABELS, 7), ozaki.group_var(WILD[0], LABELS, 7)],
    "gram and its like": lambda: [ozaki.gram(WILD), ozaki.cov(HALF[:9]), ozaki.cdist_squared(HALF, HALF[:9])],
    "contractions": lambda: [ozaki.einsum("ij,jk->ik", WILD, HALF), ozaki.vecdot(WILD, HALF)],
    "words": lambda: [multiword.matmul(FEW, FEW.T), *multiword.split(SINGLE, "bf16", 3)],
    "tensor cores": lambda: [multiword.TensorCore("H200").gemm(*[HALVES[:40, :40]] * 2)],
    "batches": lambda: [multiword.batched_matmul(*[HALVES[:, :20].reshape(-1, 20, 20)] * 2)],
    "accumulator": lambda: [ozaki.ExactSum("float64", (40,)).add(TINY).round()],
}


@cells(name=MODES, call=CALLS)
def test_every_mode_gives_the_bits_of_the_default(name, call):
    expected = CALLS[call]()
    parallel._pool.cache_clear()  # its threads would have the mode of the one that starts them
    with mode(MODES[name]):
        found = CALLS[call]()
        assert not floats.is_default(), "the caller's mode is the caller's"
    assert all(map(same, found, expected))


def test_a_mode_that_cannot_be_changed_is_refused(monkeypatch):
    """As there is no C library that would."""

    def no_library(_):
        raise OSError("there is none")

    with mode(FLUSHING[0]), monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", no_library)
        floats._fenv.cache_clear()
        try:
            with pytest.raises(RuntimeError, match="flushes subnormal numbers to zero"):
                ozaki.sum(TINY)
        finally:
            floats._fenv.cache_clear()

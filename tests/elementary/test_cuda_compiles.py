"""The printed kernels compile, without a GPU, and contract nothing."""

from itertools import product

import pytest

from multiword.runtime.machine_code import OPTIONS
from ozaki.elementary.cuda import source
from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.slopes import SLOPES, slope_name
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, FLUSHING, compile_kernel

FEW = [("exp", False, False), ("tanh", True, True), ("sin", False, False), ("gelu", True, True)]
SLOPES_OF = [slope_name(name, i) for name, slopes in SLOPES.items() for i in range(len(slopes))]
FEW += [(slope_name("gelu", 0), True, True), (slope_name("pow", 1), False, False)]
ALL = list(product([*FUNCTIONS, *SLOPES_OF], (True, False), (True, False)))

APPROXIMATIONS = {"rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"}
"""Of normal numbers (`inverses.cuh`)."""

TWO_STEPS = """__device__ double two_steps(double a, double b, double c) {
  return __dadd_rn(__dmul_rn(a, b), c);
}
"""


@pytest.mark.parametrize(
    "kernel", [pytest.param(k, marks=() if k in FEW else pytest.mark.slow) for k in ALL], ids=str
)
def test_compiles_without_contraction(kernel):
    """Where the texts' own fma are two operations, none is left."""
    text = source(*kernel)
    options = (f"--gpu-architecture={ARCHITECTURE}", *OPTIONS)
    assert set(FLUSHING.findall(compile_kernel(text, options))) <= APPROXIMATIONS
    assert "fma.rn.f64" not in compile_kernel(TWO_STEPS + text.replace("__fma_rn(", "two_steps("), options)

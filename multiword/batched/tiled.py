"""The kernel for larger matrices: tiles of C, the inner dimension in stages."""

from pathlib import Path

from multiword.batched.plans import Blocking, plan_tiled, sample_case
from multiword.batched.storage import Layout
from multiword.runtime.kernels import Kernel

_PAIRS = {"complex": True, "conj_a": True, "conj_b": True}
_CASES = (
    (Blocking("tiled"), sample_case(64, 64, 64)),
    (Blocking("tiled"), sample_case(65, 67, 63, alpha=1, beta=1, c=Layout(4355, 67, True, False, 2))),
    (
        Blocking("tiled", tile_m=4, tile_n=4, stages=2),
        sample_case(
            100,
            100,
            100,
            acc16=True,
            a=Layout(10000, 100, False, True, 8),
            b=Layout(10000, 100, False, True, 8),
        ),
    ),
    (Blocking("tiled", tile_m=4, tile_n=4, warps_n=4, stages=4, resident=1), sample_case(256, 256, 256)),
    (Blocking("tiled", tile_m=1, tile_n=5, warps_m=7, warps_n=1), sample_case(64, 62, 66, bf16=True)),
    (Blocking("tiled"), sample_case(64, 64, 64, a=Layout(4096, 64, False, False, 16))),
    (Blocking("tiled"), sample_case(64, 64, 64, **_PAIRS, alpha=2, beta=2, c=Layout(0, 64, True, False, 16))),
    (
        Blocking("tiled"),
        sample_case(
            65, 65, 65, **_PAIRS, a=Layout(4225, 65, False, False, 4), b=Layout(4225, 65, False, False, 4)
        ),
    ),
)

TILED = Kernel(
    "batched_tiled",
    Path(__file__).with_name("tiled.cu"),
    instances=tuple(dict(plan.constants) for x, y in _CASES if (plan := plan_tiled(y, x))),
)
"""One tile of C for each block: WARPS_M × WARPS_N warps of TM × TN tensor-core tiles.

The inner dimension passes through shared memory in STAGES buffers of STEPS instructions each.
Sizes, leading dimensions and strides are free; X_VEC is the widest aligned piece in bytes.
NumPy form: `multiword.batched.host.multiply`, within the bound stated there.
"""

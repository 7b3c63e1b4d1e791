"""Timing of batched products on a GPU: operands beyond the cache, graphs, and what a result file says."""

from __future__ import annotations

import math
from datetime import date
from functools import cache
from typing import Any

import numpy as np

from benchmarks.timing import events
from multiword.batched import HalfComplex
from multiword.batched.gpu import device
from multiword.batched.gpu.plans import Tuning
from multiword.batched.gpu.storage import lay_out
from multiword.batched.problem import check_problem

CACHE_BYTES = 150 << 20
"""Operands of all sets together exceed this, two and a half times the H200's L2 cache."""


@cache
def drawn() -> Any:
    """A million random halves."""
    import cupy

    return cupy.random.standard_normal(1 << 20, dtype=cupy.float32).astype(cupy.float16)


def words(shape: tuple[int, ...]) -> Any:
    """Random halves, repeated as often as it takes."""
    import cupy

    return cupy.resize(drawn(), shape)


class Operands:
    """Several sets of the same kind, together larger than the cache."""

    def __init__(
        self, m: int, n: int, k: int, batch: int, is_complex: bool, options: dict[str, Any] | None = None
    ) -> None:
        self.options = {"beta": 0, "trans_a": False, "trans_b": False} | (options or {})
        one = self.options.pop("one_b", False)  # a single B for the whole batch
        pair = (2,) if is_complex else ()
        self.bytes = 2 * (1 + is_complex) * (batch * (m * k + m * n) + (1 if one else batch) * k * n)
        self.count = max(1, min(16, math.ceil(CACHE_BYTES / self.bytes)))
        a, b = (
            ((k, m) if self.options["trans_a"] else (m, k)),
            ((n, k) if self.options["trans_b"] else (k, n)),
        )
        shapes = ((batch, *a, *pair), (*b, *pair) if one else (batch, *b, *pair), (batch, m, n, *pair))
        self.sets = [[words(s) for s in shapes] for _ in range(self.count)]
        self.complex = is_complex

    def problems(self) -> list[Any]:
        wrap = HalfComplex if self.complex else (lambda x: x)
        return [self._problem(wrap(a), wrap(b), 1, self.options["beta"], wrap(c)) for a, b, c in self.sets]

    def _problem(self, a: Any, b: Any, alpha: float, beta: float, c: Any) -> Any:
        trans = self.options["trans_a"], self.options["trans_b"]
        return check_problem(a, b, alpha, beta, c, *trans, "fp32", c)

    def planar(self) -> list[list[Any]]:
        """Four real products for every set, on planes."""
        import cupy

        result = []
        for a, b, c in self.sets:
            (ar, ai), (br, bi), (cr, ci) = (
                [cupy.ascontiguousarray(x[..., i]) for i in (0, 1)] for x in (a, b, c)
            )
            beta, sign = self.options["beta"], -1 if self.options["trans_a"] == "C" else 1
            terms = (
                *((1, beta, ar, br, cr), (-sign, 1, ai, bi, cr)),
                *((1, beta, ar, bi, ci), (sign, 1, ai, br, ci)),
            )
            result.append([self._problem(x, y, alpha, beta, z) for alpha, beta, x, y, z in terms])
        return result


def replayed(launches: list[Any], repeats: int, least: int = 12) -> float:
    """Seconds for one launch: the median replay of a graph of all of them, in turn."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    count = len(launches) * math.ceil(least / len(launches))
    with stream:
        for launch in launches:
            launch()
        stream.synchronize()
        stream.begin_capture()
        for i in range(count):
            launches[i % len(launches)]()
        graph = stream.end_capture()
        graph.launch()
        times = [events(graph.launch) / count for _ in range(repeats)]
    return float(np.median(times))


def time_tuning(operands: Operands, tuning: Tuning | None, repeats: int = 3) -> float:
    """Seconds of one tuning; of the one chosen, if it is None."""
    launches = [launcher(p, tuning) for p in operands.problems()]
    return replayed(launches, repeats, 12 if operands.count > 1 else 2)


MOVER = r"""
extern "C" __global__ void mover(
        const uint4* a, int count_a, const uint4* b, int count_b, uint4* c, int count_c) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 x = {}, y = {};
    if (i < count_a) x = a[i];
    if (i < count_b) y = b[i];
    x.x ^= y.x; x.y ^= y.y; x.z ^= y.z; x.w ^= y.w;
    if (i < count_c) c[i] = x;
    else if (x.x == 0x9e3779b9u && x.y == 0x7f4a7c15u) c[0] = x;  // so that every load is needed
}
extern "C" __global__ void empty() {}
"""


@cache
def floors() -> Any:
    """The module of the kernels that a batch is held against."""
    import cupy

    return cupy.RawModule(code=MOVER)


def time_empty() -> float:
    """Seconds of a kernel that does nothing, in a graph of them."""
    empty = floors().get_function("empty")
    return replayed([lambda: empty((1,), (32,), ())], 15, 48)


def time_mover(operands: Operands) -> float:
    """Seconds of a kernel that reads A and B and writes C, 16 bytes a thread, and computes nothing."""
    mover = floors().get_function("mover")

    def launch(arrays: list[Any]) -> None:
        counts = [x.nbytes // 16 for x in arrays]
        arguments = [y for x, n in zip(arrays, counts, strict=True) for y in (x, np.int32(n))]
        mover((max(1, -(-max(counts) // 256)),), (256,), tuple(arguments))

    return replayed([lambda x=x: launch(x) for x in operands.sets], 9)


def launcher(problem: Any, tuning: Tuning | None) -> Any:
    """What computes a problem again and again, with as little Python as can be."""
    call = lay_out(problem, problem.out)
    launch = device.launcher(call, tuning)
    return lambda: launch(*call.addresses)


def time_planar(operands: Operands, repeats: int = 3) -> float:
    """Seconds of a half-complex product as four cuBLAS products of planes."""
    cublas = Tuning("cublas")
    return replayed(
        [lambda four=f: [device.multiply(p, cublas) for p in four] for f in operands.planar()], repeats
    )


def heading(command: str) -> dict[str, Any]:
    """What a result file says of itself."""
    import cupy
    from cupy.cuda import runtime

    from multiword.engines import libcublas as lib

    return {
        "command": f"python benchmarks/batched.py {command}",
        "date": str(date.today()),
        "device": runtime.getDeviceProperties(0)["name"].decode(),
        "driver": runtime.driverGetVersion(),
        "cublas": lib.version(),
        "cupy": cupy.__version__,
        "unit": "seconds for one batch, kernels alone (graph replay)"
        if command == "compare"
        else "microseconds",
    }

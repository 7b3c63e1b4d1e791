"""`python -m benchmarks.dgemm`: accurate products against the native routines, on a GPU or a CPU.

Native and ours, and with --peers other libraries (see `benchmarks.peers`), run in one process on the same
random data. Times are medians of several, by CUDA events (on a GPU: of calls queued one after another, and
of a call alone, once the clock has settled) or by a clock (on a CPU). Errors are max and root mean
square of |C - AB| / |A||B| over sampled rows, against a reference computed in twice the precision.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import time
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

import ozaki
from benchmarks import peers
from benchmarks.timing import settled

KINDS = ("normal", "(0,1]", "0.5", "1", "2", "4", "half zeros")

REFERENCE = r"""
extern "C" __global__ void dot2(const double *a, const double *b, double *c, double *ab, int n, int k) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= n) return;
    double s = 0, e = 0, t = 0;
    for (int h = 0; h < k; h++) {
        const double x = a[(long long)i * k + h], y = b[(long long)h * n + j];
        const double p = x * y, q = fma(x, y, -p), u = s + p, z = u - s;
        e += (s - (u - z)) + (p - z) + q;
        s = u;
        t += fabs(p);
    }
    const long long at = (long long)i * n + j;
    c[2 * at] = s, c[2 * at + 1] = e, ab[at] = t;
}
"""


def draw(xp, rng, kind, shape, dtype):
    if kind == "normal":
        x = rng.standard_normal(shape)
    elif kind == "(0,1]":
        x = 1 - rng.random(shape)
    elif kind == "half zeros":
        x = rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    else:
        x = (rng.random(shape) - 0.5) * xp.exp(float(kind) * rng.standard_normal(shape))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * draw(xp, rng, kind, shape, np.float64)
    return x.astype(dtype, copy=False)


def error(c, a, b, samples=48):
    """(max, rms) of |C - AB| / |A||B| over sampled rows; of the real part of a complex product."""
    xp = sys.modules[type(a).__module__.split(".")[0]]
    rows = np.unique(np.linspace(0, len(a) - 1, samples).astype(int))
    left, right = a[rows], b
    if a.dtype.kind == "c":  # the real product that the real part is
        left = xp.concatenate([left.real, left.imag], axis=1)
        right = xp.concatenate([b.real, -b.imag])
    exact, tail, magnitude = reference(left.astype(np.float64), right.astype(np.float64))
    # Where all terms are 0, an error would be one of 0 itself.
    relative = abs((exact - c[rows].real.astype(np.float64)) + tail) / xp.where(magnitude == 0, 1, magnitude)
    return float(relative.max()), float((relative**2).mean() ** 0.5)


def reference(a, b):
    if isinstance(a, np.ndarray):
        x, y = a.astype(np.longdouble), b.astype(np.longdouble)
        c = x @ y
        high = c.astype(np.float64)
        return high, (c - high).astype(np.float64), np.abs(a) @ np.abs(b)
    import cupy

    a, b = cupy.ascontiguousarray(a), cupy.ascontiguousarray(b)
    m, k, n = *a.shape, b.shape[1]
    c, ab = cupy.empty((m, n, 2)), cupy.empty((m, n))
    kernel = cupy.RawKernel(REFERENCE, "dot2", options=("--fmad=false",))
    kernel((-(-n // 128), m), (128,), (a, b, c, ab, np.int32(n), np.int32(k)))
    return c[..., 0], c[..., 1], ab


def median_clock(work, repeats, warm=1):
    times = []
    for _ in range(warm + repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times[warm:]))


def timed(works, gpu, repeats):
    """Median seconds of a call and, on a GPU, of a call alone besides one of many in a queue."""
    if not gpu:
        return {name: {"seconds": median_clock(work, repeats)} for name, work in works.items()}
    times = settled(works, rounds=2)
    return {name: {"seconds": queued, "alone": alone} for name, (queued, alone) in times.items()}


FACES = {
    "float64": ozaki.accurate_dgemm,
    "float32": ozaki.accurate_sgemm,
    "complex128": ozaki.accurate_zgemm,
    "complex64": ozaki.accurate_cgemm,
}


def measure(xp, dtype, shape, kinds, repeats, with_peers=False):
    gpu = xp is not np
    m, k, n = shape
    rng = xp.random.default_rng(1)
    flops = (8 if np.dtype(dtype).kind == "c" else 2) * m * k * n
    for kind in kinds:
        if gpu:
            xp.get_default_memory_pool().free_all_blocks()
        a, b = draw(xp, rng, kind, (m, k), dtype), draw(xp, rng, kind, (k, n), dtype)
        result = {"dtype": dtype, "shape": shape, "data": kind}
        product = FACES[dtype]
        ways = {"native": partial(xp.matmul, a, b), "ours": partial(product, a, b)}
        once = {}
        if kind == kinds[0]:
            once["prepared"] = partial(product, a, ozaki.prepare(b, "right"))
            if not gpu:
                once["exact"] = partial(product, a, b, accuracy="exact")
        times = timed({**ways, **once}, gpu, repeats)
        # Afterwards, because of the memory that some of them take.
        more = {**peers.gemmul8(a, b), **peers.emulation(a, b)} if with_peers else {}
        times |= timed(more, gpu, repeats)
        result["peers"] = {}
        for name, work in {**ways, **more}.items():
            worst, rms = error(work(), a, b)
            into = result if name in ways else result["peers"]
            speed = flops / times[name]["seconds"] / 1e12
            into[name] = {**times[name], "teraflops": speed, "max": worst, "rms": rms}
        result |= {name: times[name] for name in once}
        if not gpu and kind == kinds[0]:
            result.update(ball_arithmetic(a, b))
        chosen = ozaki.plan(a, b)
        result["plan"] = {
            "products": chosen.products,
            "word": chosen.word,
            "width": chosen.width,
            "bound": chosen.bound,
        }
        result["ratio"] = result["native"]["seconds"] / result["ours"]["seconds"]
        yield result


def ball_arithmetic(a, b):
    """Seconds of python-flint's product at 120 bits, where that is installed and does not take minutes."""
    if a.dtype.kind == "c" or len(a) > 1024:
        return {}
    try:
        import flint
    except ImportError:
        return {}
    x, y = (flint.arb_mat(m.tolist()) for m in (a, b))
    before, flint.ctx.prec = flint.ctx.prec, 120
    try:
        return {"arb_mat": {"seconds": median_clock(lambda: x * y, 3, warm=0)}}
    finally:
        flint.ctx.prec = before


def versions(xp):
    found = {"python": platform.python_version(), "numpy": np.__version__}
    if xp is np:
        return {**found, "device": platform.processor() or platform.machine()}
    from multiword.engines import libcublas

    name = xp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return {**found, "cupy": xp.__version__, "cublas": libcublas.version(), "device": name}


def show(row):
    """One line for one measurement."""
    native, ours, chosen = row["native"], row["ours"], row["plan"]
    extras = [
        f"{name} {row[name]['seconds'] * 1e3:.3g} ms"
        for name in ("prepared", "exact", "arb_mat")
        if name in row
    ]
    fields = [
        f"{row['dtype']:<11}{row['shape']!s:<22}{row['data']:<7}",
        f"{native['teraflops']:8.3g}{ours['teraflops']:8.3g} TF  ratio {row['ratio']:5.3g}",
        f"error max {native['max']:.1e} {ours['max']:.1e} rms {native['rms']:.1e} {ours['rms']:.1e}",
        f"{chosen['products']} {chosen['word']}, certified {chosen['bound']:.1e}",
    ]
    print(" | ".join(fields + extras), flush=True)
    for name, peer in row["peers"].items():
        print(f"  {name:<38}{peer['teraflops']:16.3g} TF  error max {peer['max']:.1e} rms {peer['rms']:.1e}")


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dgemm", description=__doc__.split("\n")[0])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--shapes", nargs="*", default=[], help="m,k,n for rectangular ones")
    parser.add_argument("--dtypes", nargs="+", default=["float64"], choices=list(FACES))
    parser.add_argument("--kinds", nargs="+", default=["normal"], choices=KINDS)
    parser.add_argument("--repeats", type=int, default=9, help="calls on a CPU")
    parser.add_argument("--peers", action="store_true", help="beside other libraries on a GPU, if found")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.gpu:
        import cupy as xp
    else:
        xp = np
    shapes = [(n, n, n) for n in arguments.sizes] + [tuple(map(int, s.split(","))) for s in arguments.shapes]
    rows = []
    print("each pair of figures: native, ours")
    for dtype in arguments.dtypes:
        for shape in shapes:
            for row in measure(xp, dtype, shape, arguments.kinds, arguments.repeats, arguments.peers):
                rows.append(row)
                show(row)
    if arguments.json:
        report = {
            "date": date.today().isoformat(),
            "command": "python -m benchmarks.dgemm " + shlex.join(sys.argv[1:]),
            **versions(xp),
            "results": rows,
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

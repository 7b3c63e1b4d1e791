"""The second stage's look at all pairs of a row and a column: |A||B| of each, from below."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from multiword.engines import Engine
from ozaki._evidence import Side
from ozaki._magnitudes import LARGEST, NONZERO, Magnitudes
from ozaki._message import Message
from ozaki._operand import Operand
from ozaki._schemes import in_panels

QUICK, THOROUGH = (0,), (0, 7, 14, 21, NONZERO)
"""The depths of a look at most numbers that count, and of one at pairs that have few of those in common."""

SLACK = 1 - 2.0**-50
"""More than the rounding of a truncation."""

PAIRS_AT_ONCE = 1 << 18
"""Pairs that the host looks at together."""

Found = tuple[float, float]
"""The largest T / |A||B| of all pairs, and the largest of that over the pair's tolerance."""


def look(
    a: Operand,
    b: Operand,
    sides: tuple[Side, Side],
    depths: tuple[int, ...],
    engine: Engine,
    workspace: int,
) -> Callable[[], Found]:
    """Look at all pairs of scaled rows and columns; what has been found, when it is asked for.

    The last depth may be NONZERO: then the terms of each pair that are not 0 are counted, and no others
    are rounded.
    """
    scheme = Magnitudes(depths, len(a.parts), engine)
    found, message = namespace(a.matrix).zeros(3), Message(2) if is_cupy(a.matrix) else None
    raise_found = _raise_host if message is None else partial(_raise_device, message)

    def use(y: Array, rows: slice, columns: slice) -> None:
        raise_found(y, (sides[0][rows], sides[1][columns]), depths, a.length, found)

    in_panels(scheme, a, b, (sides[0].window, sides[1].window), engine, workspace, use)
    if message is None:
        return lambda: (float(found[0]), float(found[1]))
    message.send()

    def told() -> Found:
        error, ratio = message.wait()
        return error, ratio

    return told


def tolerance(terms: Array) -> Array:
    """What is tolerated of a pair's T / |A||B|, in units of u: at most half of a native routine's bound."""
    return np.minimum(4 * np.sqrt(terms), terms / 2)


def _raise_host(
    y: np.ndarray, sides: tuple[Side, Side], depths: tuple[int, ...], length: int, found: np.ndarray
) -> None:
    """Raise `found` to what these pairs show.

        T = (Σ|a'| + Σ|b'|)/2 + terms/4

    with sums over the terms of the pair where those are counted.
    """
    a, b = sides
    step = max(1, PAIRS_AT_ONCE // len(b.total))
    for i in range(0, len(a.total), step):
        rows = slice(i, min(i + step, len(a.total)))
        of_a, of_b, terms = a.total[rows, None], b.total[None], np.float64(length)
        real = (of_a > 0) & (of_b > 0)
        for image in y:
            sums = image[:, rows, : len(b.total)].astype(np.float64, copy=False)
            if depths[-1] == NONZERO:
                terms, sums = sums[-1] / LARGEST**2, sums[:-1]
                of_a = np.minimum(a.total[rows, None], np.ldexp(terms, a.height[rows, None]))
                of_b = np.minimum(b.total[None], np.ldexp(terms, b.height))
            lower = np.max([s * 4.0**-d for s, d in zip(sums, depths, strict=False)], axis=0)
            lower = np.ldexp(lower * SLACK, a.lift[rows, None] + b.lift)
            truncation = (of_a + of_b) / 2 + terms / 4
            relative = np.where(real & (terms > 0), truncation / lower, 0.0)
            found[0] = max(found[0], relative.max())
            found[1] = max(found[1], (relative / tolerance(np.maximum(terms, 1.0))).max())


ROWS = 16
"""Rows of pairs to a block."""

_CONSTANTS: dict[str, Any] = {"LARGEST": LARGEST, "ROWS": ROWS}

_PAIR_ERRORS = Kernel(
    "pair_errors",
    r"""
typedef long long i64;
typedef unsigned long long u64;
#define SLACK (1 - 1.0 / (1ll << 50))

struct Side { double total, largest; int lift; };

__device__ double tolerance(double terms) { return fmin(4 * sqrt(terms), terms / 2); }

/* _raise_host. The largest of positive numbers has the largest bits. The last block tells the host. */
extern "C" __global__ void __launch_bounds__(256)
pair_errors(const PRODUCT *y, i64 row_stride, i64 stride, int m, int n, i64 length,
            const double *total_a, const int *height_a, const int *lift_a,
            const double *total_b, const int *height_b, const int *lift_b, u64 *found, double *message) {
    __shared__ Side row_side[ROWS];
    __shared__ u64 largest[2];
    const int depths[] = {DEPTHS}; /* without that at which terms are counted */
    const int across = (n + 255) / 256; /* in one dimension, for it alone may be long */
    const int first = blockIdx.x / across * ROWS, column = blockIdx.x % across * 256 + threadIdx.x;
    if (threadIdx.x < 2) largest[threadIdx.x] = 0;
    if (threadIdx.x < ROWS && first + threadIdx.x < m) {
        const int i = first + threadIdx.x;
        row_side[threadIdx.x] = Side{total_a[i], scalbn(1.0, height_a[i]), lift_a[i]};
    }
    __syncthreads();
    double error = 0, ratio = 0;
    Side b = {0, 0, 0};
    if (column < n) b = Side{total_b[column], scalbn(1.0, height_b[column]), lift_b[column]};
    if (b.total > 0) {
#pragma unroll 4
        for (int i = 0; i < min(ROWS, m - first); i++) {
            const Side a = row_side[i];
            const PRODUCT *at = y + (first + i) * row_stride + column;
            double lower = 0;
#pragma unroll
            for (int d = 0; d < COUNT; d++, at += stride)
                lower = fmax(lower, (double)*at * __longlong_as_double((i64)(1023 - 2 * depths[d]) << 52));
            lower = scalbn(lower * SLACK, a.lift + b.lift);
            const double terms = COUNTED ? (double)*at / (LARGEST * LARGEST) : (double)length;
            const double of_a = COUNTED ? fmin(a.total, terms * a.largest) : a.total;
            const double of_b = COUNTED ? fmin(b.total, terms * b.largest) : b.total;
            const double truncation = (of_a + of_b) / 2 + terms / 4;
            /* Division takes time: most pairs can be told from the largest without. */
            if (a.total <= 0 || terms <= 0 || (!COUNTED && truncation < error * lower * SLACK)) continue;
            const double relative = truncation / lower;
            error = fmax(error, relative);
            if (COUNTED) ratio = fmax(ratio, relative / tolerance(fmax(terms, 1.0)));
        }
    }
    /* Division by one and the same number keeps the order, so the largest can wait for it. */
    if (!COUNTED) ratio = error / tolerance((double)length);
    for (int d = 16; d; d >>= 1) {
        error = fmax(error, __shfl_xor_sync(~0u, error, d));
        ratio = fmax(ratio, __shfl_xor_sync(~0u, ratio, d));
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(&largest[0], (u64)__double_as_longlong(error));
        atomicMax(&largest[1], (u64)__double_as_longlong(ratio));
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 0; i < 2; i++)
        if (largest[i] > __ldcg(&found[i])) atomicMax(&found[i], largest[i]);
    __threadfence();
    if (atomicAdd(&found[2], 1ull) < gridDim.x - 1) return;
    __threadfence();
    found[2] = 0; /* for the next launch */
    for (int i = 0; i < 2; i++) message[i] = __longlong_as_double(__ldcg(&found[i]));
}
""",
    tuple(
        {**_CONSTANTS, "PRODUCT": t, "COUNTED": counted, "DEPTHS": depths, "COUNT": count}
        for t, counted, depths, count in (("int", 0, "0", 1), ("double", 1, "0,7,14,21", 4))
    ),
)


def _raise_device(
    message: Message, y: Array, sides: tuple[Side, Side], depths: tuple[int, ...], length: int, found: Array
) -> None:
    counted = depths[-1] == NONZERO
    depths = depths[: len(depths) - counted]
    constants = {
        **_CONSTANTS,
        "PRODUCT": "int" if y.dtype == np.int32 else "double",
        "COUNTED": int(counted),
        "DEPTHS": ",".join(map(str, depths)),
        "COUNT": len(depths),
    }
    m, n = (len(side.total) for side in sides)
    arrays = [x for side in sides for x in (side.total, side.height, side.lift)]
    sizes = np.int64(y.shape[3]), np.int64(y.shape[2] * y.shape[3]), np.int32(m), np.int32(n)
    for image in y:
        arguments = (image, *sizes, np.int64(length), *arrays, found, message.address)
        _PAIR_ERRORS((-(-n // 256) * -(-m // ROWS),), (256,), arguments, **constants)

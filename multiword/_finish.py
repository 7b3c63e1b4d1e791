"""Finishing a product: undo scaling and centring, add beta·C, round once, and check.

With A = A' + a·1ᵀ and B = B' + 1·bᵀ (centres a and b), AB = A'B' + a·tᵀ + s·bᵀ, where s holds
the row sums of A and t the column sums of B' = B - 1·bᵀ. The rank-two part is exact to fp64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._bounds import AMPLIFICATION
from multiword._kernels import Kernel
from multiword._lines import FAILED, FP32, Seen, exact_bits
from multiword._operand import Pair

FINISH = Kernel(
    "multiword_finish",
    FP32
    + r"""
__device__ __forceinline__ double power2(int e) {
    return __longlong_as_double((i64)(e + 1023) << 52);
}
__device__ __forceinline__ double wide(float x) { return widen(x); }
__device__ __forceinline__ double wide(double x) { return x; }

__device__ __noinline__ double plain_dot(const float* a, const float* b, int k, i64 a_step, i64 b_step) {
    double sum = 0.0;
    for (int h = 0; h < k; h++) sum += widen(a[h * a_step]) * widen(b[h * b_step]);
    return sum;
}
__device__ __forceinline__ void store(float* to, const float* v, int count, bool aligned) {
    if (aligned) *(float4*)to = make_float4(v[0], v[1], v[2], v[3]);
    else {
#pragma unroll
        for (int x = 0; x < 4; x++) if (x < count) to[x] = v[x];
    }
}
// A block takes ROWS rows and 512 columns, a thread four neighbouring columns of each row, and
// four rows at a time so that their readings overlap. Without lines: out = alpha·P + beta·C.
extern "C" __global__ void __launch_bounds__(128) multiword_finish(
        const SUM* p, i64 ldp, float* out, i64 ldo,
        int m, int n, int k, double alpha, double beta, const float* c, i64 c_row, i64 c_column,
        const Line* __restrict__ lines_a, const Line* __restrict__ lines_b,
        int* flags, int* report, int may_centre, int exact_bits, float limit, float amplification,
        const float* a, i64 a_row, i64 a_step, const float* b, i64 b_row, i64 b_step) {
    // In one dimension, for it alone may be long.
    int across = (n + 511) / 512, block = blockIdx.x / across;
    int j0 = 4 * (blockIdx.x % across * 128 + threadIdx.x), count = min(4, n - j0), failed = 0;
    if (j0 >= n) return;
    bool centred = flags && may_centre && centring(flags, exact_bits);
    bool vector = count == 4 && sizeof(SUM) == 4 && (((unsigned long long)p | (4 * ldp)) & 15) == 0;
    bool aligned = count == 4 && (((unsigned long long)out | (4 * ldo)) & 15) == 0;
    // Without more to do than to undo powers of two, one multiplication in fp32 rounds correctly.
    bool simple = sizeof(SUM) == 4 && !centred && alpha == 1.0 && !c && lines_a;
    float factor_b[4];
    double t[4], bj[4], scale_b[4];
    float norm1_b[4], norm2_b[4];
    int bad_b = 0;
#pragma unroll
    for (int x = 0; x < 4; x++) {
        t[x] = bj[x] = 0.0; scale_b[x] = 1.0; norm1_b[x] = 0.0f; factor_b[x] = 1.0f;
        norm2_b[x] = __uint_as_float(0x7F800000u);  // beyond the last column nothing is checked
        if (!lines_b || x >= count) continue;
        Line l = lines_b[j0 + x];
        bj[x] = centred ? widen(l.centre) : 0.0;
        t[x] = l.total - (double)k * bj[x];
        scale_b[x] = power2(-l.shift);
        norm1_b[x] = (float)(l.norm1 * scale_b[x] + (double)k * fabs(bj[x]));
        norm2_b[x] = limit * l.norm2;
        bad_b |= l.bad;
        simple = simple && abs(l.shift) <= 62 && !l.bad;
        factor_b[x] = __uint_as_float((u32)(127 - (simple ? l.shift : 0)) << 23);
    }
    int stop = min(m, (block + 1) * ROWS);
    for (int i0 = block * ROWS; i0 < stop; i0 += 4) {
        SUM v[4][4];
#pragma unroll
        for (int y = 0; y < 4; y++) {
            const SUM* from = p + min(i0 + y, m - 1) * ldp + j0;
            if (vector) {
                float4 four = *(const float4*)from;
                v[y][0] = (SUM)four.x; v[y][1] = (SUM)four.y; v[y][2] = (SUM)four.z; v[y][3] = (SUM)four.w;
            } else {
#pragma unroll
                for (int x = 0; x < 4; x++) v[y][x] = from[min(x, count - 1)];
            }
        }
#pragma unroll
        for (int y = 0; y < 4; y++) {
            int i = i0 + y;
            if (i >= stop) break;
            Line l = {0.0, 0.0f, 0.0f, 0.0f, 0, 0, 0};
            if (lines_a) l = lines_a[i];
            float results[4];
            float* to = out + i * ldo + j0;
            if (simple && abs(l.shift) <= 62 && !l.bad) {
                float factor_a = __uint_as_float((u32)(127 - l.shift) << 23);
#pragma unroll
                for (int x = 0; x < 4; x++) {
                    float value = (float)v[y][x];
                    if (fabsf(value) > l.norm2 * norm2_b[x]) failed |= 1;
                    results[x] = mul32(value, factor_a * factor_b[x]);
                }
                store(to, results, count, aligned);
                continue;
            }
            double scale_a = power2(-l.shift), ai = widen(l.centre);
            float norm1_a = centred ? (float)(l.norm1 * scale_a + (double)k * fabs(ai)) : 0.0f;
#pragma unroll
            for (int x = 0; x < 4; x++) {
                double value = wide(v[y][x]);
                if (lines_a) {
                    if (fabsf((float)v[y][x]) > l.norm2 * norm2_b[x]) failed |= 1;
                    value = (value * scale_a) * scale_b[x];
                }
                if (centred) {
                    value = (ai * t[x] + l.total * bj[x]) + value;
                    float aj = (float)fabs(ai), bx = (float)fabs(bj[x]);
                    float terms = aj * norm1_b[x] + norm1_a * bx + (float)k * aj * bx;
                    if (terms > amplification * (float)fabs(value) && x < count) failed |= 2;
                }
                if (l.bad | bad_b)
                    if (x < count && (l.bad || lines_b[j0 + x].bad))
                        value = plain_dot(a + i * a_row, b + (j0 + x) * b_row, k, a_step, b_step);
                value = alpha * value;
                if (c && x < count) value = value + beta * widen(c[i * c_row + (j0 + x) * c_column]);
                results[x] = narrow(value);
            }
            store(to, results, count, aligned);
        }
    }
    if (failed && report) announce(flags, report, failed);
}
""",
    ({"SUM": "float", "ROWS": 32}, {"SUM": "double", "ROWS": 32}),
)

INSPECT = Kernel(
    "multiword_inspect",
    FP32
    + r"""
__device__ __forceinline__ double power2(int e) {
    return __longlong_as_double((i64)(e + 1023) << 52);
}
// In place, where all lines have one scale: check P = A_1·B_1, and put the rank-two part back,
// scaled as P is. A block takes ROWS rows and 1024 columns, a thread four columns.
extern "C" __global__ void __launch_bounds__(256) multiword_inspect(
        float* p, i64 ldp, int m, int n, int k, const Line* __restrict__ lines_a,
        const Line* __restrict__ lines_b, float limit, float amplification, int* flags, int* report) {
    int across = (n + 1023) / 1024, block = blockIdx.x / across;
    int j0 = 4 * (blockIdx.x % across * 256 + threadIdx.x), failed = 0;
    if (j0 >= n) return;
    float norm2_b[4];
#if CENTRED
    double t[4], bj[4];
    float norm1_b[4];
    double scale = power2(lines_a[0].shift + lines_b[0].shift), back_a = power2(-lines_a[0].shift);
#endif
#pragma unroll
    for (int x = 0; x < 4; x++) {
        Line l = lines_b[j0 + x];
        norm2_b[x] = limit * l.norm2;
#if CENTRED
        t[x] = (l.total - (double)k * widen(l.centre)) * scale;
        bj[x] = widen(l.centre) * scale;
        norm1_b[x] = (float)(l.norm1 * power2(lines_a[0].shift) + (double)k * fabs(bj[x]));
#endif
    }
    int stop = min(m, (block + 1) * ROWS);
    for (int i0 = block * ROWS; i0 < stop; i0 += BATCH) {
        float4 v[BATCH];
        Line l[BATCH];                              // of which only what is used is read
#pragma unroll
        for (int y = 0; y < BATCH; y++) {
            int i = min(i0 + y, m - 1);
            v[y] = *(const float4*)(p + i * ldp + j0);
            l[y] = lines_a[i];
        }
#pragma unroll
        for (int y = 0; y < BATCH; y++) {
            float value[4] = {v[y].x, v[y].y, v[y].z, v[y].w};
#pragma unroll
            for (int x = 0; x < 4; x++) failed |= fabsf(value[x]) > l[y].norm2 * norm2_b[x];
#if CENTRED
            double ai = widen(l[y].centre);
            float aj = (float)fabs(ai), norm1_a = (float)(l[y].norm1 * back_a + (double)k * fabs(ai));
#pragma unroll
            for (int x = 0; x < 4; x++) {
                double sum = (ai * t[x] + l[y].total * bj[x]) + widen(value[x]);
                float bx = (float)fabs(bj[x]);
                float terms = aj * norm1_b[x] + norm1_a * bx + (float)k * aj * bx;
                value[x] = narrow(sum);
                if (terms > amplification * fabsf(value[x])) failed |= 2;
            }
            if (i0 + y < stop)
                *(float4*)(p + (i0 + y) * ldp + j0) = make_float4(value[0], value[1], value[2], value[3]);
#endif
        }
    }
    if (failed && report) announce(flags, report, failed);
}
""",
    ({"CENTRED": 0, "ROWS": 16, "BATCH": 8}, {"CENTRED": 1, "ROWS": 16, "BATCH": 4}),
)

WIDEN = Kernel(
    "multiword_widen",
    FP32
    + r"""
extern "C" __global__ void multiword_widen(const float* x, double* out, i64 size) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) out[i] = widen(x[i]);
}
""",
)


def inspect(p: Array, pair: Pair, *, centred: bool, limit: float) -> None:
    """Check P = A_1·B_1 as `finish` does, and put the rank-two part back, in place and still scaled.

    For lines of one scale; n a multiple of 4 and rows of `p` aligned.
    """
    a, b, k = pair.left.lines, pair.right.lines, pair.left.x.shape[1]
    if is_cupy(p):
        (m, n), batch = p.shape, 4 if centred else 8
        INSPECT(
            (-(-n // 1024) * -(-m // 16),),
            (256,),
            (
                *(p, np.int64(p.strides[0] // 4), np.int32(m), np.int32(n), np.int32(k), a, b),
                *(np.float32(limit), np.float32(AMPLIFICATION), pair.of.flags, pair.address),
            ),
            CENTRED=int(centred),
            ROWS=16,
            BATCH=batch,
        )
        return
    failed = _incoherent(p, pair, limit)
    if centred:
        shift = a["shift"][0] + b["shift"][0]
        value, cancels = _rank_two(np.ldexp(p.astype(np.float64), -shift), pair)
        failed |= cancels
        np.copyto(p, np.ldexp(value, shift), casting="same_kind")
    pair.of.flags[FAILED] |= failed


def finish(
    p: Array,
    pair: Pair,
    *,
    out: Array,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Array | None = None,
    limit: float = np.inf,
) -> Array:
    """out = fl(alpha·AB + beta·C), from the product P of the scaled, centred words.

    p : (m, n) float32 or float64, the last axis contiguous. Lines with infinities and NaNs are
    multiplied again plainly, in fp64.
    limit : coherence |P|_ij over the 2-norms of row and column above which the pair's report is that
    1 failed; 2 failed if centring cancels more than `AMPLIFICATION` allows.
    """
    if is_cupy(p):
        return _on_device(p, pair, out, alpha, beta, c, limit)
    a, b = pair.left.lines, pair.right.lines
    value = np.ldexp(p.astype(np.float64), -(a["shift"][:, None] + b["shift"][None, :]))
    failed = _incoherent(p, pair, limit)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        seen = Seen.of([int(x) for x in pair.of.flags])
        if pair.of.scheme.centred and seen.centring(pair.left.x.shape[1]):
            value, cancels = _rank_two(value, pair)
            failed |= cancels
        if a["bad"].any() or b["bad"].any():
            rows, columns = np.flatnonzero(a["bad"]), np.flatnonzero(b["bad"])
            wide_a, wide_b = pair.left.x.astype(np.float64), pair.right.x.astype(np.float64)
            value[rows, :] = wide_a[rows] @ wide_b.T
            value[:, columns] = wide_a @ wide_b[columns].T
        _narrow(value, alpha, beta, c, out)
    pair.of.flags[FAILED] |= failed
    return out


def _incoherent(p: Array, pair: Pair, limit: float) -> int:
    """Whether a row and a column are more nearly parallel than the limit allows: 1, else 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        norms = pair.left.lines["norm2"][:, None] * (np.float32(limit) * pair.right.lines["norm2"])
        return int((np.abs(p) > norms).any())


def _rank_two(value: Array, pair: Pair) -> tuple[Array, int]:
    """A'B' + a·tᵀ + s·bᵀ in float64, and 2 if that cancels too much, else 0."""
    a, b, k = pair.left.lines, pair.right.lines, pair.left.x.shape[1]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        ai, bj = a["centre"].astype(np.float64)[:, None], b["centre"].astype(np.float64)
        value = (ai * (b["total"] - k * bj) + a["total"][:, None] * bj) + value
        # Σ|x| is at most Σ|y|·2^-s + k·|c|.
        of_a = np.ldexp(a["norm1"].astype(np.float64), -a["shift"])[:, None] + k * np.abs(ai)
        of_b = np.ldexp(b["norm1"].astype(np.float64), -b["shift"]) + k * np.abs(bj)
        terms = np.abs(ai) * of_b + of_a * np.abs(bj) + k * np.abs(ai * bj)
        return value, 2 * int((terms > AMPLIFICATION * np.abs(value)).any())


def round_product(p: Array, *, out: Array, alpha: float, beta: float, c: Array | None) -> Array:
    """out = fl(alpha·P + beta·C), rounded once from float64 arithmetic."""
    if is_cupy(p):
        return _on_device(p, None, out, alpha, beta, c, np.inf)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        _narrow(p.astype(np.float64), alpha, beta, c, out)
    return out


def widened(x: Array) -> Array:
    """A contiguous float32 array as float64, subnormal numbers and all."""
    if not is_cupy(x):
        return np.ascontiguousarray(x, np.float64)
    x = namespace(x).ascontiguousarray(x)
    out = namespace(x).empty(x.shape, np.float64)
    WIDEN((-(-x.size // 256),), (256,), (x, out, np.int64(x.size)))
    return out


def _narrow(value: Array, alpha: float, beta: float, c: Array | None, out: Array) -> None:
    value = value * alpha
    if c is not None and beta != 0:
        value = value + beta * c.astype(np.float64)
    np.copyto(out, value, casting="same_kind")


def _on_device(
    p: Array, pair: Pair | None, out: Array, alpha: float, beta: float, c: Array | None, limit: float
) -> Array:
    (m, n), none = p.shape, np.uint64(0)
    if p.size == 0:
        return out
    k, lines, operands = 0, (none, none, none, none, np.int32(0)), (none, np.int64(0), np.int64(0)) * 2
    if pair is not None:
        k, left, right = pair.left.x.shape[1], pair.left, pair.right
        lines = left.lines, right.lines, pair.of.flags, pair.address, np.int32(pair.of.scheme.centred)
        operands = tuple(
            item for o in (left, right) for item in (o.x, *(np.int64(s // 4) for s in o.x.strides))
        )
    c = None if beta == 0 else c
    addend = (none, np.int64(0), np.int64(0)) if c is None else (c, *(np.int64(s // 4) for s in c.strides))
    arguments = (
        *(p, np.int64(p.strides[0] // p.itemsize), out, np.int64(out.strides[0] // 4)),
        *(np.int32(m), np.int32(n), np.int32(k), np.float64(alpha), np.float64(beta), *addend),
        *(*lines, np.int32(exact_bits(k)), np.float32(limit), np.float32(AMPLIFICATION), *operands),
    )
    constants: dict[str, Any] = {"SUM": "float" if p.dtype == np.float32 else "double", "ROWS": 32}
    FINISH((-(-n // 512) * -(-m // 32),), (128,), arguments, **constants)
    return out

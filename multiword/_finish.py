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
from multiword._operand import Words

FINISH = Kernel(
    "multiword_finish",
    r"""
__device__ __forceinline__ double power2(int e) {
    return __longlong_as_double((long long)(e + 1023) << 52);
}
__device__ __forceinline__ double plain_dot(const float* a, const float* b, int k,
        long long a_step, long long b_step) {
    double sum = 0.0;
    for (int h = 0; h < k; h++) sum += (double)a[h * a_step] * (double)b[h * b_step];
    return sum;
}
// A block takes ROWS rows and 512 columns, a thread four neighbouring columns of each row.
extern "C" __global__ void multiword_finish(const SUM* p, int ldp, float* out, long long ldo,
        int m, int n, int k, double alpha, double beta, const float* c, long long ldc,
        const int* shift_a, const int* shift_b, const float* centre_a, const float* centre_b,
        const int* uncentred, const double* total_a, const double* total_b,
        const float* norm1_a, const float* norm1_b, const float* norm2_a, const float* norm2_b,
        float unit, float limit, float amplification, const int* bad_a, const int* bad_b,
        const float* a, long long a_row, long long a_step,
        const float* b, long long b_row, long long b_step, int* flags) {
    int j0 = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (j0 >= n) return;
    bool centred = centre_a && uncentred[0] == 0 && uncentred[1] == 0;
    bool whole = j0 + 3 < n;
    double t[4], bj[4], sum_b[4], scale_b[4];
    float q[4];
    int count = min(4, n - j0), failed = 0;
#pragma unroll
    for (int x = 0; x < 4; x++) {
        int j = min(j0 + x, n - 1);
        bj[x] = centred ? (double)centre_b[j] : 0.0;
        t[x] = total_b[j] - (double)k * bj[x];
        sum_b[x] = (double)norm1_b[j];
        scale_b[x] = power2(-shift_b[j]);
        q[x] = limit * sqrtf(norm2_b[j]) * unit;
    }
    for (int i = blockIdx.y * ROWS; i < min(m, (int)(blockIdx.y + 1) * ROWS); i++) {
        double ai = centred ? (double)centre_a[i] : 0.0, si = total_a[i], sum_a = norm1_a[i];
        double scale_a = power2(-shift_a[i]);
        float r = sqrtf(norm2_a[i]);
        SUM v[4];
        const SUM* from = p + (long long)i * ldp + j0;
        if (sizeof(SUM) == 4 && whole) {
            float4 four = *(const float4*)from;
            v[0] = (SUM)four.x; v[1] = (SUM)four.y; v[2] = (SUM)four.z; v[3] = (SUM)four.w;
        } else {
#pragma unroll
            for (int x = 0; x < 4; x++) v[x] = x < count ? from[x] : (SUM)0;
        }
        float results[4];
#pragma unroll
        for (int x = 0; x < 4; x++) {
            if (x >= count) continue;
            if (fabsf((float)v[x]) > r * q[x]) failed |= 1;
            double value = ((double)v[x] * scale_a) * scale_b[x];
            if (centred) {
                value = (ai * t[x] + si * bj[x]) + value;
                double terms = fabs(ai) * sum_b[x] + sum_a * fabs(bj[x]) + (double)k * fabs(ai * bj[x]);
                if (terms > (double)amplification * fabs(value)) failed |= 2;
            }
            if (bad_a[i] | bad_b[j0 + x])
                value = plain_dot(a + i * a_row, b + (j0 + x) * b_row, k, a_step, b_step);
            value = alpha * value;
            if (c) value = value + beta * (double)c[i * ldc + j0 + x];
            results[x] = (float)value;
        }
        float* to = out + i * ldo + j0;
        if (whole && ((unsigned long long)to & 15) == 0)
            *(float4*)to = make_float4(results[0], results[1], results[2], results[3]);
        else {
#pragma unroll
            for (int x = 0; x < 4; x++) if (x < count) to[x] = results[x];
        }
    }
    if (failed && flags) atomicOr(flags, failed);
}
""",
    ({"SUM": "float", "ROWS": 8}, {"SUM": "double", "ROWS": 8}),
)


def finish(
    p: Array,
    left: Words,
    right: Words,
    a: Array,
    bt: Array,
    *,
    out: Array,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Array | None = None,
    limit: float = np.inf,
    flags: Array | None = None,
) -> Array:
    """out = fl(alpha·AB + beta·C), from the product P of the scaled, centred words.

    p : (m, n) float32 or float64, the last axis contiguous. a, bt : (m, k) and (n, k) float32,
    the operands, for lines with infinities and NaNs, which are multiplied plainly in fp64.
    limit : coherence above which bit 0 of `flags` is set: |P|_ij over the 2-norms of row and
    column. Bit 1: centring cancelled more than `AMPLIFICATION` allows.
    """
    if is_cupy(p):
        return _finish_on_device(p, left, right, a, bt, out, alpha, beta, c, limit, flags)
    shifts = left.scaling.shift[:, None] + right.scaling.shift[None, :]
    value = np.ldexp(p.astype(np.float64), -shifts)
    centre_a, centre_b = left.scaling.centres(), right.scaling.centres()
    failed = 0
    if p.size and flags is not None:
        unit = np.float32(2.0 ** (left.scaling.target + right.scaling.target))
        norms = np.sqrt(left.norm2)[:, None] * (np.float32(limit) * np.sqrt(right.norm2) * unit)
        failed |= int((np.abs(p) > norms).any())
    if centre_a is not None and centre_b is not None:
        k = a.shape[1]
        ai, bj = centre_a.astype(np.float64)[:, None], centre_b.astype(np.float64)[None, :]
        value = (ai * (right.total - k * bj) + left.total[:, None] * bj) + value
        terms = np.abs(ai) * right.norm1 + left.norm1[:, None] * np.abs(bj) + k * np.abs(ai * bj)
        failed |= 2 * int((terms > AMPLIFICATION * np.abs(value)).any())
    if left.bad.any() or right.bad.any():
        rows, columns = np.flatnonzero(left.bad), np.flatnonzero(right.bad)
        with np.errstate(invalid="ignore", over="ignore"):
            wide_a, wide_b = a.astype(np.float64), bt.astype(np.float64)
            value[rows, :] = wide_a[rows] @ wide_b.T
            value[:, columns] = wide_a @ wide_b[columns].T
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        value = value * alpha
        if c is not None and beta != 0:
            value = value + beta * c.astype(np.float64)
        np.copyto(out, value, casting="same_kind")
    if flags is not None:
        flags |= np.int32(failed)
    return out


def _finish_on_device(
    p: Array,
    left: Words,
    right: Words,
    a: Array,
    bt: Array,
    out: Array,
    alpha: float,
    beta: float,
    c: Array | None,
    limit: float,
    flags: Array | None,
) -> Array:
    (m, n), k, none = p.shape, a.shape[1], np.uint64(0)
    if beta == 0:
        c = None
    elif c is not None and c.strides[-1] != 4:
        c = namespace(c).ascontiguousarray(c)
    centred = left.scaling.centre is not None and right.scaling.centre is not None
    unit = 2.0 ** (left.scaling.target + right.scaling.target)
    arguments = (
        *(p, np.int32(p.strides[0] // p.itemsize), out, np.int64(out.strides[0] // 4)),
        *(np.int32(m), np.int32(n), np.int32(k), np.float64(alpha), np.float64(beta)),
        *((none, np.int64(0)) if c is None else (c, np.int64(c.strides[0] // 4))),
        *(left.scaling.shift, right.scaling.shift),
        *((left.scaling.centre, right.scaling.centre, left.scaling.uncentred) if centred else (none,) * 3),
        *(left.total, right.total, left.norm1, right.norm1, left.norm2, right.norm2),
        *(np.float32(unit), np.float32(limit), np.float32(AMPLIFICATION), left.bad, right.bad),
        *(a, np.int64(a.strides[0] // 4), np.int64(a.strides[1] // 4)),
        *(bt, np.int64(bt.strides[0] // 4), np.int64(bt.strides[1] // 4)),
        none if flags is None else flags,
    )
    constants: dict[str, Any] = {"SUM": "float" if p.dtype == np.float32 else "double", "ROWS": 8}
    FINISH((-(-n // 512), -(-m // 8)), (128,), arguments, **constants)
    return out

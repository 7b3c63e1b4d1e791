"""The second stage's look at all pairs of a row and a column, with their exact sums of magnitudes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from ozaki._operand import Operand
from ozaki._profile import Rows
from ozaki._residue_split import residues
from ozaki._scales import DISCARD
from ozaki._segments import BITS, NONFINITE, ZERO

MAGNITUDE_BITS = 24
"""Bits of the truncated magnitudes."""

PAIRS_AT_ONCE = 1 << 24
"""Pairs that are looked at together."""

SLACK = 1 - 2.0**-50
"""More than the rounding of a sum of magnitudes."""

ExactSums = Callable[[Operand, Operand, int], Array]
"""The exact sums of products of two operands whose integers are below 2**bits, rounded to float64."""


class Taken(Operand):
    """An operand that is split into the magnitudes of its elements, or ones where they are not zero.

    The parts of a complex operand are laid side by side.
    """

    def __init__(self, parts: list[Array], side: int, take: str, scale: Array) -> None:
        rows = parts[0] if len(parts) == 1 else namespace(parts[0]).concatenate(parts, axis=1)
        super().__init__(rows if side == 0 else rows.T, side)
        self._take, self._scale = take, scale

    def split(self, scheme: Any, scale: Array, rows: slice, inner: slice, padding: int) -> Array:
        """As `Operand.split`; the scale is this operand's own."""
        del scale
        bits = 1 if self._take == "nonzero" else MAGNITUDE_BITS
        parts = [x[rows, inner] for x in self.parts]
        return residues(parts, self._scale[rows], scheme.system, padding, self.side == 0, bits, self._take)


def pair_errors(
    a: Operand, b: Operand, scales: tuple[Array, Array], sums: ExactSums, excess: int = 0
) -> tuple[float, float]:
    """Certified max over all pairs of T / |A||B|, and of that over sqrt(terms)/2; inf where none is.

    Both for integers of `excess` bits less, but for what the scales hold exactly.
    """
    step = max(1, PAIRS_AT_ONCE // b.rows)
    places = a.last_places, b.last_places
    with_zeros = all(bool(x.zeros.any()) for x in places)
    near, exact = ([x - excess for x in given] for given in (scales, [x.scales for x in places]))
    look = _look_device if is_cupy(a.matrix) else _look_host
    found = namespace(a.matrix).zeros(2)
    for i in range(0, a.rows, step):
        rows = slice(i, i + step)
        left = [x[rows] for x in a.parts]
        known = a.profile.rows[rows], b.profile.rows
        # The real part of AB sums the products of like parts, the imaginary part of unlike ones.
        for right in (b.parts, b.parts[::-1])[: len(b.parts)]:
            lower = sums(_magnitudes(left, known[0], 0), _magnitudes(right, known[1], 1), MAGNITUDE_BITS)
            terms = None
            if with_zeros:
                terms = sums(_nonzeros(left, 0), _nonzeros(right, 1), 1)
            sides = (known[0], near[0][rows], exact[0][rows]), (known[1], near[1], exact[1])
            look(lower, terms, sides, a.length, found)
    error, ratio = found.tolist()
    return error, ratio


def _magnitudes(parts: list[Array], rows: Rows, side: int) -> Taken:
    """The operand of floor(|x|·2**(MAGNITUDE_BITS - e)); empty where a row has no usable element."""
    xp = namespace(parts[0])
    scale = xp.where(rows.usable, MAGNITUDE_BITS - rows.exponent, DISCARD).astype(xp.int32)
    return Taken(parts, side, "magnitudes", scale)


def _nonzeros(parts: list[Array], side: int) -> Taken:
    xp = namespace(parts[0])
    return Taken(parts, side, "nonzero", xp.zeros(len(parts[0]), xp.int32))


Side = tuple[Rows, Array, Array]
"""What is known, scales and exact scales of the rows of A or the columns of B."""


def _look_host(
    lower: np.ndarray, terms: np.ndarray | None, sides: tuple[Side, Side], length: int, found: np.ndarray
) -> None:
    """Raise found = (error, ratio) to the largest of these pairs.

    `lower` is |A||B| from below, in units of 2**(e_i + f_j - 2·MAGNITUDE_BITS), `terms` the number
    of nonzero terms, or None for all of them. Pairs that lose nothing are exempt.
    """
    if terms is None:
        terms = np.full(lower.shape, float(length))
    truncation = _truncation(sides, terms)
    relative = np.where(truncation > 0, truncation / (lower * SLACK), 0)
    found[0] = max(found[0], relative.max())
    found[1] = max(found[1], (relative / (0.5 * np.sqrt(np.maximum(terms, 1)))).max())


def _truncation(sides: tuple[Side, Side], terms: np.ndarray) -> np.ndarray:
    """T of every pair, in the units of the lower bounds: zero where neither side loses anything.

    The part of a lossy row is 2**-s/2 times Σ|b| over the row's support, and Σ|b| is at most
    the 1-norm of the column, or `terms` times its largest magnitude.
    """
    half, norm = [], []
    for p, s, exact in sides:
        usable = p.usable
        # One half of a unit of A', in units of 2**(e - MAGNITUDE_BITS); that of a lossy row is never 0.
        unit = np.ldexp(0.5, np.where(usable, MAGNITUDE_BITS - (p.exponent + s), 0))
        unit = np.maximum(unit, np.finfo(np.float64).smallest_subnormal)
        half.append(np.where(usable & (s < exact), unit, 0.0))
        total = np.ldexp(p.total.astype(np.float64), MAGNITUDE_BITS - BITS)
        norm.append(np.where(usable, total, 0.0))
    largest = 2.0**MAGNITUDE_BITS
    of_a = half[0][:, None] * np.minimum(norm[1][None, :], terms * largest)
    of_b = half[1][None, :] * np.minimum(norm[0][:, None], terms * largest)
    return np.where(terms > 0, of_a + of_b + half[0][:, None] * half[1][None, :] * terms, 0.0)


_CONSTANTS: dict[str, Any] = {
    "MAGNITUDE_BITS": MAGNITUDE_BITS,
    "BITS": BITS,
    "ZERO": ZERO,
    "NONFINITE": NONFINITE,
}

_PAIR_ERRORS = Kernel(
    "pair_errors",
    r"""
typedef long long i64;
typedef unsigned long long u64;
#define ROWS 32
#define SLACK (1 - 1.0 / (1ll << 50))

struct Side {
    double half, norm;
    __device__ Side() {}
    __device__ Side(int exponent, i64 total, int scale, int exact) {
        const bool usable = exponent != ZERO && exponent != NONFINITE;
        const double unit = scalbn(0.5, MAGNITUDE_BITS - (exponent + scale));
        half = usable && scale < exact ? max(unit, __longlong_as_double(1)) : 0; /* the smallest number */
        norm = usable ? scalbn((double)total, MAGNITUDE_BITS - BITS) : 0;
    }
};

/* _look_host. The largest of positive numbers has the largest bits. */
extern "C" __global__ void __launch_bounds__(256)
pair_errors(const double *lower, const double *terms, int m, int n, i64 length,
            const int *exponent_a, const i64 *total_a, const int *scale_a, const int *exact_a,
            const int *exponent_b, const i64 *total_b, const int *scale_b, const int *exact_b, u64 *found) {
    __shared__ Side row_side[ROWS];
    __shared__ u64 largest[2];
    const int across = (n + 255) / 256; /* in one dimension, for it alone may be long */
    const int first = blockIdx.x / across * ROWS, column = blockIdx.x % across * 256 + threadIdx.x;
    if (threadIdx.x < 2) largest[threadIdx.x] = 0;
    if (threadIdx.x < ROWS && first + threadIdx.x < m) {
        const int i = first + threadIdx.x;
        row_side[threadIdx.x] = Side(exponent_a[i], total_a[i], scale_a[i], exact_a[i]);
    }
    __syncthreads();
    double error = 0, ratio = 0;
    if (column < n) {
        const Side b(exponent_b[column], total_b[column], scale_b[column], exact_b[column]);
        const double most = (double)(1 << MAGNITUDE_BITS);
#pragma unroll 4
        for (int i = 0; i < min(ROWS, m - first); i++) {
            const Side a = row_side[i];
            const i64 at = (i64)(first + i) * n + column;
            const double count = COUNTED ? terms[at] : (double)length;
            const double of_a = a.half * min(b.norm, count * most), of_b = b.half * min(a.norm, count * most);
            const double truncation = count > 0 ? of_a + of_b + a.half * b.half * count : 0;
            const double relative = truncation > 0 ? truncation / (lower[at] * SLACK) : 0;
            error = max(error, relative);
            if (COUNTED) ratio = max(ratio, relative / (0.5 * sqrt(max(count, 1.0))));
        }
    }
    /* Division by one and the same number keeps the order, so the largest can wait for it. */
    if (!COUNTED) ratio = error / (0.5 * sqrt((double)length));
    for (int d = 16; d; d >>= 1) {
        error = max(error, __shfl_xor_sync(~0u, error, d));
        ratio = max(ratio, __shfl_xor_sync(~0u, ratio, d));
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(&largest[0], (u64)__double_as_longlong(error));
        atomicMax(&largest[1], (u64)__double_as_longlong(ratio));
    }
    __syncthreads();
    if (threadIdx.x < 2) atomicMax(&found[threadIdx.x], largest[threadIdx.x]);
}
""",
    ({**_CONSTANTS, "COUNTED": 0}, {**_CONSTANTS, "COUNTED": 1}),
)


def _look_device(
    lower: Array, terms: Array | None, sides: tuple[Side, Side], length: int, found: Array
) -> None:
    m, n = lower.shape
    arrays = [x for p, s, exact in sides for x in (p.exponent, p.total, s, exact)]
    sizes = (np.int32(m), np.int32(n), np.int64(length))
    counted = lower if terms is None else terms
    grid = (-(-n // 256) * -(-m // 32),)
    constants = {**_CONSTANTS, "COUNTED": int(terms is not None)}
    _PAIR_ERRORS(grid, (256,), (lower, counted, *sizes, *arrays, found), **constants)

"""Exact references, independent of the packages: integers and fractions, rounded once; comparisons of bits.

What rounds once takes integers n·2**e or fractions, products are of integers, and linear algebra is of
python-flint's rationals.
"""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

from multiword.formats import FORMATS as BY_NAME

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FORMATS = {
    np.dtype(np.float16): (11, -14, 15),
    BFLOAT16: (8, -126, 127),
    np.dtype(np.float32): (24, -126, 127),
    np.dtype(np.float64): (53, -1022, 1023),
}
"""(precision, emin, emax) of every floating-point dtype."""


def part_dtype(dtype):
    """The dtype of the real and the imaginary part."""
    return np.dtype({"c8": np.float32, "c16": np.float64}.get(np.dtype(dtype).str[1:], dtype))


def rounded(n: int, e: int, fmt, mode: str = "RN") -> float:
    """n·2**e rounded once to a (precision, emin, emax): "RN" to even, "RNA" away, "RZ" toward zero."""
    if n == 0:
        return 0.0
    precision, emin, emax = fmt
    a = abs(n)
    last = max(a.bit_length() + e - 1, emin) - precision + 1
    drop = last - e
    if drop > 0:
        q, rest, half = a >> drop, a & ((1 << drop) - 1), 1 << (drop - 1)
        if mode == "RN":
            q += rest > half or (rest == half and q & 1)
        elif mode == "RNA":
            q += rest >= half
    else:
        q = a << -drop
    if q.bit_length() + last - 1 > emax:
        value = math.inf if mode != "RZ" else math.ldexp(2.0 - 2.0 ** (1 - precision), emax)
    else:
        value = math.ldexp(q, last)
    return value if n > 0 else -value


def rounded_ratio(n: int, d: int, e: int, fmt) -> float:
    """n/d·2**e rounded once, d > 0."""
    shift = max(0, 80 + d.bit_length() - abs(n).bit_length())
    q, rest = divmod(abs(n) << shift, d)
    q = 2 * q + (rest != 0)  # a last bit that only says "and a little more"
    return rounded(q if n > 0 else -q, e - shift - 1, fmt)


def rounded_root(n: int, e: int, fmt, d: int = 1) -> float:
    """The square root of n/d·2**e, rounded once, d > 0."""
    shift = max(0, 160 + d.bit_length() - n.bit_length())
    shift += (e - shift) % 2
    whole, rest = divmod(n << shift, d)
    root = math.isqrt(whole)
    return rounded(2 * root + (rest != 0 or root * root != whole), (e - shift) // 2 - 1, fmt)


def parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def integers(x) -> tuple[np.ndarray, int]:
    """An object array of integers and an exponent e: x = integers·2**e; what is not finite counts as 0."""
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        result = np.empty(x.shape, object)
        result.reshape(-1)[:] = list(map(int, x.ravel().tolist()))
        return result, 0
    wide = x.astype(np.float64)
    wide = np.where(np.isfinite(wide), wide, 0.0)
    significand, exponent = np.frexp(wide)
    whole = np.ldexp(significand, 53).astype(np.int64)
    places = exponent.astype(np.int64) - 53
    lowest = int(places[whole != 0].min()) if whole.any() else 0
    shifts = np.where(whole == 0, 0, places - lowest)
    result = np.empty(x.shape, object)
    result.reshape(-1)[:] = [
        w << s for w, s in zip(whole.ravel().tolist(), shifts.ravel().tolist(), strict=True)
    ]
    return result, lowest


def exact_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, int]:
    """A·B of real matrices as integers and the exponent of their unit."""
    (left, e), (right, f) = integers(a), integers(b)
    if left.shape[1] == 0:
        return np.full((left.shape[0], right.shape[1]), 0, object), 0
    return left.dot(right), e + f


def real_products(a: np.ndarray, b: np.ndarray):
    """The real products that AB is, or that its real and its imaginary part are."""
    if "c" not in (a.dtype.kind, b.dtype.kind):
        return [(a, b)]
    left = np.concatenate([a.real, a.imag], axis=1)
    real = np.concatenate([b.real, -b.imag])
    return [(left, real), (left, np.concatenate([b.imag, b.real]))]


def special_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where a real product is Inf or NaN by IEEE arithmetic, and which; 0 elsewhere."""
    with np.errstate(all="ignore"):
        a, b = (np.where(np.isfinite(x), np.sign(x), x).astype(np.float64) for x in (a, b))
        terms = a[:, :, None] * b[None]  # the finite ones are signs and cannot overflow
        return np.where(np.isfinite(terms), 0.0, terms).sum(axis=1)


def joined(values: list[np.ndarray], dtype) -> np.ndarray:
    """A real array, or a complex one of two parts, of that dtype."""
    with np.errstate(over="ignore"):
        if np.dtype(dtype).kind != "c":
            return np.asarray(values[0]).astype(dtype)
        result = np.empty(np.shape(values[0]), dtype)
        result.real, result.imag = values
        return result


def rounded_product(a: np.ndarray, b: np.ndarray, dtype=np.float64) -> np.ndarray:
    """The correctly rounded AB; Inf and NaN in the rows and columns concerned as IEEE gives them."""
    fmt, values = FORMATS[part_dtype(dtype)], []
    for x, y in real_products(a, b):
        whole, unit = exact_product(x, y)
        value = np.array([rounded(v, unit, fmt) for v in whole.ravel()], np.float64).reshape(whole.shape)
        values.append(with_special(value, x, y))
    return joined(values, dtype)


def with_special(value: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if all(part.dtype.kind in "iub" or np.isfinite(part).all() for part in (x, y)):
        return value
    special = special_product(x, y)
    return np.where(special == 0, value, special)


def fixed_product(a: np.ndarray, b: np.ndarray, bits: int, dtype) -> np.ndarray:
    """The product that a number of bits defines: rows rounded to integers relative to their largest elements.

    With e_i the largest `frexp` exponent in row i, A' = RN(a·2**(bits - e_i)), likewise for columns.
    """
    scaled_a, e = fixed_rows(a, bits)
    scaled_b, f = fixed_rows(b.T, bits)
    (ar, *ai), (br, *bi) = scaled_a, scaled_b
    if ar.shape[1] == 0:
        whole = [np.full((len(ar), len(br)), 0, object)] * len(scaled_a)
    elif not ai:
        whole = [ar.dot(br.T)]
    else:
        whole = [ar.dot(br.T) - ai[0].dot(bi[0].T), ar.dot(bi[0].T) + ai[0].dot(br.T)]
    fmt, values = FORMATS[part_dtype(dtype)], []
    for part, (x, y) in zip(whole, real_products(a, b), strict=True):
        value = np.zeros(part.shape)
        for i, j in np.ndindex(*part.shape):
            value[i, j] = rounded(part[i, j], e[i] + f[j] - 2 * bits, fmt)
        values.append(with_special(value, x, y))
    return joined(values, dtype)


def fixed_rows(x: np.ndarray, bits: int) -> tuple[list[np.ndarray], list[int]]:
    exponents, scaled = [], [np.empty(p.shape, object) for p in parts(x)]
    for i in range(len(x)):
        rows = [p[i].astype(np.float64) for p in parts(x)]
        usable = all(np.isfinite(r).all() for r in rows)
        largest = max(float(np.abs(r).max(initial=0.0)) for r in rows)
        e = math.frexp(largest)[1] if usable else 0
        exponents.append(e)
        for row, target in zip(rows, scaled, strict=True):
            target[i] = [_to_integer(v, bits - e) if usable else 0 for v in row.tolist()]
    return scaled, exponents


def _to_integer(x: float, shift: int) -> int:
    """RN(x·2**shift), ties to even."""
    n, d = x.as_integer_ratio()
    n, d = (n << shift, d) if shift >= 0 else (n, d << -shift)
    q, rest = divmod(abs(n), d)
    q += 2 * rest > d or (2 * rest == d and q & 1)
    return q if n >= 0 else -q


def real_sum(terms: np.ndarray) -> tuple[int, int, float | None]:
    """Σ terms as n·2**e, or what is decided by Inf, NaN or signed zeros alone."""
    if terms.dtype.kind not in "iub":
        with np.errstate(all="ignore"):
            beyond = terms[~np.isfinite(terms)].astype(np.float64)
            if beyond.size:
                return 0, 0, float(beyond.sum())
            if terms.size and not terms.any() and np.signbit(terms).all():
                return 0, 0, -0.0
    whole, e = integers(terms)
    return sum(whole.ravel().tolist()), e, None


def value(found: tuple[int, int, float | None], fmt) -> float:
    """The rounding of what `real_sum` or `real_dot` found."""
    n, e, special = found
    return rounded(n, e, fmt) if special is None else special


def real_dot(pairs) -> tuple[int, int, float | None]:
    """Σ sign·x·y over several (sign, x, y) of vectors, as `real_sum`."""
    total, unit, special, zeros = 0, None, 0.0, []
    with np.errstate(all="ignore"):
        for sign, x, y in pairs:
            a, b = (v.astype(np.float64) for v in (x, y))
            # Signs stand for finite numbers: their products neither overflow nor underflow.
            signs = [np.where(np.isfinite(v), np.copysign((v != 0).astype(float), v), v) for v in (a, b)]
            products = sign * signs[0] * signs[1]
            special += float(products[~np.isfinite(products)].sum())
            whole = x.dtype.kind in "iub" and y.dtype.kind in "iub"  # these know no -0
            zeros += [np.signbit(products) & (products == 0) & (not whole)]
    if special != 0:
        return 0, 0, special
    for sign, x, y in pairs:
        (p, e), (q, f) = integers(x), integers(y)
        part = sign * sum(map(lambda v, w: v * w, p.ravel().tolist(), q.ravel().tolist()))
        unit, total = _aligned(unit, total, e + f, part)
    if total == 0 and all(z.size and z.all() for z in zeros):
        return 0, 0, -0.0
    return total, unit or 0, None


def _aligned(unit, total, e, part):
    if unit is None or unit == e:
        return e, total + part
    low = min(unit, e)
    return low, (total << (unit - low)) + (part << (e - low))


def same(x, y) -> bool:
    """Bit for bit, the dtype and the shape included."""
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def nearest(value: Fraction, fmt=BY_NAME["fp64"]) -> float:
    """RN of an exact rational to a format, ties to even, subnormals and overflow included."""
    return rounded_ratio(value.numerator, value.denominator, 0, (fmt.precision, fmt.emin, fmt.emax))


def nearest_root(square: Fraction, fmt=BY_NAME["fp64"]) -> float:
    """RN of the square root of an exact rational."""
    return rounded_root(square.numerator, 0, (fmt.precision, fmt.emin, fmt.emax), square.denominator)


def componentwise_error(c, a, b, fmt=BY_NAME["fp64"]) -> tuple[float, float]:
    """Return max |C - AB| / |A||B| and max (|C - AB| - half an ulp of C) / |A||B|."""
    whole, exponent = exact_product(a, b)
    magnitude, _ = exact_product(np.abs(a), np.abs(b))
    unit = Fraction(2) ** exponent
    worst = truncation = Fraction(0)
    for v, w, x in zip(whole.ravel(), magnitude.ravel(), np.asarray(c, np.float64).ravel(), strict=True):
        error = abs(Fraction(v) * unit - Fraction(float(x)))
        if w == 0:
            assert error == 0
            continue
        last = (
            max(int(np.frexp(x)[1]) - fmt.precision, fmt.emin - fmt.precision + 1)
            if x
            else fmt.emin - fmt.precision + 1
        )
        scale = Fraction(w) * unit
        worst = max(worst, error / scale)
        truncation = max(truncation, (error - Fraction(2) ** last / 2) / scale)
    return float(worst), float(truncation)


def images_of(real, imaginary, system):
    """(images, N, …) weighted residues of products with these real and imaginary parts, arrays of integers.

    Each is any number between 0 and its modulus.
    """
    found = []
    for t, (p, w) in enumerate(zip(system.moduli, system.weights, strict=True)):
        if system.images == 2:
            half, j = w * pow(2, -1, p), system.roots[t]
            images = half * (real + j * imaginary), half * (real - j * imaginary)
        else:  # Karatsuba's first two are what the real part is the difference of
            images = (w * real, 0 * real, w * (real + imaginary))[: system.images]
        found.append([x % p for x in images])
    return np.array(found, object).swapaxes(0, 1)


def rational_matrix(x):
    """A real float64 matrix as flint's rationals."""
    import flint

    ratios = [[value.as_integer_ratio() for value in row] for row in x.tolist()]
    return flint.fmpq_mat([[flint.fmpq(p, q) for p, q in row] for row in ratios])


def embedded(x):
    """The real matrix [[Re, -Im], [Im, Re]], which multiplies as the complex one does."""
    return np.block([[x.real, -x.imag], [x.imag, x.real]]) if x.dtype.kind == "c" else x


def fractions(x):
    """The elements of flint's matrix, as nested lists of Fraction."""
    return [[Fraction(int(v.p), int(v.q)) for v in row] for row in x.tolist()]


def exact_solution(a, b):
    """The (n, m) solution of AX = B in Fractions: real parts, and imaginary ones or None."""
    n, right = len(a), np.vstack([b.real, b.imag]) if a.dtype.kind == "c" else b
    x = fractions(rational_matrix(embedded(a)).solve(rational_matrix(right)))
    return x[:n], x[n:] or None


def check_proof(solution, real, imaginary=None):
    """Every bound holds, every component said to be rounded is; the share of components that are."""
    value, bound, rounded = (np.atleast_2d(x) for x in (solution.value, solution.bound, solution.rounded))
    parts = [(value.real, real)] + ([(value.imag, imaginary)] if imaginary else [])
    for index in np.ndindex(value.shape):
        square = Fraction(0)
        if not np.isfinite(bound[index]):
            assert not rounded[index]
            continue
        for part, exact in parts:
            x, true = float(part[index]), exact[index[0]][index[1]]
            square += (Fraction(x) - true) ** 2
            if rounded[index]:
                assert x == nearest(true), (x, float(true))
        assert square <= Fraction(float(bound[index])) ** 2, (index, value[index], bound[index])
    return rounded.mean() if rounded.size else 1.0


def eigenvalues_below(a, x):
    """How many eigenvalues of a real symmetric matrix are below x: negative pivots of A - xI."""
    a = [[Fraction(v) - (i == j) * x for j, v in enumerate(row)] for i, row in enumerate(a.tolist())]
    count = 0
    for k in range(len(a)):
        count += a[k][k] < 0
        for i in range(k + 1, len(a)):
            share = a[i][k] / a[k][k]
            a[i] = [p - share * q for p, q in zip(a[i], a[k], strict=True)]
    return count


def check_spectrum(enclosures, a):
    """Every eigenvalue of a real symmetric matrix is within its bound, in ascending order."""
    for i, (value, bound) in enumerate(zip(enclosures.value, enclosures.bound, strict=True)):
        middle, reach = Fraction(float(value)), Fraction(float(bound)) + Fraction(1, 2**200)
        assert eigenvalues_below(a, middle - reach) <= i < eigenvalues_below(a, middle + reach), (a, i)

"""Sparse products, residuals and sums against fractions: all formats, dtypes, threads and invalid inputs."""

from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from multiword.runtime.compiled import numpy_forms
from ozaki.arguments import result_dtype
from ozaki.definition.rounding import nearest
from ozaki.definition.sums import rounded_dot, rounded_norm, rounded_sum
from ozaki.sparse import matrices, pairs, products, rows
from ozaki.sparse.matrices import Matrix
from tests.cells import cells

ss = pytest.importorskip("scipy.sparse")

FORMS = ("csr", "csc", "coo", "bsr", "dia", "duplicates", "int64", "unsorted", "zeros", "matrix")
DTYPES = (np.float32, np.float64, np.complex64, np.complex128, np.int64, np.int8, np.bool_)
COMPLEX = (np.complex64, np.complex128)


def numbers(rng, shape, dtype):
    """Numbers that cancel, far apart, with zeros among them."""
    x = rng.integers(-9, 10, shape) * np.exp2(rng.integers(-30, 30, shape))
    if np.dtype(dtype).kind in "iub":
        return rng.integers(*((-(2**62), 2**62) if dtype == np.int64 else (-100, 100)), shape).astype(dtype)
    x = np.where(rng.random(shape) < 0.3, -np.roll(x, 1, axis=0), x)
    return (x + 1j * np.roll(x, 1) if dtype in COMPLEX else x).astype(dtype)


def dense(rng, dtype, shape=(6, 8)):
    x = numbers(rng, shape, dtype)
    x[rng.random(shape) < 0.6] = 0
    x[3] = 0
    return x


def form_of(kind, x, rng):
    """A sparse matrix of a kind that is x."""
    if kind in ("csr", "csc", "coo", "dia"):
        return getattr(ss, f"{kind}_array")(x)
    if kind == "bsr":
        return ss.bsr_array(x, blocksize=(3, 4))
    if kind == "matrix":
        return ss.csr_matrix(x)
    rows, columns = np.nonzero(np.ones_like(x) if kind == "zeros" else x)
    order = rng.permutation(len(rows))
    rows, columns = rows[order], columns[order]
    values = x[rows, columns]
    if kind == "duplicates":  # each number is what is left of three entries
        rows, columns = (np.concatenate([i, i, i]) for i in (rows, columns))
        more = values & False if x.dtype == bool else values
        values = np.concatenate([values, more, more if x.dtype == bool else -more])
        return ss.coo_array((values, (rows, columns)), x.shape)
    result = ss.csr_array(x)
    if kind == "unsorted":
        for i in range(len(x)):
            part = slice(*result.indptr[i : i + 2])
            result.indices[part], result.data[part] = result.indices[part][::-1], result.data[part][::-1]
        return result
    if kind == "int64":
        result.indices, result.indptr = result.indices.astype(np.int64), result.indptr.astype(np.int64)
        return result
    return ss.coo_array((values, (rows, columns)), x.shape).tocsr()


def parts(x):
    return [x.real.tolist(), x.imag.tolist()] if x.dtype.kind == "c" else [x.tolist()]


def exact_dot(x, y, dtype):
    """RN(Σ x·y) of numbers of any dtype; zeros are +0."""
    zero = [Fraction(0)] * len(x)
    (xr, xi), (yr, yi) = ([*(list(map(Fraction, part)) for part in parts(v)), zero][:2] for v in (x, y))
    real = sum((a * b - c * d for a, b, c, d in zip(xr, yr, xi, yi, strict=True)), Fraction(0))
    imaginary = sum((a * d + c * b for a, b, c, d in zip(xr, yr, xi, yi, strict=True)), Fraction(0))
    target = FORMATS["fp32" if dtype in (np.float32, np.complex64) else "fp64"]
    both = nearest(real, target), nearest(imaginary, target)
    return complex(*both) if np.dtype(dtype).kind == "c" else both[0]


def same(x, y):
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def reference(a, x):
    """The product of dense arrays, element by element."""
    dtype, columns = result_dtype(a, x), x[:, None] if x.ndim == 1 else x
    result = np.array([[exact_dot(row, c, dtype) for c in columns.T] for row in a], dtype)
    return result[:, 0] if x.ndim == 1 else result


@cells(kind=FORMS, dtype=DTYPES)
def test_products_are_correctly_rounded(kind, dtype):
    rng = np.random.default_rng(1)
    a = dense(rng, dtype)
    sparse = form_of(kind, a, rng)
    for other in (dtype, np.float64, np.complex64, np.int64):
        x, y = numbers(rng, 8, other), numbers(rng, 6, other)
        assert same(ozaki.matmul(sparse, x), reference(a, x))
        assert same(ozaki.matmul(sparse.T, y), reference(a.T, y))
        assert same(ozaki.matmul(y, sparse), reference(a.T, y))
    x = numbers(rng, (8, 3), dtype)
    assert same(ozaki.matmul(sparse, x), reference(a, x))
    assert same(ozaki.matmul(x.T, sparse.T), reference(a, x).T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_every_way_to_a_product_has_the_same_bits(dtype, monkeypatch):
    """One thread and two, compiled code and exact sums, rows and entries, many columns and one."""
    rng = np.random.default_rng(2)
    a, x = ss.csr_array(dense(rng, dtype, (200, 90))), numbers(rng, (90, 70), dtype)
    expected = ozaki.matmul(a, x)
    of_residual = ozaki.residual(a.toarray(), x[:, 5], expected[:, 4])
    monkeypatch.setattr(rows, "SPARSE_ENTRIES_OF_A_THREAD", 1)
    for threads in (1, 2):
        monkeypatch.setattr(rows, "thread_count", lambda threads=threads: threads)
        assert same(ozaki.matmul(a, x), expected)
        for form in (a, a.tocsc(), a.tocoo(), a.tobsr((4, 3)), ss.dia_array(a)):
            assert same(ozaki.matmul(form, x[:, 5]), expected[:, 5])
            assert same(ozaki.residual(form, x[:, 5], expected[:, 4]), of_residual)
    with numpy_forms():
        assert same(ozaki.matmul(a, x[:, 5]), expected[:, 5])


def test_pieces_do_not_show(monkeypatch):
    rng = np.random.default_rng(3)
    a, x = dense(rng, np.float64), numbers(rng, 8, np.float64)
    monkeypatch.setattr(matrices, "PIECE", 5)
    for kind in FORMS:
        assert same(ozaki.matmul(form_of(kind, a, rng).T, x[:6]), reference(a.T, x[:6]))


@pytest.mark.parametrize("piece", [5, matrices.PIECE])
def test_diagonals_have_what_lies_inside(piece, monkeypatch):
    """Of more numbers than the matrix has columns, or fewer, and of diagonals beside it."""
    monkeypatch.setattr(matrices, "PIECE", piece)
    rng, offsets = np.random.default_rng(6), [-9, -6, -2, 0, 3, 7, 8, 20]
    for width in (3, 8, 11):
        for shape in ((6, 8), (8, 6)):
            a = ss.dia_array((rng.integers(1, 9, (8, width)).astype(float), offsets), shape=shape)
            x, y = np.arange(1.0, shape[1] + 1), np.arange(1.0, shape[0] + 1)
            assert same(ozaki.matmul(a, x), a.toarray() @ x)
            assert same(ozaki.matmul(y, a), y @ a.toarray())
            assert ozaki.sum(a) == a.toarray().sum()


@pytest.mark.parametrize("kind", FORMS)
def test_entries_sorted_by_row(kind):
    """What a GPU adds up instead of entries in any order."""
    rng = np.random.default_rng(7)
    a = dense(rng, np.complex128)
    for matrix, x in ((a, numbers(rng, 8, complex)), (a.conj().T, numbers(rng, 6, complex))):
        one = Matrix.of(form_of(kind, a, rng), "a")
        rows = products.sorted_by_row(one if matrix is a else one.H)
        assert rows.row_by_row
        assert same(products.product_with_vector(rows, x), reference(matrix, x))


def test_the_conjugate_transpose_is_not_a_copy():
    for form in (ss.csr_array, ss.csc_array):
        a = form(dense(np.random.default_rng(2), np.complex128))
        matrix, x = Matrix.of(a, "a"), numbers(np.random.default_rng(3), (6, 2), np.complex128)
        product = products.rounded_products([(matrix.H, x)], [], np.dtype(complex))
        assert matrix.H.values is a.data
        assert matrix == matrix.H.H
        assert same(product, reference(a.toarray().conj().T, x))


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.filterwarnings("ignore:overflow")
def test_ends_of_the_range(kind):
    """Ties, overflow, underflow, sums that are subnormal, Inf and NaN; each row alone."""
    tiny, huge, ulp = 2.0**-1000, 2.0**1000, 2.0**-53
    rows = [
        [1.0, ulp, 0.0, 0.0],
        [1.0, ulp, tiny, 0.0],
        [1.0 + 2 * ulp, ulp, -tiny, 0.0],
        [huge, huge, -huge, 0.0],
        [tiny, 0.0, 0.0, 0.0],
        [tiny, -tiny, 0.0, 0.0],
        [2.0**-1074, 2.0**-1074, 2.0**-1022, 0.0],
        [0.0, 0.0, 0.0, 0.0],
        [-0.0, 0.0, 0.0, 0.0],
        [np.inf, 1.0, 0.0, 0.0],
        [np.inf, -np.inf, 0.0, 0.0],
        [np.nan, 1.0, 0.0, 0.0],
    ]
    a = ss.coo_array(np.array(rows)).asformat(kind)
    for scale in (1.0, tiny, huge, -(2.0**-40)):
        x = np.full(4, scale)
        with np.errstate(all="ignore"):
            expected = np.array(
                [rounded_dot([v for v in row if v], [scale] * sum(map(bool, row))) for row in rows]
            )
        expected += 0.0
        assert np.array_equal(ozaki.matmul(a, x), expected, equal_nan=True)
    assert not np.signbit(ozaki.matmul(a, np.zeros(4))[:9]).any()
    small = np.array([[2.0**-149, 1.0 + 2.0**-23]], np.float32)
    for x in ([1.0, 2.0**-149], [3e38, 3e38], [3e38, 3.4e38], [2.0, 2.0**-24]):
        y = np.array(x, np.float32)
        assert same(ozaki.matmul(ss.coo_array(small).asformat(kind), y), reference(small, y))


@pytest.mark.parametrize("kind", FORMS)
def test_results_below_the_least_float32_are_plus_zero(kind):
    """Exact sums of −2⁻²⁹⁸ alone, and behind what cancels; of vectors, of matrices, of complex numbers."""
    least = 2.0**-149
    rows = np.array([[1, -1, -least, 0], [-least, 0, 0, 0], [-least, least, -least, 0]], np.float32)
    x = np.array([least, least, least, 0], np.float32)
    for dtype in (np.float32, np.complex64):
        a, factor = form_of(kind, rows.astype(dtype), np.random.default_rng(1)), x.astype(dtype)
        results = (
            ozaki.matmul(a, factor),
            ozaki.matmul(a, np.stack([factor] * 3, axis=1)),
            ozaki.matmul(factor, a.T),
        )
        for result in results:
            assert not result.view(np.uint8).any(), result


def test_sums_norms_and_residuals():
    rng = np.random.default_rng(4)
    a, x, b = dense(rng, np.float64), numbers(rng, 8, np.float64), numbers(rng, 6, np.float64)
    for kind in FORMS:
        sparse = form_of(kind, a, rng)
        assert ozaki.sum(sparse) == rounded_sum(a.ravel().tolist())
        assert ozaki.norm(sparse) == rounded_norm(a.ravel().tolist())
        for axis in (0, 1, -1):
            expected = [rounded_sum(line.tolist()) for line in np.moveaxis(a, axis, -1)]
            assert ozaki.sum(sparse, axis=axis).tolist() == expected
        assert same(ozaki.residual(sparse, x, b), ozaki.residual(a, x, b))
        words = ozaki.residual((sparse, sparse), (x, x * 2.0**-60), (b, b), words=3)
        assert all(map(same, words, ozaki.residual((a, a), (x, x * 2.0**-60), (b, b), words=3)))
    assert ozaki.norm(ss.coo_array(([1e200, -1e200, 3.0, 1.0], ([0, 0, 0, 1], [0, 0, 0, 1])))) == 10**0.5
    assert ozaki.sum(ss.csr_array((2, 2), dtype=np.int64), axis=0, keepdims=True).tolist() == [[0, 0]]


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.int64])
def test_products_of_two_sparse_matrices(dtype, monkeypatch):
    """With SciPy's entries, cut anywhere."""
    rng = np.random.default_rng(5)
    a, b = dense(rng, dtype), dense(rng, dtype, (8, 5))
    expected = reference(a, b)
    for piece in (pairs.PIECE, 1):
        monkeypatch.setattr(pairs, "PIECE", piece)
        for first, second in (("csr", "csr"), ("csc", "csc"), ("coo", "bsr"), ("duplicates", "dia")):
            left, right = form_of(first, a, rng), form_of("csr" if second == "bsr" else second, b, rng)
            product = ozaki.matmul(left, right)
            assert product.format == ("csc" if first == "csc" else "csr")
            assert same(product.toarray(), expected)
            assert product.nnz == (left.tocsr() @ right.tocsr()).nnz


def test_invalid_arguments():
    a = ss.csr_array(np.eye(3))
    for form in (a.tolil(), a.todok()):
        with pytest.raises(TypeError, match=r"pass a.tocsr\(\)"):
            ozaki.matmul(form, np.ones(3))
    for call, message in (
        (lambda: ozaki.matmul(a, np.ones(4)), r"a is \(3, 3\), b is \(4,\)"),
        (lambda: ozaki.matmul(np.ones((2, 4)), a), r"a is \(2, 4\), b is \(3, 3\)"),
        (lambda: ozaki.matmul(a, ss.csr_array((4, 3))), "inner dimensions differ"),
        (lambda: ozaki.matmul(a, np.ones((3, 3, 3))), "vectors and matrices"),
        (lambda: ozaki.matmul(a, np.ones(3), out=np.ones(4)), "out must be"),
        (lambda: ozaki.matmul(a, np.ones(3), accuracy="most"), "accuracy"),
        (lambda: ozaki.residual(a, np.ones(3), np.ones(2)), "shapes do not fit"),
        (lambda: ozaki.residual(a, np.full(3, np.nan), np.ones(3)), "finite"),
        (lambda: ozaki.norm(a, 2), "ord must be"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="matmul takes mod for dense arrays"):
        ozaki.matmul(a, np.ones(3), mod=7)
    with pytest.raises(TypeError, match="numeric"):
        ozaki.matmul(a, np.array(["a", "b", "c"]))
    for index in (3, -1):
        for form in ("csr", "csc", "coo"):
            damaged = getattr(ss, f"{form}_array")(np.eye(3))
            (damaged.col if form == "coo" else damaged.indices)[1] = index
            for x in (np.ones(3), np.ones((3, 2))):
                with pytest.raises(ValueError, match="out of range"):
                    ozaki.matmul(damaged, x)
    falling = ss.csr_array(np.eye(3))
    falling.indptr[1] = 3
    for x in (np.ones(3), np.ones((3, 2))):
        with pytest.raises(ValueError, match="decrease"):
            ozaki.matmul(falling, x)


def test_empty_matrices_and_out():
    for shape in ((0, 3), (3, 0), (0, 0)):
        assert same(ozaki.matmul(ss.csr_array(shape), np.ones(shape[1])), np.zeros(shape[0]))
        assert ozaki.matmul(ss.csc_array(shape), np.ones((shape[1], 2))).shape == (shape[0], 2)
    out = np.full((3, 2), np.nan, order="F")
    assert ozaki.matmul(ss.eye_array(3).tocsr(), np.ones((3, 2)), out=out) is out
    assert same(out, np.ones((3, 2)))


@pytest.mark.parametrize("kind", ["ties", "some ties", "graded", "long", "huge", "nan", "added"])
def test_rows_by_extraction(kind):
    """Of entries that one power of two divides, so that ties are decided; of some that it fails for."""
    rng = np.random.default_rng(FORMS.index("dia"))
    height, width, count = 1500 if kind == "some ties" else 60, 50, 40 if kind in ("long", "added") else 4
    columns, pointers = rng.integers(0, width, (height, count)), np.arange(0, height * count + 1, count)
    values, x = rng.choice([-1.0, 0.5, 4.0], height * count), rng.standard_normal(width)
    if kind != "ties":
        values = rng.standard_normal(height * count)
    if kind == "some ties":  # among the first rows; the last one only seems to be a tie
        values[: 2 * height] = np.round(values[: 2 * height])
        values[-4:], columns[-1], x[:3] = [1.0, 2.0**-53, 2.0**-160, 0.0], [0, 1, 2, 2], 1.0
    if kind == "graded":
        values *= np.repeat(np.exp2(np.linspace(0, 300, height)), count)
    if kind in ("huge", "nan"):
        x[3] = 2.0**1020 if kind == "huge" else np.nan
    a = ss.csr_array((values, columns.ravel(), pointers), shape=(height, width))
    if kind == "added":
        b = ozaki.matmul(a, x)
        found, (x, terms) = ozaki.residual(a, x, b), (-x, [*zip(b.tolist(), [1.0] * height, strict=True)])
    else:
        found, terms = ozaki.matmul(a, x), [(0.0, 0.0)] * height
    rows = zip(values.reshape(columns.shape).tolist(), x[columns].tolist(), terms, strict=True)
    expected = [rounded_dot([*row, term], [*of_x, one], FORMATS["fp64"]) for row, of_x, (term, one) in rows]
    assert same(found, np.array(expected) + 0.0)


@pytest.mark.parametrize("count", [4, 40])
def test_rows_of_float32(count):
    """Of numbers far apart, of sums that are ties of float32 or near one, of zeros, Inf and NaN."""
    rng, one = np.random.default_rng(count), np.float32(1)
    a = numbers(rng, (50, count), np.float32)
    for i, row in enumerate(
        (
            [one, 2.0**-24],
            [one, 2.0**-24, 2.0**-80],
            [one, 2.0**-24, -(2.0**-80)],
            [one + 2.0**-23, 2.0**-24],
            [1e30, 1.0, -1e30],
            [3.0, -3.0],
            [2.0**-149, 2.0**-149],
            [3e38, 3e38],
        )
    ):
        a[i] = 0
        a[i, : len(row)] = row
    for x in (np.ones(count, np.float32), numbers(rng, count, np.float32)):
        with np.errstate(over="ignore"):
            assert same(ozaki.matmul(ss.csr_array(a), x), reference(a, x))
    a[0, 0], a[1, 1] = np.inf, np.nan
    found = ozaki.matmul(ss.csr_array(a), np.ones(count, np.float32))
    assert found[0] == np.inf
    assert np.isnan(found[1])


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "dia"])
def test_the_high_part_of_a_sum_may_cancel(kind):
    """What is left to be rounded to float32 is in the low part, and no tie."""
    row = np.array([[2.0**-53, 1.0, 2.0**-77, -1.0, 2.0**-106]], np.float32)
    a, ones = ss.csr_array(row).asformat(kind), np.ones(5, np.float32)
    assert ozaki.matmul(a, ones).tolist() == [2.0**-53 * (1 + 2.0**-23)]
    assert ozaki.matmul(a.astype(np.complex64), ones).tolist() == [2.0**-53 * (1 + 2.0**-23)]


def test_many_rows_of_nothing():
    """More than a loop has room for at a time, between rows of some entries."""
    rng, m, n = np.random.default_rng(8), 20_000, 300
    x, some = rng.standard_normal(n), np.sort(rng.choice(m, 20, replace=False))
    a = ss.csr_array((rng.standard_normal(40), (np.repeat(some, 2), rng.integers(0, n, 40))), (m, n))
    found, (pointers, indices, values) = ozaki.matmul(a, x), (a.indptr, a.indices, a.data)
    expected = np.zeros(m)
    for i in some:
        of_row = slice(pointers[i], pointers[i + 1])
        expected[i] = rounded_dot(values[of_row].tolist(), x[indices[of_row]].tolist())
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("last", [2.0**-110, -(2.0**-110), 2.0**-97, 2.0**-90, 0.0])
@pytest.mark.parametrize("kind", ["csr", "csc", "dia"])
def test_ties_but_for_a_last_bit(last, kind):
    """Of products that a power of two divides, but one too small for nothing to be lost."""
    x = np.array([1.0, 2.0**-53, last])
    a, expected = ss.csr_array(np.ones((5, 3))).asformat(kind), 1.0 + 2.0**-52 * (last > 0)
    assert rounded_dot([1.0] * 3, x.tolist()) == expected
    assert ozaki.matmul(a, x).tolist() == [expected] * 5
    for columns in (5, 9):  # added up side by side
        found = ozaki.matmul(a, np.repeat(x[:, None], columns, axis=1))
        assert found.tolist() == [[expected] * columns] * 5


@pytest.mark.parametrize("size", [(1, 2), (1, 3), (2, 1), (2, 2)])
def test_a_single_block(size):
    a = ss.bsr_array((np.arange(1.0, 1 + size[0] * size[1]).reshape(1, *size), [0], [0, 1]), shape=size)
    for columns in (1, 5, 40):
        x = np.arange(size[1] * columns, dtype=float).reshape(size[1], columns)
        assert (ozaki.matmul(a, x) == a.toarray() @ x).all()
    assert (ozaki.matmul(np.ones((3, size[0])), a) == np.ones((3, size[0])) @ a.toarray()).all()

"""The library's steps and the functions of `ozaki.definition` that they equal, on the same arrays.

A comparison draws arrays and calls the definition with them, and the library with the same arrays where
`there` puts them: on a GPU, or where they are. So one comparison serves all forms that state a function.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

import ozaki
from multiword.engines.moduli import residue_system
from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from ozaki.certificate.counted import counted_scales
from ozaki.certificate.counting import _operand_host
from ozaki.certificate.magnitudes import LARGEST, _split_host
from ozaki.certificate.pairwise import _raise_host
from ozaki.definition import decision, products, remainders, rounding, scales, statistics, sums
from ozaki.residues.reconstruct import reconstruct
from ozaki.residues.split import residues
from ozaki.rounding.digits import round_digits
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import norm_limit, norm_scales
from ozaki.scaling.statistics import NONFINITE, NONFINITE_ROW, ZERO, row_statistics
from ozaki.sparse.linalg import vectors
from ozaki.sparse.matrices import Matrix
from ozaki.sparse.products import in_rows, rounded_products
from ozaki.sums.exact import groups, groups_enclosed, rows
from tests.fuzz.arrays import KINDS, SPECIAL, Spec, fetched, place
from tests.residues.test_reconstruct import residues_of

FORMAT_OF = {fmt.dtype: fmt for fmt in (FORMATS["fp64"], FORMATS["fp32"])}
FINITE = (*KINDS, "far apart", "about midpoints", "cancelled")
EVERYTHING = (*FINITE, SPECIAL)


class Drawn(NamedTuple):
    """Arrays of a dtype, and of a kind of numbers: one of the fuzz's, or of the three here."""

    rng: np.random.Generator
    kind: str
    dtype: np.dtype

    def __call__(self, *shape: int) -> np.ndarray:
        if self.kind == "about midpoints":  # sums next to them, by what one number holds beside 1, or by less
            powers = 2.0 ** -np.array([0, 24, 24, 52, 53, 53, 70, 106])
            x = self.rng.choice([1, -1], shape) * self.rng.choice(powers, shape)
            x[..., :1] = 1
            return x.astype(self.dtype)
        if self.kind == "cancelled":  # a third, far below which the rest decides
            x, third = self.rng.standard_normal(shape), shape[-1] // 3
            x[..., :third] *= 2.0 ** int(self.rng.integers(30, 110))
            x[..., third : 2 * third] = -x[..., :third]
            return self.rng.permutation(x, axis=-1).astype(self.dtype)
        kind, octaves = ("wide", 500) if self.kind == "far apart" else (self.kind, 20)
        return Spec(shape, self.dtype, kind, "C", octaves).make(self.rng)

    def beside(self, *shape: int) -> np.ndarray:
        """Other factors of products, which leave alone what cancels."""
        return self._replace(kind="equal" if self.kind == "cancelled" else "normal")(*shape)

    @property
    def format(self):
        return FORMAT_OF[self.dtype]


def check(found, expected) -> None:
    """The bits of float64 numbers, all NaNs alike; of one number expected where there are many."""
    found = np.array([np.asarray(fetched(x), np.float64) for x in found]).ravel()
    expected = np.broadcast_to(np.array(expected, np.float64).ravel(), found.shape)
    alike = (found.view(np.int64) == expected.view(np.int64)) | (np.isnan(found) & np.isnan(expected))
    assert alike.all(), (found[~alike], expected[~alike])


def measured(draw, there):
    """Arrays anywhere in memory, the statistics of their rows, and each row as a list of floats."""
    long = [(2, 2041), (1, 9000)] if draw.kind == "wide" else []  # than a block, and than what is copied
    shapes = [(6, 1), (35, 3), (5, 16), (3, 300), *long]
    for shape, layout in zip(shapes, ("C", "F", "strided", "reversed", "C", "strided"), strict=False):
        x = draw(*shape)
        x[1:2] = 0
        parts = [there(part) for part in real_parts(place(x, layout))]
        rows = np.concatenate(real_parts(x), axis=1).astype(np.float64).tolist()
        yield parts, row_statistics(parts), rows


def compare_statistics(draw, there) -> None:
    for _, found, lists in measured(draw, there):
        exponent, *others = map(fetched, (found.exponent, found.total, found.square, found.counts))
        for i, row in enumerate(lists):
            if (expected := statistics.statistics_of(row)) is None:
                assert exponent[i] == (ZERO if all(map(np.isfinite, row)) else NONFINITE)
                continue
            total, square, counts = others
            assert (exponent[i], total[i], square[i], tuple(counts[:, i].tolist())) == expected


def compare_scales(draw, there) -> None:
    """Those of norms, by statistics, and those by which nothing is lost, by last places."""
    for parts, found, lists in measured(draw, there):
        limits = [norm_limit(FORMATS[target], found.length) for target in ("fp64", "fp32")]
        of_norms, exact = (
            [fetched(norm_scales(found, limit)) for limit in limits],
            fetched(exact_scales(parts)),
        )
        for i, row in enumerate(lists):
            if (expected := statistics.statistics_of(row)) is None:
                scale = 0 if all(map(np.isfinite, row)) else NONFINITE_ROW
                assert of_norms[0][i] == of_norms[1][i] == exact[i] == scale
                continue
            assert exact[i] == scales.exact_scale(row)
            assert [x[i] for x in of_norms] == [scales.norm_scale(expected, limit) for limit in limits]


def compare_counting(draw, there) -> None:
    spreads = np.arange(0, 10, 0.25) if draw.kind == "normal" else (0,)  # some ask for a few bits
    for k, spread in product((1, 16, 60), spreads):
        a, b = (draw(3, k) * np.exp2(np.rint(spread * draw.rng.standard_normal((3, k)))) for _ in range(2))
        found = row_statistics([np.concatenate([a, b])])
        limit = scales.limit_of("fp64", k)
        sides = tuple(decision.Side.of(x.tolist(), limit) for x in (a, b))
        of_rows = found.exponent, found.total, found.square, found.counts
        scale, bits = counted_scales(of_rows, k, 3, "fp64")
        tolerance = min(k / 2, 12 * k**0.5) * FORMATS["fp64"].unit_roundoff
        expected = decision.bits_for(decision.counting_error(sides, limit), tolerance, limit)
        assert bits == (expected if expected <= decision.WIDENED_BY_COUNTING else -1)
        assert (scale - max(bits, 0)).tolist() == sides[0].scales + sides[1].scales


def compare_pairwise(draw, there) -> None:
    """In words of each kind that magnitudes have, and in what their products are added up in."""
    for k, word, total in ((2, "int8", "int32"), (16, "float32", "float32"), (60, "float64", "float64")):
        limit, bounds, magnitudes = scales.limit_of("fp64", k), [], []
        sides = tuple(decision.Side.of(draw(3, k).tolist(), limit) for _ in range(2))
        for x, of_rows in ((np.array(side.rows), np.array(side.scales, np.int32)) for side in sides):
            *_, of_side = _operand_host(row_statistics([x]), of_rows, limit.bits // 2, 1)
            bounds.append(of_side)
            cut = np.zeros((3, k), word)
            _split_host([x], of_side.truncation_scale, cut, k)
            assert cut.max() <= LARGEST
            magnitudes.append(cut.astype(total))
        largest = np.zeros(2)
        _raise_host((magnitudes[0] @ magnitudes[1].T)[None, None], tuple(bounds), k, largest)
        assert largest[0] == decision.pairwise_error(sides, 1, limit)


def compare_rounding(draw, there) -> None:
    """Digits of any sign, up to 60 bits apart; and half-way cases with nothing, or a bit, below them."""
    for target in FORMAT_OF.values():
        for length, base in ((1, 30), (2, 30), (3, 60), (9, 32)):
            digits = draw.rng.integers(-(1 << base), 1 << base, (length, 20))
            digits[: length // 2, ::3] = 0
            digits[:, 0] = 0
            below = max(0, base * length - target.precision - 2)
            for j, more in enumerate((0, 1, -1, 2, 3)):
                middle = ((1 << target.precision) + 1 + (more & 2) << below) + more
                digits[:, j + 1] = [(middle >> base * i) & ((1 << base) - 1) for i in range(length)]
            for exponent in (0, -1074, -1120, 900, int(draw.rng.integers(-300, 300))):
                found = fetched(round_digits(there(digits), base, exponent, target)).astype(target.dtype)
                whole = (sum(x << (base * i) for i, x in enumerate(column)) for column in digits.T.tolist())
                check(found, [rounding.nearest(x * Fraction(2) ** exponent, target) for x in whole])


def compare_split(draw, there) -> None:
    system, x = residue_system("fp64", 100, 16), draw(4, 16)
    limit = [0 if not row.any() else 40 - int(np.frexp(np.abs(row).max())[1]) for row in x]
    scale = there(np.array(limit, np.int32))
    found = fetched(residues([there(x)], scale, system, 1, False, 40)[0])
    for t, p in enumerate(system.moduli):
        for i, row in enumerate(x.tolist()):
            for h, value in enumerate(row):
                integer = round(Fraction(value) * Fraction(2) ** limit[i])
                assert (int(found[t, i, h]) - remainders.symmetric_residue(integer, p)) % p == 0
                assert 2 * abs(found[t, i, h]) <= p


def compare_reconstruction(draw, there) -> None:
    system, signs, shifts = residue_system("fp64", 100, 16), *draw.rng.integers((-9, 0), (10, 95), (60, 2)).T
    values = [int(v) << int(s) for v, s in zip(signs, shifts, strict=True)]
    values += [(2**53 + 1 << 40) + d for d in (-1, 0, 1)]
    for target in FORMAT_OF.values():
        out = there(np.empty((1, len(values)), target.dtype))
        scale = there(np.zeros(1, np.int32)), there(np.zeros(len(values), np.int32))
        reconstruct(there(residues_of(values, system)), system, scale, target, out)
        whole = [remainders.reconstructed([v % p for p in system.moduli], system.moduli) for v in values]
        check([out], [rounding.nearest(Fraction(v), target) for v in whole])


LENGTHS = (3, 1 << 14), (40, 1 << 14), (40, 0), (2600, 0)
"""Numbers of a sum, and how many are copied: with none, the forms for many take few."""


def compare_sums(draw, there) -> None:
    for n, copied in LENGTHS:
        x, dtype = draw(n), draw.dtype
        pair = np.stack([x, x[::-1]])
        total, columns = ozaki.ExactSum(dtype), ozaki.ExactSum(dtype, shape=(2,))
        with patch.object(rows, "COPIED_TERMS", copied):
            found = [ozaki.sum(there(x)), *ozaki.sum(there(pair), axis=1)]
            found += [*ozaki.sum(there(pair.T.copy()), axis=0), total.add(there(x)).round(dtype)]
            found += [*columns.add(there(pair.T.copy())).round(dtype)]
            mean = ozaki.mean(there(x))
        check(found, sums.rounded_sum(x.tolist(), draw.format))
        check([mean], sums.rounded_sum(x.tolist(), draw.format, divisor=n))
    x = draw(60, 6)
    running = [sums.rounded_sum(row[: i + 1], draw.format) for row in x.tolist() for i in range(len(row))]
    check([ozaki.cumsum(there(x), axis=1)], running)
    compare_groups(x[:5].ravel(), draw, there)


def compare_groups(x, draw, there) -> None:
    labels, total = draw.rng.integers(0, 5, len(x)), ozaki.ExactSum(draw.dtype, shape=(5,))
    with patch.object(groups, "GROUP_TERMS", 1):  # words are carried before every addition
        for part in (slice(0, 17), slice(17, None)):
            total.add_groups(there(x[part]), there(labels[part]))
        found = [total.round(draw.dtype), ozaki.group_sum(there(x), there(labels), num_groups=5)]
        with patch.object(groups_enclosed, "ENCLOSED_GROUPS", 0):
            found.append(ozaki.group_sum(there(x), there(labels), num_groups=5))
        for sums_of_groups in found:
            check(
                fetched(sums_of_groups),
                [sums.rounded_sum(x[labels == g].tolist(), draw.format) for g in range(5)],
            )


def compare_dots(draw, there) -> None:
    for n, copied in LENGTHS:
        x, y = draw(n), draw.beside(n)
        with patch.object(rows, "COPIED_TERMS", copied):
            for other in (x, y):
                expected = sums.rounded_dot(x.tolist(), other.tolist(), draw.format)
                found = ozaki.dot(there(x), there(other)), *ozaki.correlate(there(x), there(other))
                of_rows = ozaki.dot(there(np.stack([x, x])), there(np.stack([other, other])), axis=1)
                check([*found, *of_rows], expected)


def compare_sparse_dots(draw, there) -> None:
    """Products of sparse matrices, whose sums begin with +0."""
    csr_array = pytest.importorskip("scipy.sparse").csr_array
    for n, index in ((3, np.int32), (40, np.int64)):
        lines, x = draw(3, n), draw.beside(n)
        places = np.tile(np.arange(n, dtype=index), 3), n * np.arange(4, dtype=index)
        matrix = csr_array((lines.ravel(), *places))  # with its zeros
        expected = [sums.rounded_dot(line.tolist(), x.tolist(), draw.format) + 0.0 for line in lines]
        turned = in_rows(Matrix.of(matrix.tocsc(), "a"))
        (by_rows,) = rounded_products([(turned, x[:, None])], [], lines.dtype).T
        for form in (matrix, matrix.tocsc(), matrix.tocoo(), matrix.tobsr((3, 1)), matrix.todia()):
            check(ozaki.matmul(form, x), expected)
            for column in ozaki.matmul(form, np.stack([x] * 6, axis=1)).T:  # side by side
                check(column, expected)
        of_complex = matrix.astype(np.result_type(draw.dtype, np.complex64))
        in_any_order = [
            ozaki.matmul(form, x).real for form in (of_complex, of_complex.tocsc(), of_complex.tocoo())
        ]
        for found in (ozaki.matmul(x, matrix.T.tocoo()), by_rows, *in_any_order):
            check(found, expected)
        for part in (
            (vectors.SPARSE_VECTORS, 7) if draw.format is FORMATS["fp64"] else ()
        ):  # of Krylov methods
            with patch.object(vectors, "SPARSE_VECTORS", part):
                check([vectors.dot(line, x) + 0.0 for line in lines], expected)


def compare_scaled_sums(draw, there) -> None:
    for n in (1, 3, 40):
        x, y, (a,) = draw(n), draw.beside(n), draw(1)
        expected = [sums.scaled_sum(u, a, v) for u, v in zip(x.tolist(), y.tolist(), strict=True)]
        check(vectors.added(there(x), a, there(y)), expected)


def compare_norms(draw, there) -> None:
    for n, copied in LENGTHS:
        x = draw(n)
        with patch.object(rows, "COPIED_TERMS", copied):
            found = ozaki.norm(there(x)), ozaki.norm(there(np.stack([x, x])), axis=1)[1]
        check(found, sums.rounded_norm(x.tolist(), draw.format))
        check([vectors.norm(x)], sums.rounded_norm(x.tolist(), draw.format))


def compare_variances(draw, there) -> None:
    for n in (1, 3, 40):
        x = draw(n)
        for ddof in (0, 1):
            found = ozaki.var(there(x), ddof=ddof), ozaki.var(there(np.stack([x, x])), axis=1, ddof=ddof)[1]
            if not np.isnan(x).any():  # windows leave them out
                found = *found, ozaki.rolling_var(there(x), n, ddof=ddof)[-1]
            found = *found, *ozaki.group_var(there(x), there(np.zeros(n, int)), 1, ddof=ddof)
            check(found, sums.rounded_variance(x.tolist(), Fraction(ddof), draw.format))


def compare_covariances(draw, there) -> None:
    for n in (1, 3, 40):
        x, y = draw(n), draw(n)
        for ddof in (0, 1):
            found = ozaki.group_cov(there(np.stack([x, y])), there(np.zeros(n, int)), 1, ddof=ddof)[0, 0, 1]
            check([found], sums.rounded_covariance(x.tolist(), y.tolist(), Fraction(ddof), draw.format))


def compare_weighted_means(draw, there) -> None:
    for n in (1, 3, 40):
        x, w = draw(n), abs(draw(n))
        if np.isfinite([x, w]).all() and w.any():
            found = [ozaki.average(there(y), axis=-1, weights=there(w)) for y in (x, np.stack([x, x]))]
            by_group = ozaki.group_average(there(x), there(np.zeros(n, int)), 1, there(w))
            check(
                [*found[:1], *found[1], *by_group],
                sums.rounded_weighted_mean(x.tolist(), w.tolist(), draw.format),
            )


def compare_weighted_variances(draw, there) -> None:
    for n in (1, 3, 40):
        x, w = draw(n), abs(draw(n))
        if not np.isfinite(w).all() or not w.any():
            w = abs(draw.beside(n))
        frequencies = np.minimum(w, 5).astype(int) + 1
        for ddof, (name, weights) in product((0, 1), (("aweights", w), ("fweights", frequencies))):
            given = {name: there(weights), "ddof": ddof}
            found = ozaki.var(there(x), **given), ozaki.var(there(np.stack([x, x])), axis=1, **given)[1]
            reliable = name == "aweights"
            expected = sums.rounded_weighted_variance(
                x.tolist(), weights.tolist(), reliable, Fraction(ddof), draw.format
            )
            check(found, expected)


def compare_products(draw, there) -> None:
    for m, k, n in ((1, 1, 3), (3, 5, 2), (2, 9, 4), (2, 40, 3)):
        a, b = draw(m, k), draw(k, n)
        for accuracy in ("fp64", "fp32", "normwise", "exact", 20, 60):
            found = fetched(ozaki.matmul(there(a), there(b), accuracy=accuracy))
            check(real_parts(found), real_parts(products.product(a, b, accuracy)))


class Comparison(NamedTuple):
    """What compares, of which dtypes and kinds of numbers; whether on a GPU, too."""

    compare: Callable
    dtypes: tuple[str, ...] = ("float64", "float32")
    kinds: tuple[str, ...] = EVERYTHING
    on_a_gpu: bool = True


PRODUCTS = "normal", "wide", "far apart", "sparse", "zeros", "full", "edge", SPECIAL
COMPARISONS = {
    "statistics.statistics_of": [Comparison(compare_statistics, ("float64", "float32", "complex128"))],
    "scales.norm_scale": [Comparison(compare_scales, ("float64", "float32", "complex128"))],
    "decision.counting_error": [Comparison(compare_counting, ("float64",), FINITE, on_a_gpu=False)],
    "decision.pairwise_error": [Comparison(compare_pairwise, ("float64",), FINITE, on_a_gpu=False)],
    "rounding.nearest": [Comparison(compare_rounding, ("float64",), ("integers",))],
    "remainders.symmetric_residue": [Comparison(compare_split, kinds=FINITE)],
    "remainders.reconstructed": [Comparison(compare_reconstruction, ("float64",), ("integers",))],
    "sums.rounded_sum": [Comparison(compare_sums)],
    "sums.rounded_dot": [Comparison(compare_dots), Comparison(compare_sparse_dots, on_a_gpu=False)],
    "sums.scaled_sum": [Comparison(compare_scaled_sums, ("float64",), on_a_gpu=False)],
    "sums.rounded_norm": [Comparison(compare_norms)],
    "sums.rounded_variance": [Comparison(compare_variances)],
    "sums.rounded_covariance": [Comparison(compare_covariances)],
    "sums.rounded_weighted_mean": [Comparison(compare_weighted_means)],
    "sums.rounded_weighted_variance": [Comparison(compare_weighted_variances)],
    "products.product": [
        Comparison(compare_products, ("float64", "float32", "complex128", "complex64"), PRODUCTS)
    ],
}
"""By the function of `ozaki.definition` that forms state."""


def compare(equal: str, there: Callable = lambda x: x, on_a_gpu: bool = False) -> None:
    """Compare what states this function of the definition with it, on arrays of all that it takes."""
    for comparison in COMPARISONS[equal]:
        for dtype in map(np.dtype, comparison.dtypes if comparison.on_a_gpu >= on_a_gpu else ()):
            for kind in comparison.kinds:
                with np.errstate(all="ignore"):
                    comparison.compare(Drawn(np.random.default_rng(len(kind)), kind, dtype), there)

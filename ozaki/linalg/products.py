"""The products that linear algebra takes: of sums of words, with sums of words as results, and with bounds.

A number of several words is their unevaluated sum, the first being the largest: a list of arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product, zip_longest
from typing import Any, cast

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, quietly, real_parts
from multiword.runtime.compiled import compiled
from multiword.runtime.memory import padded
from multiword.runtime.parallel import over_rows, thread_count
from multiword.runtime.readback import anywhere
from ozaki.api import accurate_dgemm, accurate_zgemm
from ozaki.arguments import factors_of, request_of
from ozaki.execution.two_words import WIDEST_ON_CPU, WIDEST_ON_GPU, summed_words
from ozaki.product.cost import without_cost_warnings
from ozaki.product.order import exclusive_use
from ozaki.product.pair import Pair
from ozaki.product.panels import in_panels
from ozaki.product.scale import scale
from ozaki.residues.scheme import Residues
from ozaki.tuning import LINALG_SUMMED_COLUMNS

Words = Sequence[Array]

SUMMED_PRODUCTS = {False: 1 << 20, True: 1 << 22}
"""Products of two numbers up to which sums in four words take less than a product of matrices on a CPU, of
one word and of several: at order 32 a tenth of the time, at 100 nine tenths of one word and a third of two,
at 160 half of two (AVX-512, one core)."""


SUMMED_SHARES, LEAST_SHARED = 4, 1 << 19
"""Blocks of rows of such sums that threads share, and products of two numbers from which they do: 1 ms."""

LANES = 8
"""Rows side by side of which compiled sums make a vector."""


def multiply(a: Array, b: Array, accuracy: str | int = "fp64") -> Array:
    """Return the product of two matrices, real or complex, to an accuracy of `accurate_dgemm`."""
    gemm = accurate_zgemm if "c" in (a.dtype.kind, b.dtype.kind) else accurate_dgemm
    with without_cost_warnings():
        return gemm(a, b, accuracy=accuracy)


def normwise(a: Array, b: Array) -> Array:
    """Return a product R with |R - AB|_ij <= √k·u·‖a_i‖‖b_j‖: what factorizations need to be backward stable.

    Its cost does not depend on the numbers, and a GPU is not waited for.
    """
    return multiply(a, b, "normwise")


def classical(a: Array, b: Array) -> Array:
    """Return a product R with |R - AB| <= γ_(k+2)·|A||B| + kη, three times as much if complex.

    That holds for sums in any order (Higham 2002, section 3.5; complex: lemma 3.5), which a CPU's BLAS
    computes. A GPU's may be of Strassen's kind, or emulated: there it is the certified product, whose
    error is at most (k/2 + 1)·u.
    """
    if not is_cupy(a):
        return a @ b
    return multiply(a, b) if b.ndim == 2 else multiply(a, b[:, None])[:, 0]


def words_of_product(left: Words, right: Words, addends: Words = (), words: int = 1) -> list[Array]:
    """Return up to so many words of (Σ left)·(Σ right) + Σ addends, as `words_of_products` does."""
    return words_of_products([(a, b) for a in left for b in right], addends, words)


def words_of_products(
    pairs: Sequence[tuple[Array, Array]], addends: Words = (), words: int = 1
) -> list[Array]:
    """Return up to so many words of the sum of A·B over pairs, and of the addends.

    Each word is what remains, rounded to nearest: the error is at most u times the last, or η/2. There are
    fewer where nothing remains that is not rounded to 0.
    """
    (left, right), *_ = pairs
    if right.shape[1] <= LINALG_SUMMED_COLUMNS:
        return _summed(pairs, addends, words)
    if left.size * right.shape[1] <= SUMMED_PRODUCTS[words > 1] and _four_words(left) is not None:
        return [word + 0.0 for word in _summed(pairs, addends, words)]  # +0, as a product of matrices has
    return _multiplied(pairs, addends, words)


def _summed(pairs: Sequence[tuple[Array, Array]], addends: Words, words: int) -> list[Array]:
    """The same by sums in four words, and column by column by exact sums where these do not decide."""
    (left, right), *_ = pairs
    result = namespace(left).zeros((words, len(left), right.shape[1]), np.result_type(left, right))
    for j in _in_four_words(pairs, addends, result):
        exact = summed_words([(a, b[:, j]) for a, b in pairs], [c[:, j] for c in addends], words)
        for i, word in enumerate(result):
            word[:, j] = exact[i] if i < len(exact) else 0
    return _without_zeros(list(result))


def _four_words(a: Array) -> Any:
    """The compiled sums in four words, if there are such for these arrays."""
    return None if is_cupy(a) else compiled("ozaki.linalg.residual_numba")


def _in_four_words(pairs: Sequence[tuple[Array, Array]], addends: Words, result: Array) -> Iterable[int]:
    """Write up to three words by compiled sums; return the columns where a rounding is undecided.

    A part of a complex sum is that of one product, of parts side by side.
    """
    words, m, n = result.shape
    form = _four_words(result)
    if form is None or words > 3:
        return range(n)
    undecided = list[int]()
    for imaginary, out in enumerate(real_parts(result)):
        factors, numbers = pairs, addends
        if result.dtype.kind == "c":
            factors = [
                (p, -q if i and j else q)
                for a, x in pairs
                for (i, p), (j, q) in product(enumerate(real_parts(a)), enumerate(real_parts(x)))
                if (i + j) % 2 == imaginary
            ]
            numbers = [c.imag if imaginary else c.real for c in addends]
        (left, right), *others = factors
        if others:
            of_a, of_x = zip(*factors, strict=True)
            left, right = np.concatenate(of_a, axis=1), np.concatenate(of_x)
        terms = np.array(numbers, np.float64).reshape(len(numbers), m, n)
        if m < n:  # sums side by side are of rows, of which there are to be many
            left, right, terms, out = right.T, left.T, terms.swapaxes(1, 2), out.swapaxes(1, 2)
        undecided.append(_words_of_sums(form, left, right, terms, out))
    return np.flatnonzero(np.isnan(result).any(axis=(0, 1))).tolist() if any(undecided) else ()


def _words_of_sums(form: Any, left: Array, right: Array, terms: Array, out: Array) -> int:
    """Write words of sums, some rows at a time; return how many are undecided."""
    (m, k), n, undecided = left.shape, right.shape[1], list[int]()
    shares = SUMMED_SHARES if m * k * n >= LEAST_SHARED and thread_count() > 1 else 1
    rows = padded(-(-m // max(shares, -(-m // form.ROWS), 1)), LANES)  # others would not be added in vectors

    def work(block: slice) -> None:
        scratch = np.zeros((form.TERMS, rows)), np.empty((n, form.STATE, rows))
        undecided.append(form.words_of_sums(left[block], right, terms[:, block], out[:, block], *scratch))

    over_rows(work, m, 1, rows)
    return sum(undecided)


def _multiplied(pairs: Sequence[tuple[Array, Array]], addends: Words, words: int) -> list[Array]:
    """The same by one exact product: [A₁ A₂ … I]·[B₁; B₂; …; C]."""
    left, right = zip(*pairs, strict=True)
    xp = namespace(left[0])
    identity = [xp.eye(len(left[0]), dtype=left[0].dtype)] * len(addends)
    a, b = xp.hstack([*left, *identity]), xp.vstack([*right, *addends])
    if words == 1:
        return [multiply(a, b, "exact")]
    result = _rounded_words(a, b, words)
    if result is None:
        return _summed(pairs, addends, words)
    if (beyond := np.flatnonzero(~xp.isfinite(result[0]).all(axis=0))).size:  # nothing multiplies an Inf
        chosen = [(a, b[:, beyond]) for a, b in pairs]
        some = _summed(chosen, [c[:, beyond] for c in addends], words)
        for word, part in zip_longest(result, some, fillvalue=xp.zeros_like(some[0])):
            word[:, beyond] = part
    return _without_zeros(result)


def _without_zeros(words: list[Array]) -> list[Array]:
    """The same, but for words after one of zeros, which says that nothing is left."""
    while len(words) > 1 and not anywhere(words[-2]):
        words.pop()
    return words


def _rounded_words(a: Array, b: Array, words: int) -> list[Array] | None:
    """Words of AB, all rounded from one product of integers C': each word is subtracted from its residues.

    None where these integers are too wide.
    """
    x, y = factors_of(a, b, np.result_type(a, b))
    request = request_of(a, "exact", "auto", None, "auto", None)
    with quietly(a), exclusive_use(x.order, y.order):
        pair, scaled, _ = scale(Pair(x, y, request))
        scheme, scales = cast(Residues, scaled.scheme), scaled.scales
        if scheme.specification.bits >= (WIDEST_ON_GPU if is_cupy(a) else WIDEST_ON_CPU):
            return None
        outs = [namespace(a).empty(pair.result_shape, x.matrix.dtype) for _ in range(words)]

        def reconstruct(products: Array, rows: slice, columns: slice) -> None:
            of_panel = scales[0][rows], scales[1][columns]
            scheme.round_words(products, of_panel, [out[rows, columns] for out in outs])

        in_panels(scheme, pair, scales, reconstruct)
    return outs

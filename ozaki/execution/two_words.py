"""Products in two words of matrices that are sums of two words.

    h + l = a₀ + a₁,  h = RN(a₀ + a₁)                          TwoSum
    A' = RN(h·2**s) + RN(l·2**s)                               one integer: residues of words add up
    c₀ = RN(C),  c₁ = RN(C − c₀),  C = A'B'·2**(−s − t)        both words from one product of integers

For accuracy "fp64" the scales are those that prove "fp64" of the first words h, widened by `WIDENED`; where
that takes integers too wide to be proved, and for "exact", they lose nothing, and C = AB.

Proof. Where h·2**s is no integer its last place is at most 1/2, so |l|·2**s <= 1/4 is rounded to 0, and where
it is one only l is rounded: |A' − a·2**s| <= 3/4. With T = (Σ|a'| + Σ|b'|)/2 + k/4 of the scales before they
are widened, which the certificate proves to be at most τ·|A'||B'|,

    |A'B' − a·b·2**(s + t)| <= 3/4·(Σ|a'| + Σ|b'|)·2**e + 9k/16 <= 3/2·2**e·T,    e = WIDENED,

relative to |A'||B'|·4**e that is 3/2·2**(−54)·τ, and |h| and |a| differ by 2**(−53) of them: C is off by less
than 2**(−53)·τ, where "fp64" is off by τ. The norms of A' exceed those of h·2**s by less than what the choice
of moduli leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, zip_longest
from typing import Any, cast

import numpy as np

from multiword.engines import Engine
from multiword.rounding import two_sum
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    import_cupy,
    is_cupy,
    namespace,
    quietly,
    real_parts,
)
from multiword.runtime.cached import cached_property
from multiword.runtime.memory import in_less_memory
from multiword.runtime.options import exactly, integer
from ozaki.arguments import in_numpy_shape, request_of, result_dtype, stacks_of
from ozaki.certificate.decision import answered, decide
from ozaki.definition.decision import WIDENED_IN_ALL
from ozaki.execution.cache import forget
from ozaki.execution.step_by_step import new_result
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.product import steps
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.panels import in_panels
from ozaki.product.request import Request
from ozaki.product.scale import Data
from ozaki.product.steps import ScaledProduct
from ozaki.residues.scheme import Residues
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.statistics import NONFINITE_ROW
from ozaki.sums.exactsum import ExactSum, taken_words

WIDENED = 54
"""Bits by which integers of two words are wider than those of one."""

WIDEST_ON_CPU, WIDEST_ON_GPU = 330, 1000
"""Bits of integers C' below which exact words are rounded from their residues. Beyond 330, which moduli of
bytes make, sums column by column take a third to an eightieth of the time on a CPU (n = 100 to 600, Zen 5).
Numbers of 1000 are nearly the largest of float64."""

ARRAYS = 4
"""Copies at a time of what a product of one word has once: residues of h, of l and of their sum; products
before and after a word is taken away, and that word's residues. Kernels of int8 words on a GPU need none."""

Words = Sequence[Array]


class SummedFactor(Factor):
    """A factor that is the sum of two words. What is measured of it is measured of the first."""

    def __init__(self, words: Words, side: int, *, equilibrated: bool = False) -> None:
        high, *low = words
        super().__init__(high, side, equilibrated=equilibrated)
        self.low = Factor(low[0], side) if low else None

    def split(self, scheme: Any, scale: Array, rows: slice, inner: slice, padding: int) -> Array:
        if self.low is None or not isinstance(scheme, Residues):  # magnitudes, of a bound
            return super().split(scheme, scale, rows, inner, padding)
        high, low = ([x[rows, inner] for x in word.parts] for word in (self, self.low))
        return scheme.split_sum(high, low, scale[rows], self.side, padding)

    def shifted(self, scale: Array, shifts: Array) -> tuple[Factor, Callable[[], np.ndarray]]:
        factors = [self.copy(), *([] if self.low is None else [self.low])]
        shifted, exact = zip(*(x.shifted(scale, shifts) for x in factors), strict=True)
        other = SummedFactor([x.matrix for x in shifted], self.side, equilibrated=True)
        return other, lambda: np.logical_and.reduce([of_word() for of_word in exact])

    @cached_property
    def exact_scales(self) -> Array:
        parts = self.parts if self.low is None else [*self.parts, *self.low.parts]
        return exact_scales([parts[0] if len(parts) == 1 else namespace(parts[0]).concatenate(parts, axis=1)])


def matmul_in_two_words(
    a: Any,
    b: Any,
    words: Any,
    accuracy: str | int | None,
    options: tuple[str, str | None, str | Engine, int | None],
    others: dict[str, Any],
) -> tuple[Array, Array]:
    """Return the two words of `ozaki.matmul`, of arguments that are not checked yet.

    options : scheme, word, engine and workspace. others : what such a product does not take, by name.
    """
    _check(words, accuracy, options[0], others)
    given = _words(a, "a"), _words(b, "b")
    check_same_device(a=given[0][0], b=given[1][0])
    dtype = np.result_type(np.float64, *(result_dtype(x, x) for side in given for x in side))
    with quietly(given[0][0]):
        left, right = (
            _renormalized([exactly(name, x, dtype) for x in side])
            for name, side in zip("ab", given, strict=True)
        )
        request = request_of(left[0], accuracy or "fp64", *options)
        if dtype.kind == "c" and hasattr(request.engine, "split_residues"):  # which takes two parts at most
            request = request._replace(word="fp64")
        of_a, of_b = [stacks_of(x, right[0])[0] for x in left], [stacks_of(left[0], y)[1] for y in right]
        batch = of_a[0].shape[:-2]
        products = [_product([x[i] for x in of_a], [y[i] for y in of_b], request) for i in np.ndindex(batch)]
        shape = *of_a[0].shape[:-1], of_b[0].shape[-1]
        results = _stacked(products, shape, left[0])
        high, low = (in_numpy_shape(x, left[0], right[0], None) for x in results)
    return high, low


def _check(words: Any, accuracy: str | int | None, scheme: str, others: dict[str, Any]) -> None:
    if integer("words", words) != 2:
        raise ValueError(f"words must be 1 or 2, got {words}")
    if accuracy not in (None, "fp64", "exact"):
        raise ValueError(f"accuracy of two words must be 'fp64' or 'exact', got {accuracy!r}")
    if scheme == "slices":
        raise ValueError("scheme of two words must be 'auto' or 'residues', got 'slices'")
    if refused := [name for name, x in others.items() if x is not None]:
        raise ValueError(f"{refused[0]} is not taken together with words=2")


def _words(x: Any, name: str) -> list[Array]:
    """Return the words of an argument: an array, or a tuple of two."""
    words = [as_array(word, name) for word in (x if isinstance(x, tuple) else (x,))]
    if len(words) not in (1, 2) or words[0].shape != words[-1].shape:
        shapes = ", ".join(str(word.shape) for word in words)
        raise ValueError(f"{name} must be an array, or a tuple of two of one shape, got {shapes or 'none'}")
    check_same_device(**{f"{name}[{i}]": word for i, word in enumerate(words)})
    return words


def _renormalized(words: Words) -> Words:
    """Return h and l of words, l being 0 where h is not finite; both lie alike."""
    if len(words) == 1:
        return words
    if is_cupy(words[0]):
        return _renormalized_on_device(*words)
    high, rest = two_sum(*words)
    low = namespace(high).empty_like(high)
    low[...] = namespace(high).where(namespace(high).isfinite(high), rest, 0)
    return high, low


def _renormalized_on_device(x: Array, y: Array) -> Words:
    """Return the same by one launch, which reads and writes every number once, in the order of memory."""
    words = [x, y, *(namespace(x).empty_like(x) for _ in range(2))]
    axes = sorted(range(x.ndim), key=lambda axis: words[2].strides[axis], reverse=True)
    _renormalize()(*(word.transpose(axes) for word in words))
    return words[2:]


@cache
def _renormalize() -> Any:
    """`two_sum` on a GPU, without the error of what is not finite."""
    return import_cupy().ElementwiseKernel(
        "T x, T y",
        "T high, T low",
        "high = x + y; const T t = high - x; low = isfinite(high) ? (x - (high - t)) + (y - t) : T(0);",
        "renormalize",
    )


def _stacked(products: Sequence[Words], shape: tuple[int, ...], like: Array) -> Words:
    """Return the words of a stack of products."""
    if len(shape) == 2:
        return products[0]
    xp = namespace(like)
    if not products:
        return [xp.zeros(shape, like.dtype) for _ in range(2)]
    return [xp.stack(word).reshape(shape) for word in zip(*products, strict=True)]


def _product(left: Words, right: Words, request: Request) -> Words:
    """Return the words of one product of matrices."""
    pair = Pair(SummedFactor(left, 0), SummedFactor(right, 1), request)
    outs = new_result(pair), new_result(pair)
    if pair.empty:
        for out in outs:
            out[...] = 0
        return outs
    pair, scaled = _proved(pair) or _exact(pair)
    widest = WIDEST_ON_GPU if pair.a.on_gpu else WIDEST_ON_CPU
    if pair.request.accuracy == "exact" and scaled.scheme.specification.bits >= widest:
        _sum(left, right, scaled.scales, outs)
    else:
        _multiply(pair, scaled, outs)
    if scaled.nonfinite:
        overwrite_nonfinite(pair.a.parts, pair.b.parts, scaled.scales, outs[0])
    return outs


def _proved(pair: Pair) -> tuple[Pair, ScaledProduct] | None:
    """Return the pair, equilibrated or as it came, and the integers that prove its accuracy.

    None for "exact", and where integers would be widened so far that they may as well lose nothing.
    """
    if pair.request.accuracy == "exact":
        return None
    data = Data(pair)
    certificate = answered(decide(pair.request.limits), data.answer)
    assert certificate is not None  # all questions are answered
    if certificate.bits > WIDENED_IN_ALL:
        return None
    scaled = steps.norm_scaled(data.pair, certificate.bits + WIDENED)
    return data.pair, replace(scaled, nonfinite=data.bounds.nonfinite)


def _exact(pair: Pair) -> tuple[Pair, ScaledProduct]:
    """Return the pair, its accuracy now "exact", and integers that lose nothing."""
    pair = pair._replace(request=pair.request._replace(accuracy="exact"))
    scales = steps.given_scales(pair)
    return pair, steps.bounded(pair, scales, steps.bounds(pair, scales).wait())


def _multiply(pair: Pair, scaled: ScaledProduct, outs: Words) -> None:
    """Write both words of a product of integers."""
    scheme, scales = cast(Residues, scaled.scheme), scaled.scales
    arrays = 1 if pair.a.on_gpu and not scheme.word.floating else ARRAYS

    def reconstruct(products: Array, rows: slice, columns: slice) -> None:
        of_panel = scales[0][rows], scales[1][columns]
        scheme.round_words(products, of_panel, [out[rows, columns] for out in outs])

    def work(workspace: int) -> None:
        request = pair.request._replace(workspace=workspace // arrays)
        in_panels(scheme, pair._replace(request=request), scales, reconstruct)

    in_less_memory(work, pair.request.workspace, forget)


def _sum(left: Words, right: Words, scales: tuple[Array, Array], outs: Words) -> None:
    """Write both words of exact sums, column by column; rows and columns with an Inf or NaN are zeros."""
    xp, finite = namespace(outs[0]), [scale != NONFINITE_ROW for scale in scales]
    left = [xp.where(finite[0][:, None], x, 0) for x in left]
    right = [xp.where(finite[1], x, 0) for x in right]
    for j in range(outs[0].shape[1]):
        column = [(a, b[:, j]) for a in left for b in right]
        for out, word in zip_longest(outs, summed_words(column, (), 2)):
            out[:, j] = 0 if word is None else word
    for high, low in zip(*map(real_parts, outs), strict=True):
        low[~xp.isfinite(high)] = 0


def summed_words(pairs: Sequence[tuple[Array, Array]], addends: Words, words: int) -> list[Array]:
    """Return up to so many words of Σ A·x + Σ c, each rounded from what the ones before it leave."""
    (left, right), *_ = pairs
    total = ExactSum(np.result_type(left, right), (len(left),))
    for c in addends:
        total.add(c)
    for a, x in pairs:
        total.add_products(a.T, namespace(a).broadcast_to(x[:, None], a.T.shape))
    return list(islice(taken_words(total), words))

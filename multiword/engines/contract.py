"""The contract that every engine fulfils, and the checks of a call that they all make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from multiword.engines.words import WORDS, Word, get_word
from multiword.public import public_in
from multiword.runtime.arrays import Array, is_cupy, namespace


@public_in("multiword", "Engines")
class Engine(Protocol):
    """Where one low-precision product is computed.

    The inner dimension of both operands is contiguous: int8 tensor cores then run at full rate.

    Attributes
    ----------
    name : as in `multiword.engines.select.ENGINES`, or any other.
    padding : operands whose row counts and row lengths are multiples of this run at full speed.
    products : the names of the words that this engine multiplies.

    What `CheckedEngine` declares besides, an engine may declare, too.

    >>> from multiword import get_engine
    >>> a, bt = np.float16([[1, 2]]), np.float16([[3, 4], [5, 6]])
    >>> get_engine("host").multiply("fp16", a, bt)
    array([[11., 17.]], dtype=float32)
    """

    name: str
    padding: int
    products: frozenset[str]

    def multiply(
        self,
        product: str,
        a: Array,
        bt: Array,
        *,
        out: Array | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> Array:
        """Compute alpha·A·Bᵀ + beta·out, for one pair of matrices or a batch of pairs.

        Parameters
        ----------
        product : the name of a word that this engine has.
        a, bt : (..., m, k) and (..., n, k) arrays of the word's dtype, with at most one leading axis and
            the last one contiguous.
        out : (..., m, n) array of the word's result dtype to write to, last axis contiguous, apart from the
            operands; a new one if None.
        alpha, beta : scalars of the result dtype. With beta ≠ 0, `out` is added in that dtype's own
            arithmetic, after the inner product.

        Returns
        -------
        `out`.

        Raises
        ------
        ValueError : a product that this engine lacks, shapes that do not fit, a last axis that is not
            contiguous, beta ≠ 0 without `out`. TypeError : arrays of another kind or dtype.
        """
        ...


class ResidueEngine(Engine, Protocol):
    """An engine that reduces products of residues before it writes them: "residues of products".

    It may have steps of its own for them, `split_residues` and `reconstruct_residues`, with the arguments of
    `ozaki.residues.split.residues` and `ozaki.residues.reconstruct.reconstruct`. Words that it splits itself
    may lie in memory as it likes, in an object with their `shape`, `nbytes`, `reshape` and slices. Where it
    lacks a step, the general one is taken. With an attribute `mirrors` that is true, `multiply_residues` or
    the steps take symmetric=True, for a square product of which nothing above the diagonal is needed.
    """

    def reduces(self, word: str, shape: tuple[int, int, int]) -> bool:
        """Return whether that is faster than `multiply`, and reducing afterwards, for products (m, k, n)."""
        ...

    def multiply_residues(
        self,
        a: Array,
        bt: Array,
        moduli: tuple[int, ...],
        *,
        out: Array | None = None,
        add: bool = False,
        symmetric: bool = False,
        weights: tuple[int, ...] | None = None,
    ) -> Array:
        """Compute A·Bᵀ modulo the moduli, exactly, of each matrix of several stacks.

        Parameters
        ----------
        a : (images, stack, m, k) int8 array, rows aligned to 16 bytes, k a multiple of 16.
        bt : (images, stack, n, k) likewise.
        moduli : image i is modulo moduli[i % len(moduli)]: odd numbers from 3 to 255, or 256.
        out : (images, stack, m, n) int8 array, last axis contiguous, to write to; a new one if None.
        add : whether the product is added to the residues in `out`, modulo the moduli.
        symmetric : whether what is above the diagonal may be left out; engines with `mirrors` have it.
        weights : image i of the product is multiplied by weights[i % len(moduli)]; they have that, too.

        Returns
        -------
        `out`: residues of least magnitude; of 128 and -128, which are one modulo 256, the latter.

        Raises
        ------
        ValueError : shapes, strides or moduli that do not fit, `add` without `out`. TypeError : arrays of
            another kind or dtype.
        """
        ...


class CheckedEngine:
    """An `Engine` but for what computes: its `multiply`, which checks a call and has it computed.

    Attributes
    ----------
    words : the records of its words, by name: `WORDS` and what it has of its own.
    on_gpu : whether it takes CuPy arrays.
    default_words : the word that each scheme of `ozaki` takes by default, if not fp64.
    longest_at_once : numbers of the inner dimension up to which it has `compiled_steps`, for products by one
        compiled call, and `seconds_at_once`, which these take.
    tile : multiples of m, k and n to which its own steps fill the operands up, where they lie as it likes.
    residue_block : real numbers of the inner dimension that products of residues take at a time, if not as
        many as are exact: fewer have larger moduli.
    """

    name: str
    products: frozenset[str]
    words: ClassVar[Mapping[str, Word]] = WORDS
    on_gpu = False
    default_words: ClassVar[Mapping[str, str]] = {}
    residue_block: int | None = None
    longest_at_once: int = 0
    tile: tuple[int, int, int] = (1, 1, 1)

    @staticmethod
    def carrier(word: Word) -> np.dtype | None:
        """Return the dtype that words are converted to before they are multiplied, if they are."""
        return None

    def multiply(
        self,
        product: str,
        a: Array,
        bt: Array,
        *,
        out: Array | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> Array:
        """Return A·Bᵀ, as `Engine.multiply`."""
        kind = get_word(product, self.words)
        if product not in self.products:
            names = ", ".join(sorted(self.products))
            raise ValueError(f"engine {self.name!r} has no {product!r} product; it has {names}")
        _check_operands(kind, a, bt, out, self.on_gpu)
        out = _checked_out(kind, (*a.shape[:-1], bt.shape[-2]), a, out, beta)
        if kind.result.kind == "i" and (alpha % 1 or beta % 1):
            raise ValueError(f"alpha and beta of {product!r} products must be integers: {alpha}, {beta}")
        if out.size:
            self._compute(kind, a, bt, out, alpha, beta)
        return out

    def _compute(self, kind: Word, a: Array, bt: Array, out: Array, alpha: float, beta: float) -> None:
        """Write alpha·A·Bᵀ + beta·out to `out`, which is not empty."""
        raise NotImplementedError


def _check_operands(kind: Word, a: Array, bt: Array, out: Array | None, on_gpu: bool) -> None:
    for label, x in (("a", a), ("bt", bt), ("out", out)):
        if x is not None and not (is_cupy(x) if on_gpu else isinstance(x, np.ndarray)):
            raise TypeError(
                f"{label} must be a {'CuPy' if on_gpu else 'NumPy'} array, got {type(x).__name__}"
            )
    for label, x in (("a", a), ("bt", bt)):
        if x.dtype != kind.dtype:
            raise TypeError(f"{label} must be {kind.dtype} for a {kind.name!r} product, got {x.dtype}")
        _check_rows_contiguous(x, label)
    if a.ndim != bt.ndim or a.ndim not in (2, 3) or a.shape[:-2] != bt.shape[:-2]:
        raise ValueError(f"a and bt must be two matrices or two equal batches, got {a.shape} and {bt.shape}")
    if a.shape[-1] != bt.shape[-1]:
        raise ValueError(f"a and bt must agree in their last axis, got {a.shape} and {bt.shape}")


def _checked_out(kind: Word, shape: tuple[int, ...], a: Array, out: Array | None, beta: float) -> Array:
    """Return the array to write to."""
    if out is None:
        if beta != 0:
            raise ValueError("out must be given when beta is not 0")
        return namespace(a).empty(shape, kind.result)
    if out.shape != shape or out.dtype != kind.result:
        raise ValueError(f"out must be {kind.result} of shape {shape}, got {out.dtype} of {out.shape}")
    _check_rows_contiguous(out, "out")
    return out


def _check_rows_contiguous(x: Array, label: str) -> None:
    if x.size and x.shape[-1] > 1 and x.strides[-1] != x.itemsize:  # strides of nothing are 0
        raise ValueError(f"{label} must have a contiguous last axis, got strides {x.strides}")


def declared(engine: Engine, name: str) -> Any:
    """Return what an engine declares beside its products, or else what `CheckedEngine` does."""
    return getattr(engine, name, getattr(CheckedEngine, name))


def multiplies_int8(engine: Engine, shape: tuple[int, int, int]) -> bool:
    """Return whether int8 products are computed at full speed, not converted for a BLAS."""
    by_kernel = getattr(engine, "multiplies_int8", None)
    if by_kernel is not None:
        return bool(by_kernel(shape))
    return "int8" in engine.products and declared(engine, "carrier")(get_word("int8")) is None


def prefers_residues(engine: Engine, word: str, shape: tuple[int, int, int], parts: int, bits: int) -> bool:
    """Return whether an engine reduces products of residues, and is faster so than on fp64 words.

    parts : 2 for complex products. bits : of the significands of results.
    """
    prefers = getattr(engine, "prefers", None)
    return reduces_residues(engine, word, shape) and (prefers is None or prefers(shape, parts, bits))


def reduces_residues(engine: Engine, word: str, shape: tuple[int, int, int]) -> bool:
    """Return whether an engine can reduce products of residues of this shape, (m, k, n), and is faster so."""
    reduces = getattr(engine, "reduces", None)
    return reduces is not None and reduces(word, shape)

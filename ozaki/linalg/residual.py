"""Exact residuals of systems, and products, as unevaluated sums of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, as_array, check_same_device, namespace, on_device_of_arrays
from multiword.runtime.options import integer
from ozaki.linalg.arguments import numbers
from ozaki.linalg.products import words_of_product
from ozaki.public import public


@public("Matrix products", sparse=True)
@on_device_of_arrays
def residual(a: Any, x: Any, b: Any, *, words: int = 1) -> Any:
    """Return B - AX, computed exactly and rounded once; or the first words of it.

    Parameters
    ----------
    a : (m, k) array of real or complex numbers, NumPy or CuPy; or a tuple of such, whose sum is A.
    x : (k,) or (k, n) array, or a tuple of such, whose sum is X.
    b : (m,) or (m, n) array, or a tuple of such.
    words : how many words to return: what is left of the residual after each is rounded to the next.

    Returns
    -------
    Array of the shape of b, of float64 or complex128, correctly rounded; a tuple of them for more words.

    Raises
    ------
    TypeError : arrays that are not numbers, or of two kinds.
    ValueError : shapes that do not fit; Inf or NaN; fewer words than 1.

    References
    ----------
    Oishi, Ogita and Rump, Iterative refinement for ill-conditioned linear systems.

    >>> import numpy as np, ozaki
    >>> a, x, b = np.array([[0.1, 0.2]]), np.array([3.0, 1.0]), np.array([0.5])
    >>> ozaki.residual(a, x, b)
    array([-2.77555756e-17])
    """
    words = integer("words", words)
    if words < 1:
        raise ValueError(f"words must be at least 1, got {words}")
    left, middle, right = (_words(value, name) for value, name in ((a, "a"), (x, "x"), (b, "b")))
    check_same_device(a=left[0], x=middle[0], b=right[0])
    shapes = f"a {left[0].shape}, x {middle[0].shape}, b {right[0].shape}"
    one = right[0].ndim == 1
    if one and middle[0].ndim == 1:
        middle, right = ([word[:, None] for word in value] for value in (middle, right))
    shape = (left[0].shape[0], middle[0].shape[-1])
    if left[0].ndim != 2 or middle[0].shape[:-1] != left[0].shape[1:] or right[0].shape != shape:
        raise ValueError(f"shapes do not fit: {shapes}")
    dtype = np.result_type(left[0], middle[0], right[0])
    left, middle, right = ([word.astype(dtype) for word in value] for value in (left, middle, right))
    result = words_of_product(left, [-word for word in middle], right, words) if 0 not in shape else []
    zeros = [namespace(right[0]).zeros(shape, dtype) for _ in range(words - len(result))]
    result = [word[:, 0] if one else word for word in (*result, *zeros)]
    return result[0] if words == 1 else tuple(result)


@public("Matrix products")
@on_device_of_arrays
def two_word_product(a: Any, b: Any) -> tuple[Array, Array]:
    """Return the product of two matrices in two words, high + low: of the exact one, all but about 2**-107.

    Parameters
    ----------
    a, b : (m, k) and (k, n) matrices of real or complex numbers, NumPy or CuPy.

    Returns
    -------
    Two (m, n) arrays of float64 or complex128: high is AB, and low is AB - high, both correctly rounded.

    Raises
    ------
    TypeError : arrays that are not numbers, or of two kinds.
    ValueError : shapes that do not fit; Inf or NaN.

    References
    ----------
    Ozaki, Uchino and Imamura, Ozaki scheme II (the exact product that both words are rounded from).

    >>> import numpy as np, ozaki
    >>> x = np.array([[0.1]])
    >>> [float(word[0, 0]).hex() for word in ozaki.two_word_product(x, x)]
    ['0x1.47ae147ae147cp-7', '-0x1.eb851eb851eb8p-61']
    """
    left, right = numbers(as_array(a, "a"), "a"), numbers(as_array(b, "b"), "b")
    xp = check_same_device(a=left, b=right)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise ValueError(f"shapes do not fit: a and b must be matrices, got a {left.shape}, b {right.shape}")
    dtype, shape = np.result_type(left, right), (left.shape[0], right.shape[1])
    zeros = xp.zeros(shape, dtype)
    if not (left.size and right.size):
        return zeros, zeros.copy()
    words = words_of_product([left.astype(dtype)], [right.astype(dtype)], (), 2)
    return words[0], words[1] if len(words) > 1 else zeros


def _words(value: Any, name: str) -> list[Array]:
    """The words of an argument."""
    arrays = [numbers(as_array(x, name), name) for x in (value if isinstance(value, tuple) else (value,))]
    if not arrays or any(x.shape != arrays[0].shape or x.ndim not in (1, 2) for x in arrays):
        shapes = ", ".join(str(x.shape) for x in arrays)
        raise ValueError(
            f"the words of {name} must be vectors or matrices of one shape, got {shapes or 'none'}"
        )
    return arrays

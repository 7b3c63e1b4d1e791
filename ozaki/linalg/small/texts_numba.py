"""Texts as compiled functions call them: each as it stands, for the types of the call."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

import ozaki.linalg.small.factorizations
import ozaki.linalg.small.spectra  # noqa: F401  all texts
from multiword.runtime.jit import PARTS, inlined
from ozaki.linalg import arithmetic
from ozaki.linalg.small import language, leaves, products, products_numba, reflections_numba
from ozaki.linalg.small.language import TEXTS
from ozaki.linalg.small.leaves import complex_quotient

IN_ANY_ORDER = (products.dot,)
"""Texts whose products and sums are exact, and so may be contracted, and added up in vectors."""


def _called_as_it_stands(function: Callable[..., Any]) -> None:
    options = PARTS | ({"fastmath": {"reassoc", "contract"}} if function in IN_ANY_ORDER else {})

    @overload(function, jit_options=options)
    @wraps(function)
    def implementation(*_: Any) -> Any:
        return function


for _text in TEXTS:
    if _text not in (leaves.qr_panel, products.multiply):
        _called_as_it_stands(_text)


def is_complex(x: Any) -> bool:
    """Return whether a number's type, or an array's, is complex."""
    return isinstance(getattr(x, "dtype", x), types.Complex)


@overload(leaves.qr_panel, jit_options=PARTS)
def _qr_panel(columns, y, t, terms, squares):
    return reflections_numba.narrow.py_func if is_complex(columns) else reflections_numba.qr_panel


@overload(products.multiply, jit_options=PARTS)
def _multiply(x, transposed, conjugate, y, turned, out, floats, integers):
    return products_numba.narrow.py_func if is_complex(out) else products_numba.multiply


@overload(arithmetic.quotient, jit_options=PARTS)
def _quotient(x, divisor):
    if is_complex(x):
        return lambda x, divisor: complex_quotient(x, divisor)
    return lambda x, divisor: x / divisor


@overload(arithmetic.real_quotient, jit_options=PARTS)
def _real_quotient(x, divisor):
    if is_complex(x):
        return lambda x, divisor: complex(x.real / divisor, x.imag / divisor)
    return lambda x, divisor: x / divisor


@overload(arithmetic.times_powers, jit_options=PARTS)
def _times_powers(x, exponents):
    if is_complex(x):
        return lambda x, exponents: complex(_scaled(x.real, exponents), _scaled(x.imag, exponents))
    return lambda x, exponents: _scaled(x, exponents)


@inlined
def _scaled(x, e):
    """Return x·2**e, rounded once, as the C library's `ldexp` does, which need not be called for most."""
    return x * np.int64((e + 1023) << 52).view(np.float64) if abs(e) < 1023 else math.ldexp(x, e)


@overload(language.place, jit_options=PARTS)
def _place(i):
    return lambda i: 0


@overload(language.exponent, jit_options=PARTS)
def _exponent(x):
    return lambda x: math.frexp(x)[1]


@overload(language.parts_of, jit_options=PARTS)
def _parts_of(x):
    return (lambda x: 2) if is_complex(x) else (lambda x: 1)


@overload(language.number, jit_options=PARTS)
def _number(like, real, imaginary):
    if is_complex(like):
        return lambda like, real, imaginary: complex(real, imaginary)
    return lambda like, real, imaginary: real


@overload(language.bits, jit_options=PARTS)
def _bits(x):
    return lambda x: np.float64(x).view(np.int64)


@overload(language.from_bits, jit_options=PARTS)
def _from_bits(x):
    return lambda x: np.int64(x).view(np.float64)

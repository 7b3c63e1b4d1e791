"""The texts of `small` as CUDA, for which `multiword/runtime/language.cuh` has what they call."""

from __future__ import annotations

from multiword.runtime.printing import Language
from ozaki.linalg import arithmetic
from ozaki.linalg.small import language
from ozaki.linalg.small.language import TEXTS
from ozaki.linalg.small.leaves import complex_quotient

_QUOTIENT = """
using ::quotient;
__device__ Complex quotient(Complex x, Complex divisor) { return complex_quotient(x, divisor); }
"""

LANGUAGE = Language(
    TEXTS,
    {
        function: function.__name__
        for function in (
            *(language.place, language.exponent, language.parts_of, language.number),
            *(language.bits, language.from_bits),
            *(arithmetic.quotient, arithmetic.real_quotient, arithmetic.times_powers),
        )
    },
    {arithmetic.quotient: complex_quotient},
    {complex_quotient: _QUOTIENT},
)

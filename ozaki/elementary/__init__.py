"""Elementary functions, element by element: the exact value, rounded once, the same bits everywhere.

A function is one text (`functions`), straight-line arithmetic that runs on NumPy arrays, as a compiled loop
and as a CUDA kernel. It has a bound of its error; where that leaves two numbers to choose from (Ziv's test),
a longer text decides, and integers of as many bits as that takes what even this leaves.

    digits     numbers of many bits in Python's integers, which make all tables and decide every doubt
    tables     the tables; `pieces`: those of erf and its tails
    values     what texts compute with: NumPy arrays, or entries of a trace (`tracing`)
    words      sums of two float64; `cores`: exp, log, sin, atan of these; `many`: the same in many digits
    functions  all texts, in `exponentials`, `normal`, `logarithms`, `angles`, `two_arguments`, each with the
               range in which it holds and special values (`record`)
    rounding   from a text's number to a float
    evaluate   on a CPU, by `loops_numba`; `cuda`: on a GPU; `api`: arguments and layouts
"""

from __future__ import annotations

from typing import Any

from multiword.runtime.arrays import Array
from ozaki.public import public

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "cospi",
    "elu",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "exp10",
    "expm1",
    "gelu",
    "hypot",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logit",
    "mish",
    "pow",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "sinpi",
    "softplus",
    "sqrt",
    "tan",
    "tanh",
]


def apply(name: str, *x: Any, out: Array | None, where: Any) -> Any:
    """Return a function's values; the texts and what runs them are imported at the first call."""
    from ozaki.elementary import api

    return api.apply(name, *x, out=out, where=where)


@public("Elementary functions", dask=True)
def exp(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return e**x, correctly rounded: `numpy.exp`.

    Parameters
    ----------
    x : array of any shape, float16, bfloat16, float32 or float64, NumPy or CuPy; integers and booleans count
        as float64.
    out : array of the result's shape and dtype, on the same device, to be filled; x itself may be it.
    where : booleans that broadcast with x: elements elsewhere keep what `out` has, or are 0.

    Returns
    -------
    Array of the dtype of x, or float64: the exact value for each number, rounded to nearest, ties to even.
    The same bits on a CPU, with and without numba, and on a GPU. Infinities, NaN and signs of zero as in IEEE
    754 and annex F of C; a NaN is always the same one. No warnings.

    Raises
    ------
    TypeError : x is complex, a `numpy.longdouble` or not numeric, or has integers beyond 2**53; where is not
        boolean; out is no array of x's kind and of the result's dtype.
    ValueError : shapes do not broadcast; out has another shape, or is read-only.

    References
    ----------
    Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last bit" (1991);
    Muller, Elementary Functions (2016); Sibidanov, Zimmermann and Glondu, "The CORE-MATH project" (2022).

    >>> float(exp(0.0))
    1.0
    """
    return apply("exp", x, out=out, where=where)


@public("Elementary functions", dask=True)
def exp2(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 2**x, correctly rounded: `numpy.exp2`.

    As `ozaki.exp`; differs in the function.

    >>> float(exp2(0.5))
    1.4142135623730951
    """
    return apply("exp2", x, out=out, where=where)


@public("Elementary functions", dask=True)
def exp10(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 10**x, correctly rounded: `scipy.special.exp10`.

    As `ozaki.exp`; differs in the function.

    >>> float(exp10(23.0))
    1e+23
    """
    return apply("exp10", x, out=out, where=where)


@public("Elementary functions", dask=True)
def expm1(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return e**x - 1, accurate near 0, correctly rounded: `numpy.expm1`.

    As `ozaki.exp`; differs in the function.

    >>> float(expm1(1e-20))
    1e-20
    """
    return apply("expm1", x, out=out, where=where)


@public("Elementary functions", dask=True)
def log(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the natural logarithm of x, correctly rounded: `numpy.log`.

    As `ozaki.exp`; differs in the function.

    >>> float(log(10.0))
    2.302585092994046
    """
    return apply("log", x, out=out, where=where)


@public("Elementary functions", dask=True)
def log2(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the logarithm of x to base 2, correctly rounded: `numpy.log2`.

    As `ozaki.exp`; differs in the function.

    >>> float(log2(8.0))
    3.0
    """
    return apply("log2", x, out=out, where=where)


@public("Elementary functions", dask=True)
def log10(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the logarithm of x to base 10, correctly rounded: `numpy.log10`.

    As `ozaki.exp`; differs in the function.

    >>> float(log10(1000.0))
    3.0
    """
    return apply("log10", x, out=out, where=where)


@public("Elementary functions", dask=True)
def log1p(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return log(1 + x), accurate near 0, correctly rounded: `numpy.log1p`.

    As `ozaki.exp`; differs in the function.

    >>> float(log1p(1e-20))
    1e-20
    """
    return apply("log1p", x, out=out, where=where)


@public("Elementary functions", dask=True)
def sqrt(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the square root of x, correctly rounded: `numpy.sqrt`.

    As `ozaki.exp`; differs in the function.

    >>> float(sqrt(2.0))
    1.4142135623730951
    """
    return apply("sqrt", x, out=out, where=where)


@public("Elementary functions", dask=True)
def rsqrt(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 1 / √x, rounded once, correctly rounded: `torch.rsqrt`.

    As `ozaki.exp`; differs in the function.

    >>> float(rsqrt(3.0))
    0.5773502691896257
    """
    return apply("rsqrt", x, out=out, where=where)


@public("Elementary functions", dask=True)
def cbrt(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the cube root of x, correctly rounded: `numpy.cbrt`.

    As `ozaki.exp`; differs in the function.

    >>> float(cbrt(27.0))
    3.0
    """
    return apply("cbrt", x, out=out, where=where)


@public("Elementary functions", dask=True)
def sin(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the sine of x, in radians, however large, correctly rounded: `numpy.sin`.

    As `ozaki.exp`; differs in the function.

    >>> float(sin(1e22))
    -0.8522008497671888
    """
    return apply("sin", x, out=out, where=where)


@public("Elementary functions", dask=True)
def cos(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the cosine of x, in radians, however large, correctly rounded: `numpy.cos`.

    As `ozaki.exp`; differs in the function.

    >>> float(cos(1e22))
    0.523214785395139
    """
    return apply("cos", x, out=out, where=where)


@public("Elementary functions", dask=True)
def tan(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the tangent of x, in radians, however large, correctly rounded: `numpy.tan`.

    As `ozaki.exp`; differs in the function.

    >>> float(tan(1e22))
    -1.6287782256068988
    """
    return apply("tan", x, out=out, where=where)


@public("Elementary functions", dask=True)
def sinpi(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the sine of π·x, correctly rounded.

    As `ozaki.exp`; differs in the function.

    >>> float(sinpi(1.0))
    0.0
    """
    return apply("sinpi", x, out=out, where=where)


@public("Elementary functions", dask=True)
def cospi(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the cosine of π·x, correctly rounded.

    As `ozaki.exp`; differs in the function.

    >>> float(cospi(0.5))
    0.0
    """
    return apply("cospi", x, out=out, where=where)


@public("Elementary functions", dask=True)
def asin(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle from -π/2 to π/2 whose sine is x, correctly rounded: `numpy.asin`.

    As `ozaki.exp`; differs in the function.

    >>> float(asin(1.0))
    1.5707963267948966
    """
    return apply("asin", x, out=out, where=where)


@public("Elementary functions", dask=True)
def acos(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle from 0 to π whose cosine is x, correctly rounded: `numpy.acos`.

    As `ozaki.exp`; differs in the function.

    >>> float(acos(-1.0))
    3.141592653589793
    """
    return apply("acos", x, out=out, where=where)


@public("Elementary functions", dask=True)
def atan(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle from -π/2 to π/2 whose tangent is x, correctly rounded: `numpy.atan`.

    As `ozaki.exp`; differs in the function.

    >>> float(atan(1.0))
    0.7853981633974483
    """
    return apply("atan", x, out=out, where=where)


@public("Elementary functions", dask=True)
def sinh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the hyperbolic sine of x, correctly rounded: `numpy.sinh`.

    As `ozaki.exp`; differs in the function.

    >>> float(sinh(1.0))
    1.1752011936438014
    """
    return apply("sinh", x, out=out, where=where)


@public("Elementary functions", dask=True)
def cosh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the hyperbolic cosine of x, correctly rounded: `numpy.cosh`.

    As `ozaki.exp`; differs in the function.

    >>> float(cosh(1.0))
    1.5430806348152437
    """
    return apply("cosh", x, out=out, where=where)


@public("Elementary functions", dask=True)
def tanh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the hyperbolic tangent of x, correctly rounded: `numpy.tanh`.

    As `ozaki.exp`; differs in the function.

    >>> float(tanh(1.0))
    0.7615941559557649
    """
    return apply("tanh", x, out=out, where=where)


@public("Elementary functions", dask=True)
def asinh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the number whose hyperbolic sine is x, correctly rounded: `numpy.asinh`.

    As `ozaki.exp`; differs in the function.

    >>> float(asinh(1.0))
    0.881373587019543
    """
    return apply("asinh", x, out=out, where=where)


@public("Elementary functions", dask=True)
def acosh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the number from 0 whose hyperbolic cosine is x, correctly rounded: `numpy.acosh`.

    As `ozaki.exp`; differs in the function.

    >>> float(acosh(2.0))
    1.3169578969248168
    """
    return apply("acosh", x, out=out, where=where)


@public("Elementary functions", dask=True)
def atanh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the number whose hyperbolic tangent is x, correctly rounded: `numpy.atanh`.

    As `ozaki.exp`; differs in the function.

    >>> float(atanh(0.5))
    0.5493061443340549
    """
    return apply("atanh", x, out=out, where=where)


@public("Elementary functions", dask=True)
def erf(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the error function of x, correctly rounded: `scipy.special.erf`.

    As `ozaki.exp`; differs in the function.

    >>> float(erf(1.0))
    0.8427007929497149
    """
    return apply("erf", x, out=out, where=where)


@public("Elementary functions", dask=True)
def erfc(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 1 - erf(x), to full relative accuracy, correctly rounded: `scipy.special.erfc`.

    As `ozaki.exp`; differs in the function.

    >>> float(erfc(10.0))
    2.088487583762545e-45
    """
    return apply("erfc", x, out=out, where=where)


@public("Elementary functions", dask=True)
def sigmoid(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 1 / (1 + e**-x), correctly rounded: `torch.sigmoid`.

    As `ozaki.exp`; differs in the function.

    >>> float(sigmoid(0.0))
    0.5
    """
    return apply("sigmoid", x, out=out, where=where)


@public("Elementary functions", dask=True)
def logit(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return log(x / (1 - x)), correctly rounded: `torch.logit`.

    As `ozaki.exp`; differs in the function.

    >>> float(logit(0.75))
    1.0986122886681098
    """
    return apply("logit", x, out=out, where=where)


@public("Elementary functions", dask=True)
def softplus(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return log(1 + e**x), correctly rounded: `torch.nn.functional.softplus`.

    As `ozaki.exp`; differs in the function.

    >>> float(softplus(0.0))
    0.6931471805599453
    """
    return apply("softplus", x, out=out, where=where)


@public("Elementary functions", dask=True)
def silu(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return x / (1 + e**-x), correctly rounded: `torch.nn.functional.silu`.

    As `ozaki.exp`; differs in the function.

    >>> float(silu(1.0))
    0.7310585786300049
    """
    return apply("silu", x, out=out, where=where)


@public("Elementary functions", dask=True)
def gelu(x: Array, out: Array | None = None, *, where: Any = True, approximate: str = "none") -> Any:
    """Return x·Φ(x), Φ the normal distribution, correctly rounded: `torch.nn.functional.gelu`.

    As `ozaki.exp`; differs in the function, and in what it is told.

    Parameters
    ----------
    approximate : "none", or "tanh" for x·sigmoid(2√(2/π)·(x + 0.044715·x³)), a function of its own.

    >>> float(gelu(1.0))
    0.8413447460685429
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return apply("gelu" if approximate == "none" else "gelu_tanh", x, out=out, where=where)


@public("Elementary functions", dask=True)
def elu(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return x for x > 0, e**x - 1 elsewhere, correctly rounded: `torch.nn.functional.elu`.

    As `ozaki.exp`; differs in the function.

    >>> float(elu(-1.0))
    -0.6321205588285577
    """
    return apply("elu", x, out=out, where=where)


@public("Elementary functions", dask=True)
def mish(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return x·tanh(log(1 + e**x)), correctly rounded: `torch.nn.functional.mish`.

    As `ozaki.exp`; differs in the function.

    >>> float(mish(1.0))
    0.8650983882673103
    """
    return apply("mish", x, out=out, where=where)


@public("Elementary functions")
def pow(x: Array, y: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return x**y, correctly rounded: `numpy.pow`.

    As `ozaki.exp`; differs in taking two arrays, which broadcast.
    A Python number takes the dtype of the other.

    Parameters
    ----------
    x, y : arrays as that of `ozaki.exp`.

    >>> float(pow(2.0, 0.5))
    1.4142135623730951
    """
    return apply("pow", x, y, out=out, where=where)


@public("Elementary functions")
def atan2(y: Array, x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle of the point (x, y), from -π to π, correctly rounded: `numpy.atan2`.

    As `ozaki.exp`; differs in taking two arrays, which broadcast.
    A Python number takes the dtype of the other.

    Parameters
    ----------
    y, x : arrays as that of `ozaki.exp`.

    >>> float(atan2(1.0, -1.0))
    2.356194490192345
    """
    return apply("atan2", y, x, out=out, where=where)


@public("Elementary functions")
def hypot(x: Array, y: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return √(x² + y²), without overflow, correctly rounded: `numpy.hypot`.

    As `ozaki.exp`; differs in taking two arrays, which broadcast.
    A Python number takes the dtype of the other.

    Parameters
    ----------
    x, y : arrays as that of `ozaki.exp`.

    >>> float(hypot(3.0, 4.0))
    5.0
    """
    return apply("hypot", x, y, out=out, where=where)


@public("Elementary functions")
def logaddexp(x: Array, y: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return log(e**x + e**y), correctly rounded: `numpy.logaddexp`.

    As `ozaki.exp`; differs in taking two arrays, which broadcast.
    A Python number takes the dtype of the other.

    Parameters
    ----------
    x, y : arrays as that of `ozaki.exp`.

    >>> float(logaddexp(0.0, 0.0))
    0.6931471805599453
    """
    return apply("logaddexp", x, y, out=out, where=where)
